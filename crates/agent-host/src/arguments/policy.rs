//! Arguments of `policy`.

use clap::{Args, Subcommand};
use toolbus_policy::Preset;
use toolbus_tools::id::SessionId;
use toolbus_tools::{Door, Principal};
use toolbus_wire::name::AgentName;

use super::parse_principal_argument;

/// `policy`.
#[derive(Debug, Args)]
pub struct Policy {
    /// What to show.
    #[command(subcommand)]
    pub command: PolicyCommand,
}

/// What to show of the policy.
#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Print what is said of every tool, principal and door
    Matrix(Matrix),
    /// Say what is said of one call, and by which rule
    ///
    /// Exit code: 0 when the call may run; 1 when it may not, or not without an approval; 2 when
    /// there is no such tool.
    Why(Why),
    /// Print how many rules there are, and what they name that there is not
    ///
    /// Exit code: 0 when the settings are right, and 2 when they have a mistake.
    Check,
    /// Print the rule book as TOML that can be pasted into the settings
    Show(Show),
}

/// `policy show`.
#[derive(Debug, Args)]
pub struct Show {
    /// Print the rule book of this preset instead: open, careful or strict
    #[arg(long, value_name = "NAME", value_parser = parse_preset)]
    pub preset: Option<Preset>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `policy matrix`.
#[derive(Debug, Args)]
pub struct Matrix {
    /// Print JSON, with every cell by itself
    #[arg(long)]
    pub json: bool,
}

/// `policy why`.
#[derive(Debug, Args)]
pub struct Why {
    /// The tool: its name, or its id such as mcp:github/create_issue
    #[arg(value_name = "TOOL")]
    pub tool: String,

    /// The doors that the call came through, with commas between them, such as mcp,chain
    #[arg(
        long = "door",
        value_name = "DOOR",
        value_delimiter = ',',
        default_value = "command-line",
        value_parser = parse_door
    )]
    pub doors: Vec<Door>,

    /// Who calls, such as claimed:alice [default: local:local]
    #[arg(long, value_name = "PRINCIPAL", value_parser = parse_principal_argument)]
    pub principal: Option<Principal>,

    /// The agent that is called for [default: the agent of the settings]
    #[arg(long, value_name = "AGENT", value_parser = |text: &str| AgentName::parse(text))]
    pub agent: Option<AgentName>,

    /// The session that the call belongs to [default: none]
    #[arg(long, value_name = "SESSION", value_parser = |text: &str| SessionId::parse(text))]
    pub session: Option<SessionId>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

fn parse_preset(text: &str) -> Result<Preset, String> {
    let names = Preset::ALL.map(Preset::as_str).join(", ");
    Preset::parse(text).ok_or_else(|| format!("it is one of {names}"))
}

fn parse_door(text: &str) -> Result<Door, String> {
    let named = Door::ALL.into_iter().find(|door| door.as_str() == text);
    named.ok_or_else(|| format!("it is one of {}", Door::ALL.map(Door::as_str).join(", ")))
}
