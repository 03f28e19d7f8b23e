//! Arguments of `mcp`.

use clap::{Args, Subcommand};

/// `mcp`.
#[derive(Debug, Args)]
pub struct McpOptions {
    /// What to do.
    #[command(subcommand)]
    pub command: McpCommand,
}

/// What to do with the list of MCP servers.
#[derive(Debug, Subcommand)]
pub enum McpCommand {
    /// List the servers of the file
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the entry of a server, with *** in the place of what is secret
    Show {
        /// The server
        #[arg(value_name = "SERVER")]
        server: String,
    },
    /// Add a server: a program, or an address
    ///
    /// Everything behind -- is the program and its arguments:
    /// agent-host mcp add files -- npx -y @modelcontextprotocol/server-filesystem /srv/data
    Add(McpAdd),
    /// Take a server out
    Remove {
        /// The server
        #[arg(value_name = "SERVER")]
        server: String,
    },
    /// Connect every server of the file and say what each offers
    ///
    /// With a broker, say what the bridges there have made of them.
    Sync {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// `mcp add`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("target").required(true).args(["url", "program"]))]
pub struct McpAdd {
    /// What the server is called
    #[arg(value_name = "SERVER")]
    pub server: String,

    /// The address of a server that runs already
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,

    /// How an address is spoken with: http or sse [default: found out]
    #[arg(long = "type", value_name = "TYPE", requires = "url", value_parser = ["http", "sse"])]
    pub transport: Option<String>,

    /// A variable of the program's environment: NAME=VALUE, or NAME to be asked for its value.
    /// What is typed for a name with TOKEN, KEY, SECRET or PASSWORD is not shown, and goes to the
    /// vault where there is one
    #[arg(long, value_name = "NAME[=VALUE]", requires = "program")]
    pub env: Vec<String>,

    /// A variable to be asked for that may be left empty, and is left out then
    #[arg(long, value_name = "NAME", requires = "program")]
    pub optional_env: Vec<String>,

    /// A header of every request to an address: NAME=VALUE, or NAME to be asked for its value,
    /// which is not shown and goes to the vault where there is one
    #[arg(long, value_name = "NAME[=VALUE]", requires = "url")]
    pub header: Vec<String>,

    /// The program and its arguments
    #[arg(value_name = "PROGRAM", last = true)]
    pub program: Vec<String>,
}
