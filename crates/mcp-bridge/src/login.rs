//! `mcp-bridge login`: a person logs in at a server, at this terminal or in a browser elsewhere.

use std::io::Write as _;

use tokio::io::BufReader;
use toolbus_mcp::login;
use toolbus_mcp::settings::McpSettings;
use toolbus_runtime::service::{BoxError, Context, Exit};

use crate::arguments::Login;
use crate::settings::OfflineSettings;

pub(crate) async fn run(
    login: Login,
    settings: OfflineSettings,
    context: Context,
) -> Result<Exit, BoxError> {
    let stop = context.shutdown.requested();
    // What is begun here ends with it: nothing is kept before the end.
    match stop.run_until_cancelled(Box::pin(log_in(login, settings.mcp()))).await {
        Some(done) => done.map(|()| Exit::SUCCESS),
        None => Ok(Exit::FAILURE),
    }
}

async fn log_in(login: Login, settings: &McpSettings) -> Result<(), BoxError> {
    let entry = settings.entry(&login.server)?;
    let entry = entry.ok_or_else(|| login::Error::NoServer(login.server.clone()))?;
    let begun = login::Login::begin(&entry, settings.tokens_folder()).await?;
    print_line(&format!(
        "Open this address in a browser to log in at {}:\n\n  {}\n\n\
         If the browser ends at an address that it cannot open, paste that here.",
        entry.name,
        begun.url()
    ))?;

    begun.finish(login.timeout.duration(), BufReader::new(tokio::io::stdin())).await?;
    print_line(&format!(
        "Logged in at {}. Bridges that run take it up within a minute.",
        entry.name
    ))?;

    Ok(())
}

fn print_line(text: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{text}")?;
    stdout.flush()
}
