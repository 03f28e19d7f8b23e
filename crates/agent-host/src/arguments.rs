//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use toolbus_config::TimeSpan;
use toolbus_runtime::arguments::CommonArguments;

/// Gives LLM agents their hands: lists tools, runs them, and serves them.
///
/// Without a broker (--bus) the whole fleet runs embedded in this process: Python in a local
/// sandbox, and the MCP servers of mcp.json. With one, this process is a member of the fleet.
#[derive(Debug, Parser)]
#[command(name = "agent-host", version, max_term_width = 100)]
pub struct Arguments {
    /// Options that every service takes.
    #[command(flatten)]
    pub common: CommonArguments,

    /// MCP servers to run when embedded; not used with --bus. Without it mcp.json of the current
    /// folder, where there is one [env: TOOLBUS_MCP__CONFIG]
    #[arg(long, value_name = "FILE", global = true)]
    pub mcp_config: Option<PathBuf>,

    /// Use mcp.json of the current folder without asking whether the folder is trusted
    /// [env: TOOLBUS_TRUST_FOLDER]
    #[arg(long, global = true)]
    pub trust_folder: bool,

    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the tools that there are
    Tools(Tools),
    /// Run one tool and print what it returns
    ///
    /// Exit code: 0 when the tool succeeds; 1 when it fails, with the code and the message on
    /// standard error; 2 when the call itself is written wrongly.
    Invoke(Invoke),
    /// Serve the agent's tools on the bus until stopped
    Serve(Serve),
    /// Show the embedded fleet at work, step by step
    Demo,
}

/// `serve`.
#[derive(Debug, Args)]
pub struct Serve {
    /// Also serve them to MCP clients at this address, such as 127.0.0.1:8800: the agent's own at
    /// the path /mcp, those of one MCP server at /mcp/NAME [env: TOOLBUS_MCP_FACE__ADDRESS]
    #[arg(long, value_name = "ADDRESS")]
    pub mcp: Option<String>,
}

/// `tools`.
#[derive(Debug, Args)]
pub struct Tools {
    /// Print JSON, with the schema of each tool
    #[arg(long)]
    pub json: bool,
}

/// `invoke`.
#[derive(Debug, Args)]
pub struct Invoke {
    /// Name of the tool
    // Not called `name`: that is an option of every program, which would be taken for this.
    #[arg(value_name = "NAME")]
    pub tool: String,

    /// Arguments of the tool as JSON, or - to read them from standard input
    #[arg(value_name = "JSON")]
    pub arguments: Option<String>,

    /// How long to wait, such as 30s or 2m; the tool's own time when not given
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub timeout: Option<Duration>,

    /// Print the outcome as JSON, errors too
    #[arg(long)]
    pub json: bool,

    /// Save the files that the tool gives back, such as pictures, in this folder; none that is
    /// there is overwritten
    #[arg(long, value_name = "FOLDER")]
    pub save: Option<PathBuf>,
}

fn parse_time(text: &str) -> Result<Duration, String> {
    let time = text.parse::<TimeSpan>().map_err(|error| error.to_string())?.duration();
    if time.is_zero() { Err("a call needs some time".to_owned()) } else { Ok(time) }
}
