//! The command line.

use clap::Parser;
use toolbus_config::Setting;
use toolbus_runtime::arguments::{CommonArguments, ServiceArguments};

/// Tells MCP clients what an OpenRouter account says of itself: credits, models, keys, generations.
///
/// It can only read. The account's key comes from OPENROUTER_API_KEY, or from the file that
/// OPENROUTER_API_KEY_FILE names.
#[derive(Debug, Parser)]
#[command(name = "openrouter-mcp", version, max_term_width = 100)]
pub struct Arguments {
    /// Options of every program.
    #[command(flatten)]
    pub common: CommonArguments,

    /// Options of every service.
    #[command(flatten)]
    pub service: ServiceArguments,

    /// Name of this instance [env: TOOLBUS_NAME]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,

    /// Where to serve MCP clients over streamable HTTP, at the paths / and /mcp
    /// [default: 127.0.0.1:8080] [env: TOOLBUS_HTTP__ADDRESS]
    #[arg(long, value_name = "ADDRESS", conflicts_with = "stdio")]
    pub listen: Option<String>,

    /// Serve the one client on standard input and output instead, and end with it
    #[arg(long)]
    pub stdio: bool,
}

impl Arguments {
    /// What the options set.
    pub(crate) fn settings(&self) -> Vec<Setting> {
        let name = self.name.as_deref();
        let listen = self.listen.as_deref();
        let mut settings = self.service.settings();
        settings.extend(name.map(|name| Setting::text("name", name, "--name")));
        settings.extend(listen.map(|at| Setting::text("http.address", at, "--listen")));
        settings
    }
}
