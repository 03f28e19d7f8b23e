//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use toolbus_config::{Setting, TimeSpan};
use toolbus_runtime::arguments::{
    CommonArguments, GLOBAL_OPTIONS, MemberArguments, ServiceArguments,
};
use toolbus_runtime::doctor::DoctorOptions;

/// Serves the tools of MCP servers on the bus.
///
/// The servers are listed in mcp.json, as MCP clients have it: {"mcpServers": {"time": {"command":
/// "mcp-server-time"}, "docs": {"type": "http", "url": "https://host/mcp"}}}.
#[derive(Debug, Parser)]
#[command(name = "mcp-bridge", version, max_term_width = 100)]
pub struct Arguments {
    /// Options of every program.
    #[command(flatten)]
    pub common: CommonArguments,

    /// Options of what joins the bus.
    #[command(flatten)]
    pub member: MemberArguments,

    /// Options of every service.
    #[command(flatten)]
    pub service: ServiceArguments,

    /// The file that lists the servers. Without it mcp.json of the current folder, where there is
    /// one [env: TOOLBUS_MCP__CONFIG]
    #[arg(long, value_name = "FILE", global = true, help_heading = GLOBAL_OPTIONS)]
    pub mcp_config: Option<PathBuf>,

    /// Agent to tell which servers there are; may be given several times. The first names the
    /// queues [default: RockBot] [env: TOOLBUS_AGENTS]
    #[arg(long = "agent", value_name = "NAME")]
    pub agents: Vec<String>,

    /// What to do; without it, serve.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What to do beside serving.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show what is new or not what it was when it was first seen, and accept it
    ///
    /// Tools, prompts, and how a server introduces itself to models. Without --all and without one
    /// of them, it only shows what has changed. A bridge that runs takes in what is accepted within
    /// seconds.
    Accept(Accept),
    /// Log in at a server, as its entry in mcp.json says with auth
    ///
    /// Prints an address to open in a browser, on this machine or another one. A browser on another
    /// machine ends at an address that it cannot open: paste that here. The token is kept for
    /// bridges of the same user, which pick it up by themselves.
    Login(Login),
    /// Look whether all is well here, and say what mends what is not
    ///
    /// The settings, the broker, the list of servers, the vault, the health port, and each server,
    /// which is started or connected to once more beside a bridge that runs. Options that say how
    /// to serve stand before it: mcp-bridge --bus URL doctor. Exit code: 0 when nothing is wrong; 1
    /// when something is.
    Doctor(DoctorOptions),
}

/// `accept`.
#[derive(Debug, Args)]
pub struct Accept {
    /// The server; without it, what waits of every server is shown
    // Not called `server` or `name`, which may be options of every program.
    #[arg(value_name = "SERVER")]
    pub of: Option<String>,

    /// Its tool
    #[arg(value_name = "TOOL", requires = "of")]
    pub tool: Option<String>,

    /// Its prompt
    #[arg(long, value_name = "NAME", requires = "of", conflicts_with = "tool")]
    pub prompt: Option<String>,

    /// Its name, title, description and instructions
    #[arg(long, requires = "of", conflicts_with_all = ["tool", "prompt"])]
    pub introduction: bool,

    /// Accept everything of the server
    #[arg(long, requires = "of", conflicts_with_all = ["tool", "prompt", "introduction"])]
    pub all: bool,
}

/// `login`.
#[derive(Debug, Args)]
pub struct Login {
    /// The server, by its name in mcp.json
    #[arg(value_name = "SERVER")]
    pub server: String,

    /// How long to wait for the login, such as 90s or 10m
    #[arg(long, value_name = "TIME", default_value = "5m")]
    pub timeout: TimeSpan,
}

impl Arguments {
    /// What the options set.
    pub(crate) fn settings(&self) -> Vec<Setting> {
        let path = self.mcp_config.as_ref().map(|path| path.to_string_lossy().into_owned());
        let path = path.map(|path| Setting::text("mcp.config", path, "--mcp-config"));
        let agents = (!self.agents.is_empty())
            .then(|| Setting::json("agents", self.agents.clone(), "--agent"));
        let mut settings = self.member.settings();
        settings.extend(self.service.settings());
        settings.extend(path.into_iter().chain(agents));
        settings
    }
}
