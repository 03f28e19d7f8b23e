//! Arguments of `policy`.

use clap::{Args, Subcommand};
use toolbus_policy::Preset;
use toolbus_tools::id::SessionId;
use toolbus_tools::{Door, Principal};
use toolbus_wire::name::AgentName;

use super::parse_principal_argument;

/// Arguments of `policy`.
#[derive(Debug, Args)]
pub struct Policy {
    /// The subcommand.
    #[command(subcommand)]
    pub command: PolicyCommand,
}

/// Subcommands of `policy`.
#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Print the decision for every tool, principal and door
    Matrix(Matrix),
    /// Explain the decision about one call, and name the rule that decides
    ///
    /// Exit code: 0 if the call may run; 1 if it is denied or needs an approval; 2 if the tool does
    /// not exist.
    Why(Why),
    /// Check the rules: print their number, and the names in them that match nothing
    ///
    /// Exit code: 0 if the settings are valid; 2 if they have a mistake.
    Check,
    /// Print the rule book as TOML that can be pasted into the settings
    Show(Show),
}

/// Arguments of `policy show`.
#[derive(Debug, Args)]
pub struct Show {
    /// Print the rule book of this preset instead: open, careful or strict
    #[arg(long, value_name = "NAME", value_parser = parse_preset)]
    pub preset: Option<Preset>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `policy matrix`.
#[derive(Debug, Args)]
pub struct Matrix {
    /// Print JSON, with a separate entry for each cell
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `policy why`.
#[derive(Debug, Args)]
pub struct Why {
    /// Name of the tool, or its id, such as mcp:github/create_issue
    #[arg(value_name = "TOOL")]
    pub tool: String,

    /// Comma-separated doors that the call came through, such as mcp,chain
    #[arg(
        long = "door",
        value_name = "DOOR",
        value_delimiter = ',',
        default_value = "command-line",
        value_parser = parse_door
    )]
    pub doors: Vec<Door>,

    /// Principal that makes the call, such as claimed:alice [default: local:local]
    #[arg(long, value_name = "PRINCIPAL", value_parser = parse_principal_argument)]
    pub principal: Option<Principal>,

    /// Agent that the call is made for [default: the agent of the settings]
    #[arg(long, value_name = "AGENT", value_parser = |text: &str| AgentName::parse(text))]
    pub agent: Option<AgentName>,

    /// Session that the call belongs to [default: none]
    #[arg(long, value_name = "SESSION", value_parser = |text: &str| SessionId::parse(text))]
    pub session: Option<SessionId>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

fn parse_preset(text: &str) -> Result<Preset, String> {
    let names = Preset::ALL.map(Preset::as_str).join(", ");
    Preset::parse(text).ok_or_else(|| format!("expected one of {names}"))
}

fn parse_door(text: &str) -> Result<Door, String> {
    let named = Door::ALL.into_iter().find(|door| door.as_str() == text);
    named.ok_or_else(|| format!("expected one of {}", Door::ALL.map(Door::as_str).join(", ")))
}
