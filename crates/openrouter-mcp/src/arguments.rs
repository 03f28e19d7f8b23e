//! The command line.

use clap::Parser;
use toolbus_config::{Secret, Setting};
use toolbus_runtime::arguments::CommonArguments;

/// Tells MCP clients what an OpenRouter account says of itself: credits, models, keys, generations.
///
/// It can only read. The account's key comes from OPENROUTER_API_KEY, or from the file that
/// OPENROUTER_API_KEY_FILE names.
#[derive(Debug, Parser)]
#[command(name = "openrouter-mcp", version, max_term_width = 100)]
// Options of every service, but this one does not know the bus.
#[command(mut_arg("bus", |bus| bus.hide(true).value_parser(no_bus)))]
pub struct Arguments {
    /// Options that every service takes.
    #[command(flatten)]
    pub common: CommonArguments,

    /// Where to serve MCP clients over streamable HTTP, at the paths / and /mcp
    /// [default: 127.0.0.1:8080] [env: TOOLBUS_HTTP__ADDRESS]
    #[arg(long, value_name = "ADDRESS", conflicts_with = "stdio")]
    pub listen: Option<String>,

    /// Serve the one client on standard input and output instead, and end with it
    #[arg(long)]
    pub stdio: bool,
}

impl Arguments {
    /// What this program's own options set.
    pub(crate) fn settings(&self) -> Vec<Setting> {
        let listen = self.listen.clone();
        listen
            .map(|address| Setting::text("http.address", address, "--listen"))
            .into_iter()
            .collect()
    }
}

fn no_bus(_: &str) -> Result<Secret, String> {
    Err("this program does not know the bus".to_owned())
}
