//! Arguments of `config` and `health`.

use clap::{Args, Subcommand};
use toolbus_config::HttpUrl;

/// `config`.
#[derive(Debug, Args)]
pub struct ConfigOptions {
    /// What to do.
    #[command(subcommand)]
    pub command: ConfigCommand,
}

/// What to do with the settings.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print the settings that hold and where each comes from, secrets masked
    Show,
    /// Change one value in the settings file
    ///
    /// The file is that of --config or TOOLBUS_CONFIG, else toolbus.toml of the current folder, and
    /// is made where it is missing. Its comments and its order stay. What is no setting, or no
    /// value of it, is refused and changes nothing.
    Set(ConfigSet),
    /// Print where the settings file is, or would be
    Path,
}

/// `config set`.
#[derive(Debug, Args)]
pub struct ConfigSet {
    /// The setting, such as discovery.enabled
    #[arg(value_name = "KEY")]
    pub key: String,

    /// Its value, written as in the environment: lists with commas, tables as JSON; or - to read it
    /// from standard input, as secrets should be
    #[arg(value_name = "VALUE", allow_hyphen_values = true)]
    pub value: String,
}

/// `health`.
#[derive(Debug, Args)]
pub struct HealthOptions {
    /// The health port to ask, such as 127.0.0.1:8080 [env: TOOLBUS_HEALTH]
    #[arg(long, value_name = "ADDRESS", conflicts_with = "url")]
    pub health: Option<String>,

    /// Ask an HTTP API of toolbus at this address instead, by its /v1/health
    #[arg(long, value_name = "URL")]
    pub url: Option<HttpUrl>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
