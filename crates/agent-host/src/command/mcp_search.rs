//! `serve --mcp-search`: the search over tools for the MCP client that started this program.

use std::time::Duration;

use tokio::io::{BufReader, stdin, stdout};
use toolbus_runtime::service::{BoxError, Context, Exit};

use super::one_shot::{NeededServers, OneShot};
use crate::search_gateway::SearchGateway;
use crate::settings::Settings;

/// How long servers that are being connected are waited for before the client is answered: clients
/// give a server about a minute for its start.
const START_TIMEOUT: Duration = Duration::from_secs(15);

pub(super) async fn run(settings: &Settings, context: &Context) -> Result<Exit, BoxError> {
    let (one_shot, discovery) =
        OneShot::start_discovering(settings, context, NeededServers::None, START_TIMEOUT).await?;
    let gateway = SearchGateway {
        discovery,
        invoker: one_shot.toolbus().invoker().clone(),
        scope: one_shot.scope(),
    };
    let cancelled = context.shutdown.requested().clone();
    let served = gateway.serve(BufReader::new(stdin()), stdout(), cancelled).await;
    one_shot.stop().await;
    // A client that is gone has nobody to tell.
    Ok(if served.is_ok() { Exit::SUCCESS } else { Exit::FAILURE })
}
