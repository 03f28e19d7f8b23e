//! What an OpenRouter account says of itself, for MCP clients: credits, keys, models, generations.
//!
//! It holds the account's key and can only read: requests are GET, of a closed list of addresses
//! ([`endpoint`]), by the one type that can send any. It knows no bus; an MCP bridge, or any other
//! MCP client, comes to it.

pub mod arguments;
mod door;
pub mod endpoint;
pub mod error;
mod getter;
mod handler;
pub mod key;
pub mod openrouter;
mod page;
pub mod settings;
mod tools;

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio_util::sync::CancellationToken;
use toolbus_runtime::health::{Component, Need, State};
use toolbus_runtime::service::{self, BoxError, Context, Exit, Program, Role};
use toolbus_telemetry::mcp::Transport;

use arguments::Arguments;
use door::Door;
use handler::Handler;
use openrouter::OpenRouter;
use settings::Settings;

/// Runs the program, from its arguments to its exit code.
#[must_use]
pub fn main(arguments: &Arguments) -> Exit {
    let program = Program {
        name: env!("CARGO_PKG_NAME"),
        version: env!("CARGO_PKG_VERSION"),
        role: Role::Service,
        aliases: settings::ALIASES,
    };
    let stdio = arguments.stdio;
    service::run(
        &program,
        &arguments.common,
        arguments.settings(),
        async move |settings: Settings, context| {
            // First, or the process would be ready as soon as there is anything optional.
            let ready = context.health.component("mcp", Need::Required);
            let openrouter = start(&settings, &context).await?;
            let served = Served { openrouter, settings, context, ready };
            if stdio { served.over_stdio().await } else { served.over_http().await }
        },
    )
}

/// Sets up what is behind the tools, and looks for the key.
async fn start(settings: &Settings, context: &Context) -> Result<Arc<OpenRouter>, BoxError> {
    // Without a key the tools are there, and say so.
    let key = context.health.component("openrouter", Need::Optional);
    let openrouter = Arc::new(OpenRouter::new(&settings.openrouter, key.clone())?);
    if openrouter.look_for_key().await.is_ok() {
        key.set(State::Up);
    }
    if !is_private(settings.openrouter.base_url.expose()) {
        tracing::warn!(
            "openrouter.base_url is not https: the API key goes over the network in clear"
        );
    }
    Ok(openrouter)
}

/// All that serving takes.
struct Served {
    openrouter: Arc<OpenRouter>,
    settings: Settings,
    context: Context,
    ready: Component,
}

impl Served {
    async fn over_http(self) -> Result<Exit, BoxError> {
        let handler = Handler::new(Arc::clone(&self.openrouter), Transport::Tcp);
        let door = Door::open(&self.settings.http, handler).await?;
        let address = door.address();
        self.context.health.describe(move || json!({ "mcp": address.to_string() }));
        self.ready.set(State::Up);
        tracing::info!(%address, "serving");

        self.context.shutdown.requested().cancelled().await;
        if !door.close(self.grace()).await {
            tracing::warn!("calls of MCP clients are cut off");
        }
        Ok(Exit::SUCCESS)
    }

    async fn over_stdio(self) -> Result<Exit, BoxError> {
        self.ready.set(State::Up);
        let stop = CancellationToken::new();
        let handler = Handler::new(Arc::clone(&self.openrouter), Transport::Pipe);
        let client = door::stdio(handler, stop.clone());
        let mut client = std::pin::pin!(client);
        // Both arms only wait; the client is waited for again below.
        tokio::select! {
            ended = &mut client => return Ok(ended.map(|()| Exit::SUCCESS)?),
            () = self.context.shutdown.requested().cancelled() => {}
        }
        let drained = async {
            let running = self.openrouter.drain(self.grace()).await;
            if running > 0 {
                tracing::warn!(running, "calls of the MCP client are cut off");
            }
            stop.cancel();
        };
        // The client is served on meanwhile, or the answers would not reach it.
        let (ended, ()) = tokio::join!(client, drained);
        Ok(ended.map(|()| Exit::SUCCESS)?)
    }

    /// How long running calls may take to end; a part of the whole stays for the answers' way.
    fn grace(&self) -> Duration {
        self.settings.shutdown.grace.duration() * 4 / 5
    }
}

/// Whether nobody can listen on the way to this URL.
fn is_private(url: &str) -> bool {
    let url: url::Url = url.parse().expect("an HttpUrl holds a URL");
    let is_loopback = match url.host() {
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    };
    url.scheme() == "https" || is_loopback
}
