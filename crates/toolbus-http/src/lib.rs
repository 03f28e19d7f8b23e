//! The HTTP interface: turns of the agent and its tools, for programs.
//!
//! `POST /v1/turns` has the agent answer what it is sent, and tells what happens meanwhile by
//! server-sent events where the client accepts those. A client that goes away ends its turn, unless
//! it can come back for it: a request with an `Idempotency-Key` is one turn however often it is
//! sent.
//!
//! Clients are known by tokens. Without any, everybody who reaches the port is the same client. The
//! names that the port is reached by, and the origins of web pages, are checked as those of the MCP
//! endpoint are, or any web page could have its reader's browser speak to the agent; for the names
//! of this machine, the server says where a request comes from (`toolbus_tools::visitors`).
//!
//! [`tool_api`] is the interface to tools: finding them, calling them, jobs, and keys.
//!
//! It opens no port itself: [`TurnApi::router`] and [`tool_api::ToolApi::router`] are served by
//! whoever has one.

mod event_queue;
mod refusal;
pub mod tool_api;
mod turn_message;
mod turns;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::post;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolbus_agent::Agent;
pub use toolbus_tools::visitors::ApiSettings;
use toolbus_tools::visitors::Visitors;
use toolbus_wire::name::AgentName;

/// Longest body of a request, in bytes.
pub const BODY_BYTES_MAX: usize = 2 << 20;
/// Connections beside those of turns: of clients that are refused, or have yet to ask.
const CONNECTIONS_MORE: usize = 24;
/// Where turns are asked for.
pub const TURNS_PATH: &str = "/v1/turns";

/// What answers.
pub struct ApiDeps {
    /// The agent's name.
    pub name: AgentName,
    /// The agent.
    pub agent: Agent,
    /// Turns at a time; more are refused.
    pub turns_max: usize,
}

/// The interface to one agent. Before its server is closed, [`drain`](TurnApi::drain) it.
pub struct TurnApi {
    router: Router,
    shared: Arc<Shared>,
}

/// What its requests share.
struct Shared {
    deps: ApiDeps,
    visitors: Visitors,
    places: Arc<Semaphore>,
    turns: TaskTracker,
    /// Fires when turns that are under way are left as they are.
    stop: CancellationToken,
}

/// How many connections a server with so many turns at a time may have.
#[must_use]
pub const fn connections_max(turns_max: usize) -> usize {
    turns_max + CONNECTIONS_MORE
}

impl TurnApi {
    /// The interface for these clients.
    #[must_use]
    pub fn new(settings: ApiSettings, deps: ApiDeps) -> Self {
        let shared = Arc::new(Shared {
            visitors: Visitors::new(settings),
            places: Arc::new(Semaphore::new(deps.turns_max)),
            deps,
            turns: TaskTracker::new(),
            stop: CancellationToken::new(),
        });
        let router = Router::new()
            .route(TURNS_PATH, post(turns::answer))
            .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
            .with_state(Arc::clone(&shared));
        Self { router, shared }
    }

    /// What is to be served.
    pub fn router(&self) -> Router {
        self.router.clone()
    }

    /// Takes no more turns, and waits up to `grace` for those that are under way. What is left goes
    /// on when its session is used again.
    pub async fn drain(&self, grace: Duration) {
        self.shared.places.close();
        self.shared.turns.close();
        let ended = tokio::time::timeout(grace, self.shared.turns.wait()).await;
        if ended.is_err() {
            self.shared.stop.cancel();
            self.shared.turns.wait().await;
        }
    }
}
