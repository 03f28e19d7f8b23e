//! The settings of MCP servers, for every program that runs them.

use std::num::NonZeroU16;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolbus_runtime::config::TimeSpan;

use crate::bridge::StdioRegistration;
use crate::config::{self, Config, Variables};
use crate::servers::{Options, Set, StartError};
use crate::supervisor::Supervisor;

/// The file that is read when none is named and it is there.
pub const DEFAULT_FILE: &str = "mcp.json";

/// Which MCP servers run, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct McpSettings {
    /// The file that lists the servers. When not set: `mcp.json` of the current folder, where
    /// there is one.
    pub config: Option<PathBuf>,
    /// Whether agents may register servers that are programs to start on this machine. That is
    /// running code of the agent's choice.
    pub allow_stdio_registration: bool,
    /// How long a server may take to connect and to list its tools.
    pub connect_timeout: TimeSpan,
    /// How long a call may take when neither the caller nor the server's entry says.
    pub call_timeout: TimeSpan,
    /// How long a call may take, whatever its caller asks for. An entry may grant more.
    pub call_timeout_max: TimeSpan,
    /// How many calls run at a time, over all servers.
    #[schemars(range(min = 1, max = 1000))]
    pub concurrency: NonZeroU16,
    /// Who looks after servers that are programs. Not the operator's to set: `main` has it from
    /// [`crate::supervisor::enter`].
    #[serde(skip)]
    pub supervisor: Option<Supervisor>,
}

impl Default for McpSettings {
    fn default() -> Self {
        Self {
            config: None,
            allow_stdio_registration: false,
            connect_timeout: TimeSpan::seconds(15),
            call_timeout: TimeSpan::seconds(60),
            call_timeout_max: TimeSpan::seconds(120),
            concurrency: NonZeroU16::new(64).expect("64 is not zero"),
            supervisor: None,
        }
    }
}

/// Why no servers could be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("{} cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is no `mcp.json`.
    #[error("{} cannot be used", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: config::Error,
    },
    /// The servers could not be started.
    #[error("MCP servers cannot be started")]
    Start(#[from] StartError),
}

impl McpSettings {
    /// Reads the file and starts the servers that it lists. An entry with a mistake is logged and
    /// left out: it is no reason to do without the others.
    ///
    /// # Errors
    /// When the file is named and not there, or is not JSON.
    pub fn start_servers(&self) -> Result<Set, Error> {
        let Config { servers, mistakes } = self.read()?;
        for mistake in mistakes {
            tracing::error!(%mistake, "a mistake in the list of MCP servers");
        }
        let mut options = Options::new(std::env::vars_os());
        options.connect_timeout = self.connect_timeout.duration();
        options.call_timeout = self.call_timeout.duration();
        options.call_timeout_max = self.call_timeout_max.duration();
        options.supervisor = self.supervisor.clone();
        Ok(Set::start(servers, options)?)
    }

    /// Whether agents may register servers that are programs.
    #[must_use]
    pub fn stdio_registration(&self) -> StdioRegistration {
        if self.allow_stdio_registration {
            StdioRegistration::Allowed
        } else {
            StdioRegistration::Denied
        }
    }

    fn read(&self) -> Result<Config, Error> {
        let path = self.config.as_deref().unwrap_or(Path::new(DEFAULT_FILE));
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if self.config.is_none() && error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Config::default());
            }
            Err(source) => return Err(Error::Read { path: path.to_owned(), source }),
        };
        let variables = |name: &str| std::env::var(name).ok();
        config::parse(&text, Variables::From(&variables))
            .map_err(|source| Error::File { path: path.to_owned(), source })
    }
}
