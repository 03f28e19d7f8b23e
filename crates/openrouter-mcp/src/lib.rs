//! An MCP server that reads an OpenRouter account: credits, keys, models, generations.
//!
//! It holds the account's key and can only read: requests are GET, of a closed list of URLs
//! ([`endpoint`]), sent by the one type that can send any. It knows no bus; an MCP bridge, or any
//! other MCP client, connects to it.

pub mod arguments;
mod client;
pub mod endpoint;
pub mod error;
mod handler;
pub mod key;
mod model_page;
pub mod openrouter;
mod server;
pub mod settings;
mod tools;

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio_util::sync::CancellationToken;
use toolbus_config::build_features::BuildFeature;
use toolbus_runtime::health::{Component, Need, State};
use toolbus_runtime::service::{self, BoxError, Context, Exit, Program, Role};
use toolbus_telemetry::mcp::Transport;

use arguments::Arguments;
use handler::Handler;
use openrouter::OpenRouter;
use server::McpHttpServer;
use settings::Settings;

/// Optional parts that this build leaves out.
const LEFT_OUT: &[BuildFeature] = &[
    #[cfg(not(feature = "jemalloc"))]
    BuildFeature::Jemalloc,
];

/// Runs the program, from its arguments to its exit code.
#[must_use]
pub fn main(arguments: Arguments) -> Exit {
    let program = Program {
        name: env!("CARGO_PKG_NAME"),
        version: env!("CARGO_PKG_VERSION"),
        role: Role::Service,
        aliases: settings::ALIASES,
        left_out: LEFT_OUT,
    };

    if arguments.service.probe {
        return service::probe::<Settings>(&program, &arguments.common, arguments.settings());
    }

    let stdio = arguments.stdio;
    service::run(
        &program,
        &arguments.common,
        arguments.settings(),
        async move |settings: Settings, context| {
            // Registered first, or the process would be ready with its first optional component.
            let ready = context.health.component("mcp", Need::Required);
            let openrouter = connect_openrouter(&settings, &context).await?;

            let frontend = McpFrontend { openrouter, settings, context, ready };
            if stdio { frontend.serve_stdio().await } else { frontend.serve_http().await }
        },
    )
}

/// Creates the client of OpenRouter that the tools use, and checks for the key.
async fn connect_openrouter(
    settings: &Settings,
    context: &Context,
) -> Result<Arc<OpenRouter>, BoxError> {
    // Without a key the tools are listed, and their calls say that it is missing.
    let key = context.health.component("openrouter", Need::Optional);
    let openrouter = Arc::new(OpenRouter::new(&settings.openrouter, key.clone())?);
    if openrouter.load_key().await.is_ok() {
        key.set(State::Up);
    }

    if !is_private_url(settings.openrouter.base_url.expose()) {
        tracing::warn!(
            "openrouter.base_url is not https: the API key goes over the network in clear"
        );
    }
    Ok(openrouter)
}

/// Serves MCP clients by one of the transports until shutdown is requested.
struct McpFrontend {
    openrouter: Arc<OpenRouter>,
    settings: Settings,
    context: Context,
    ready: Component,
}

impl McpFrontend {
    async fn serve_http(self) -> Result<Exit, BoxError> {
        let handler = Handler::new(Arc::clone(&self.openrouter), Transport::Tcp);
        let server = McpHttpServer::start(&self.settings.http, handler).await?;

        let address = server.address();
        self.context.health.describe(move || json!({ "mcp": address.to_string() }));
        self.ready.set(State::Up);
        tracing::info!(%address, "serving MCP over HTTP");

        self.context.shutdown.requested().cancelled().await;
        if !server.close(self.drain_grace()).await {
            tracing::warn!("cut off running calls of MCP clients");
        }
        Ok(Exit::SUCCESS)
    }

    async fn serve_stdio(self) -> Result<Exit, BoxError> {
        self.ready.set(State::Up);
        let stop = CancellationToken::new();
        let handler = Handler::new(Arc::clone(&self.openrouter), Transport::Pipe);
        let client = server::serve_stdio(handler, stop.clone());
        let mut client = std::pin::pin!(client);

        // Both arms only wait; the client is waited for again below.
        tokio::select! {
            ended = &mut client => return Ok(ended.map(|()| Exit::SUCCESS)?),
            () = self.context.shutdown.requested().cancelled() => {}
        }

        let drained = async {
            let running = self.openrouter.drain(self.drain_grace()).await;
            if running > 0 {
                tracing::warn!(running, "cut off running calls of the MCP client");
            }
            stop.cancel();
        };

        // The client is served meanwhile, or the answers would not reach it.
        let (ended, ()) = tokio::join!(client, drained);
        Ok(ended.map(|()| Exit::SUCCESS)?)
    }

    /// How long running calls may take to end. A fifth of the whole grace is left for sending the
    /// answers.
    fn drain_grace(&self) -> Duration {
        self.settings.shutdown.grace.duration() * 4 / 5
    }
}

/// Whether requests to this URL cannot be read on the way: it is https or on this machine.
fn is_private_url(url: &str) -> bool {
    let url: url::Url = url.parse().expect("an HttpUrl holds a URL");
    let is_loopback = match url.host() {
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    };

    url.scheme() == "https" || is_loopback
}
