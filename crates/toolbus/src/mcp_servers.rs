//! Which MCP servers run in this process, and how they are started.

use std::path::PathBuf;
use std::sync::Arc;

use toolbus_mcp::ServerCredentials;
use toolbus_mcp::bridge;
use toolbus_mcp::config::{self, Config, Variables};
use toolbus_mcp::server_pool::{PoolConfig, ServerPool, StartError};
use toolbus_mcp::settings::{self, McpSettings};
use toolbus_mcp::supervisor::Supervisor;
use toolbus_tools::{CredentialSource, GrantCheck};
use toolbus_wire::name::{AgentName, InstanceId};

/// Which MCP servers run in this process, behind a bridge of its own.
///
/// Servers that are programs want a supervisor, so that nothing below them outlives this process:
/// see [`McpServers::supervisor`].
#[derive(Debug, Clone)]
pub struct McpServers {
    list: ServerList,
    settings: McpSettings,
}

/// Where the list of servers is.
#[derive(Clone)]
enum ServerList {
    /// In a text, which is as secret as what it holds.
    Text(String),
    /// Where the settings say.
    File,
}

impl std::fmt::Debug for ServerList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Text(_) => "Text",
            Self::File => "File",
        })
    }
}

/// Why MCP servers cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    /// The text is no `mcp.json`.
    #[error("the list of MCP servers cannot be read")]
    Text(#[source] config::Error),
    /// Entries of the text have mistakes. All of them are listed, and none quotes a value.
    #[error("mistakes in the list of MCP servers: {}", .0.join("; "))]
    Mistakes(Vec<String>),
    /// The file or a folder of the settings cannot be used.
    #[error(transparent)]
    Settings(#[from] settings::Error),
    /// The HTTP client cannot be built.
    #[error("MCP servers cannot be started")]
    Start(#[from] StartError),
}

impl McpServers {
    /// The servers that the text of an `mcp.json` lists. A mistake in it is an error when the
    /// [`Toolbus`](crate::Toolbus) is opened. `${NAME}` stands for variables of this process's
    /// environment.
    ///
    /// Nothing is kept on disk: what tools were is remembered, and what agents register is kept,
    /// until the servers are closed.
    #[must_use]
    pub fn json(text: impl Into<String>) -> Self {
        Self { list: ServerList::Text(text.into()), settings: McpSettings::default() }
    }

    /// The servers of this file, as `agent-host` runs them: its changes are followed, an entry
    /// with a mistake is logged and left out, and what agents register and what tools were is kept
    /// where [`McpSettings`] says by default.
    #[must_use]
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self::settings(McpSettings { config: Some(path.into()), ..McpSettings::default() })
    }

    /// The servers of these settings.
    #[must_use]
    pub fn settings(settings: McpSettings) -> Self {
        Self { list: ServerList::File, settings }
    }

    /// The same servers, those that are programs below a supervisor each. It is had from
    /// [`enter`](toolbus_mcp::supervisor::enter) as the first thing in `main`, or names the
    /// program `toolbus-mcp-supervisor`.
    #[must_use]
    pub fn supervisor(mut self, supervisor: Supervisor) -> Self {
        self.settings.supervisor = Some(supervisor);
        self
    }

    /// The same servers, those with `${vault:NAME}` in their entries with the credentials of this
    /// source: each has those of the provider `mcp:SERVER`. Without it they are not connected.
    #[must_use]
    pub fn credentials(mut self, source: Arc<dyn CredentialSource>) -> Self {
        self.settings.credentials = Some(ServerCredentials(source));
        self
    }

    /// Begins to connect to the servers, for a bridge that announces them to this agent, and takes
    /// the requests that `grants` lets pass.
    pub(crate) fn start(
        mut self,
        agent: &AgentName,
        instance: InstanceId,
        grants: GrantCheck,
    ) -> Result<(ServerPool, bridge::Options), McpError> {
        self.settings.elects_owners = true;
        let pool = match &self.list {
            ServerList::Text(text) => start_pool(text, &self.settings)?,
            ServerList::File => self.settings.start_servers()?,
        };

        let options = self.settings.bridge_options(vec![agent.clone()], instance, grants);
        Ok((pool, options))
    }
}

/// Starts the servers that a text lists.
fn start_pool(text: &str, settings: &McpSettings) -> Result<ServerPool, McpError> {
    let variables = |name: &str| std::env::var(name).ok();
    let Config { servers, mistakes, warnings } =
        config::parse(text, Variables::From(&variables)).map_err(McpError::Text)?;
    if !mistakes.is_empty() {
        return Err(McpError::Mistakes(mistakes.iter().map(ToString::to_string).collect()));
    }

    for warning in &warnings {
        tracing::warn!(%warning, "ignored in the list of MCP servers");
    }

    let mut options = PoolConfig::new(std::env::vars_os());
    options.supervisor = settings.supervisor.clone();
    options.credentials = settings.credentials.clone();
    options.stdio_isolation = settings.stdio_isolation;
    options.secret_folders = settings.hidden_folders();
    options.secret_paths = settings.hidden_paths();
    options.elects_owners = settings.elects_owners;
    Ok(ServerPool::start(servers, options)?)
}
