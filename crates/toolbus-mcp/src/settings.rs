//! The settings of MCP servers, for every program that runs them.

use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolbus_config::TimeSpan;
use toolbus_tools::GrantCheck;
use toolbus_wire::name::{AgentName, InstanceId};

use crate::bridge;
use crate::config::{self, Config, Entry, Mistake, StdioIsolation, ToolChanges, Variables};
use crate::registration_rules::{
    AddressRegistration, PrivateAddresses, RegistrationRules, StdioRegistration,
};
use crate::registrations::Registrations;
use crate::reload::Sources;
use crate::server_credentials::ServerCredentials;
use crate::server_pool::{PoolConfig, ServerPool, StartError};
use crate::supervisor::Supervisor;
use crate::trust::{self, Pins};

/// The file that is read when none is named and it is there.
pub const DEFAULT_FILE: &str = "mcp.json";
/// What the file of registrations is called when none is named.
pub const DEFAULT_REGISTRATIONS: &str = "mcp.registered.json";

/// Which MCP servers run, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct McpSettings {
    /// The file that lists the servers. When not set: `mcp.json` of the current folder, where
    /// there is one.
    pub config: Option<PathBuf>,
    /// The file that keeps the servers which agents register while the program runs. When not set:
    /// `mcp.registered.json` beside the file that lists the servers.
    pub registrations: Option<PathBuf>,
    /// The folder that keeps the tokens of servers where a person has logged in with `mcp-bridge
    /// login`, one file for each, for its owner only. When not set: `toolbus/tokens` in the user's
    /// data folder (`XDG_DATA_HOME`, else `~/.local/share`).
    pub tokens: Option<PathBuf>,
    /// Whether agents, and MCP clients of the MCP endpoint, may register servers by their
    /// addresses: `off`, `allow-list` for https at the hosts of `mcp.registration_hosts`, or `any`.
    /// A registered server is offered to every agent.
    pub registration: AddressRegistration,
    /// The hosts at which servers may be registered, with `allow-list`: names, and `*.NAME` for
    /// all below a name.
    #[schemars(inner(regex(pattern = r"^(\*\.)?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$")))]
    pub registration_hosts: Vec<String>,
    /// Whether servers that agents register may be at addresses that are not public: of this
    /// machine, this network, this cluster or this cloud. Servers of the list may be anywhere.
    pub allow_private_registration: bool,
    /// Whether agents may register servers that are programs to start on this machine. That is
    /// running code of the agent's choice.
    pub allow_stdio_registration: bool,
    /// Whether those programs run in a sandbox where bubblewrap can make one: with the network, and
    /// with nothing of this machine but the system's programs and a home in memory. A program of
    /// this machine's own folders does not start there.
    pub sandbox_registered: bool,
    /// Isolation of MCP servers that are programs. `shield` hides the state folder, the vault,
    /// keys, files of secrets and all other processes from them, if bubblewrap works; `off` hides
    /// nothing. `sandbox` in the entry of a server overrides it.
    pub stdio_isolation: StdioIsolation,
    /// How long a server may take to connect and to list its tools. An entry may say otherwise
    /// (`startupTimeoutMs`), and programs that may have to be downloaded first have three minutes.
    pub connect_timeout: TimeSpan,
    /// How long a call may take when neither the caller nor the server's entry says.
    pub call_timeout: TimeSpan,
    /// How long a call may take, whatever its caller asks for. An entry may grant more.
    pub call_timeout_max: TimeSpan,
    /// How long a call may take in all while its server reports progress, where its caller is an
    /// MCP client that has asked for that: each report gives the call the time that it was granted
    /// once more. Shorter than that time, it has no effect.
    pub call_timeout_with_progress_max: TimeSpan,
    /// What becomes of a tool, a prompt or a server's introduction that is new or has changed since
    /// the server was first seen: `announce` takes it and tells what has changed, `quarantine`
    /// holds it back until a person accepts it. An entry may say otherwise (`toolChanges`).
    pub tool_changes: ToolChanges,
    /// The folder that remembers what tools were. When not set: one for each list of servers in
    /// the user's state folder (`XDG_STATE_HOME`, else `~/.local/state`); where that cannot be
    /// had, tools are remembered until the program ends.
    pub pins: Option<PathBuf>,
    /// How many calls run at a time, over all servers; more wait in the queue. Each may hold a
    /// message of up to 16 MiB.
    #[schemars(range(min = 1, max = 1000))]
    pub concurrency: NonZeroU16,
    /// How many calls of one server run at a time; more are refused at once, as busy, so that a
    /// server that does not answer leaves places to the others. When not set: a quarter of
    /// `mcp.concurrency`.
    #[schemars(range(min = 1, max = 1000))]
    pub concurrency_per_server: Option<NonZeroU16>,
    /// Whether the file that is read when none is named is left out, because its folder is not
    /// trusted. The program that asks for trust sets this.
    #[serde(skip)]
    pub without_default_file: bool,
    /// Who looks after servers that are programs. Not the operator's to set: `main` has it from
    /// [`crate::supervisor::enter`].
    #[serde(skip)]
    pub supervisor: Option<Supervisor>,
    /// Where servers have the credentials from that their entries name by `${vault:NAME}`. The
    /// program that has a vault sets this.
    #[serde(skip)]
    pub credentials: Option<ServerCredentials>,
    /// Files and folders with secrets of the program beside those in these settings. A program that
    /// has such files sets this.
    #[serde(skip)]
    pub secret_paths: Vec<PathBuf>,
    /// Whether servers are run only while the bridge is elected for them, see
    /// [`PoolConfig::elects_owners`]. Not a setting.
    #[serde(skip)]
    pub elects_owners: bool,
    /// Whether whoever starts the servers tells of mistakes in their list ([`McpSettings::list`]),
    /// which are otherwise logged. Not a setting.
    #[serde(skip)]
    pub caller_tells_mistakes: bool,
}

impl Default for McpSettings {
    fn default() -> Self {
        Self {
            config: None,
            registrations: None,
            tokens: None,
            registration: AddressRegistration::Off,
            registration_hosts: Vec::new(),
            allow_private_registration: false,
            allow_stdio_registration: false,
            sandbox_registered: true,
            stdio_isolation: StdioIsolation::default(),
            connect_timeout: TimeSpan::seconds(15),
            call_timeout: TimeSpan::seconds(60),
            call_timeout_max: TimeSpan::seconds(120),
            call_timeout_with_progress_max: TimeSpan::seconds(60 * 60),
            tool_changes: ToolChanges::default(),
            pins: None,
            concurrency: NonZeroU16::new(256).expect("256 is not zero"),
            concurrency_per_server: None,
            without_default_file: false,
            supervisor: None,
            credentials: None,
            secret_paths: Vec::new(),
            elects_owners: false,
            caller_tells_mistakes: false,
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
    /// The folder of pins cannot be used.
    #[error("the folder of tool pins cannot be used")]
    Pins(#[source] trust::Error),
    /// The servers could not be started.
    #[error("MCP servers cannot be started")]
    Start(#[from] StartError),
}

impl McpSettings {
    /// Reads the files, starts the servers that they list, and follows them until the set is
    /// closed. An entry with a mistake is logged and left out: it is no reason to do without the
    /// others.
    ///
    /// # Errors
    /// When the file is named and not there, or is not JSON.
    pub fn start_servers(&self) -> Result<ServerPool, Error> {
        let path = self.list_file().to_owned();
        let (text, config) = self.read_trusted_list(&path)?;
        if !self.caller_tells_mistakes {
            for mistake in &config.mistakes {
                tracing::error!(%mistake, "mistake in the list of MCP servers");
            }
            for warning in &config.warnings {
                tracing::warn!(%warning, "ignored in the list of MCP servers");
            }
        }

        let registrations = Arc::new(Registrations::at(self.registrations_file()));
        let mut options = PoolConfig::new(std::env::vars_os());
        options.elects_owners = self.elects_owners;

        options.connect_timeout = self.connect_timeout.duration();
        options.call_timeout = self.call_timeout.duration();
        options.call_timeout_max = self.call_timeout_max.duration();
        options.call_timeout_with_progress_max = self.call_timeout_with_progress_max.duration();
        options.calls_per_server_max = self.calls_per_server_max();
        options.supervisor = self.supervisor.clone();
        options.credentials = self.credentials.clone();
        options.sandbox_homes = self.sandbox_homes();
        options.sandbox_registered = self.sandbox_registered;
        options.stdio_isolation = self.stdio_isolation;
        options.secret_folders = self.hidden_folders();
        options.secret_paths = self.hidden_paths();
        options.tool_changes = self.tool_changes;
        options.pins = self.pins()?;
        options.tokens = self.tokens_folder();
        options.registrations = Some(Arc::clone(&registrations));
        let rules = self.registration_rules();
        options.private_registration = rules.private_addresses;

        let set = ServerPool::start(config.servers.clone(), options)?;
        if self.leaves_file_out() {
            return Ok(set);
        }

        Sources::new(path, text, config, registrations, rules).follow_files(&set);
        Ok(set)
    }

    /// How a bridge of these servers is set up for these agents, in this process. `grants` says
    /// which requests it refuses.
    #[must_use]
    pub fn bridge_options(
        &self,
        agents: Vec<AgentName>,
        instance: InstanceId,
        grants: GrantCheck,
    ) -> bridge::Options {
        bridge::Options {
            agents,
            instance,
            concurrency: self.concurrency,
            registration: self.registration_rules(),
            grants,
        }
    }

    fn calls_per_server_max(&self) -> usize {
        let all = usize::from(self.concurrency.get());
        self.concurrency_per_server.map_or(all.div_ceil(4), |max| max.get().into()).min(all)
    }

    /// Where the definitions of tools are pinned.
    ///
    /// # Errors
    /// When a folder is set and cannot be used.
    pub fn pins(&self) -> Result<Pins, Error> {
        if let Some(folder) = &self.pins {
            return Pins::in_folder(folder).map_err(Error::Pins);
        }
        let Some(folder) = self.default_pins_folder() else { return Ok(Pins::in_memory()) };
        Ok(Pins::in_folder(folder).unwrap_or_else(|error| {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "cannot use the folder for tool pins; they are in memory only");
            Pins::in_memory()
        }))
    }

    fn default_pins_folder(&self) -> Option<PathBuf> {
        self.state_folder("pins")
    }

    /// Returns the file of the servers that agents registered.
    fn registrations_file(&self) -> PathBuf {
        let beside = || self.list_file().with_file_name(DEFAULT_REGISTRATIONS);
        self.registrations.clone().unwrap_or_else(beside)
    }

    /// Returns the folders that are hidden from servers behind a shield and created before a server
    /// starts: this user's state, data, tokens and pins.
    #[must_use]
    pub fn hidden_folders(&self) -> Vec<PathBuf> {
        let state = user_folder("XDG_STATE_HOME", ".local/state");
        let data = user_folder("XDG_DATA_HOME", ".local/share");
        let folders = [state, data].into_iter().flatten().map(|folder| folder.join("toolbus"));
        folders.chain(self.pins.clone()).chain(self.tokens_folder()).collect()
    }

    /// Returns the other paths that are hidden from servers behind a shield: the lists of servers,
    /// and other files and folders with secrets of the program.
    #[must_use]
    pub fn hidden_paths(&self) -> Vec<PathBuf> {
        let lists = [self.list_file().to_owned(), self.registrations_file()];
        lists.into_iter().chain(self.secret_paths.iter().cloned()).collect()
    }

    /// Where the homes of sandboxed servers are kept.
    fn sandbox_homes(&self) -> Option<PathBuf> {
        self.state_folder("sandboxes")
    }

    /// A folder of its own for each list of servers: two lists may give one name to two servers.
    fn state_folder(&self, of: &str) -> Option<PathBuf> {
        let list = std::fs::canonicalize(self.list_file()).ok()?;
        let state = user_folder("XDG_STATE_HOME", ".local/state")?;
        let digest = trust::definition::digest(list.as_os_str().as_encoded_bytes());
        Some(state.join("toolbus").join(of).join(&digest[..16]))
    }

    /// The file that lists the servers.
    #[must_use]
    pub fn list_file(&self) -> &Path {
        self.config.as_deref().unwrap_or(Path::new(DEFAULT_FILE))
    }

    /// What agents may register.
    #[must_use]
    pub fn registration_rules(&self) -> RegistrationRules {
        RegistrationRules {
            addresses: self.registration,
            hosts: self.registration_hosts.clone(),
            private_addresses: if self.allow_private_registration {
                PrivateAddresses::Allowed
            } else {
                PrivateAddresses::Denied
            },
            programs: if self.allow_stdio_registration {
                StdioRegistration::Allowed
            } else {
                StdioRegistration::Denied
            },
        }
    }

    /// What the list says, with everything that is wrong with it.
    ///
    /// # Errors
    /// When the file is named and not there, or is not JSON.
    pub fn list(&self) -> Result<Config, Error> {
        self.read_trusted_list(self.list_file()).map(|(_, config)| config)
    }

    /// The entry of one server. What is wrong with it is logged.
    ///
    /// # Errors
    /// When the file is named and not there, or is not JSON.
    pub fn entry(&self, server: &str) -> Result<Option<Entry>, Error> {
        let (_, Config { servers, mistakes, .. }) = self.read_list(self.list_file())?;
        let is_of = |mistake: &Mistake| {
            mistake.server.as_ref().is_some_and(|name| name.eq_ignore_ascii_case(server))
        };
        for mistake in mistakes.iter().filter(|mistake| is_of(mistake)) {
            tracing::error!(%mistake, "mistake in the list of MCP servers");
        }
        Ok(servers.into_iter().find(|entry| entry.name.matches(server)))
    }

    /// The folder that keeps tokens, where there is a place for one.
    #[must_use]
    pub fn tokens_folder(&self) -> Option<PathBuf> {
        self.tokens.clone().or_else(|| {
            let data = user_folder("XDG_DATA_HOME", ".local/share")?;
            Some(data.join("toolbus").join("tokens"))
        })
    }

    /// As [`McpSettings::read_list`], without a file whose folder is not trusted.
    fn read_trusted_list(&self, path: &Path) -> Result<(Option<String>, Config), Error> {
        if self.leaves_file_out() { Ok((None, Config::default())) } else { self.read_list(path) }
    }

    /// Whether the file is not read, because its folder is not trusted.
    fn leaves_file_out(&self) -> bool {
        self.without_default_file && self.config.is_none()
    }

    /// The text of the file, if it is there, and what it says.
    fn read_list(&self, path: &Path) -> Result<(Option<String>, Config), Error> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if self.config.is_none() && error.kind() == std::io::ErrorKind::NotFound => {
                return Ok((None, Config::default()));
            }
            Err(source) => return Err(Error::Read { path: path.to_owned(), source }),
        };

        let variables = |name: &str| std::env::var(name).ok();
        match config::parse(&text, Variables::From(&variables)) {
            Ok(config) => Ok((Some(text), config)),
            Err(source) => Err(Error::File { path: path.to_owned(), source }),
        }
    }
}

/// A folder of the user, as the XDG base directory specification has it: the one that the variable
/// names, else the default below the home folder.
fn user_folder(variable: &str, default: &str) -> Option<PathBuf> {
    let named = std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    named.or_else(|| std::env::home_dir().map(|home| home.join(default)))
}

#[cfg(test)]
mod tests;
