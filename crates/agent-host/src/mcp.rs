//! The MCP face: the agent's tools for MCP clients, over streamable HTTP, in both eras of the
//! protocol.
//!
//! `/mcp` offers the agent's own tools. `/mcp/NAME` offers the tools of one MCP server of the fleet,
//! as it names and describes them, and reaches them by the agent's `mcp_invoke_tool`. Either way a
//! call is the invoker's: there is no other way from here to a tool.
//!
//! Nobody is asked who they are, so the face is off unless it is given an address, and an address
//! that others can reach needs the names that it is reached by. A request whose `Host` or `Origin`
//! is not one of those is refused, or any web page could call tools through its reader's browser.
//!
//! `/mcp/NAME` has the prompts and resources of its server too, completes arguments, and tells of
//! changes, where the server has or does such: see [`standing`].
//!
//! A call's progress, the log of its server and its questions go to the client that made it: see
//! [`news`], [`log`], [`questions`] and [`talk`].

mod converse;
mod era;
mod handler;
mod kept;
mod log;
mod news;
mod offer;
mod outcome;
mod paths;
mod questions;
mod reading;
mod recorded;
mod settings;
mod standing;
mod talk;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use toolbus_config::ListenAddress;
use toolbus_runtime::http;

use crate::agent::Agent;
use kept::Kept;
pub use settings::McpFaceSettings;

/// Most connections at once. A client has one for each call that runs, and one to listen.
const LIMITS: http::Limits = http::Limits { connections_max: 1_024, lifetime: None };
/// Calls that run at the same time, over all clients; more are refused as busy.
const CALLS_MAX: usize = 256;

/// A face that is open. Close it with [`Face::close`].
pub struct Face {
    server: http::Server,
    calls: Arc<Semaphore>,
    kept: Kept,
    stop: CancellationToken,
}

/// The face could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot serve MCP at {address}")]
pub struct Error {
    address: ListenAddress,
    #[source]
    source: std::io::Error,
}

impl Face {
    /// Opens the face of an agent, where the settings have an address for it.
    ///
    /// # Errors
    /// When the address is in use, not of this machine, or its name does not resolve.
    pub async fn open(settings: &McpFaceSettings, agent: &Agent) -> Result<Option<Self>, Error> {
        let Some(address) = &settings.address else { return Ok(None) };
        let (calls, stop) = (Arc::new(Semaphore::new(CALLS_MAX)), CancellationToken::new());
        let kept = Kept::new();
        let (calls_too, kept_too) = (Arc::clone(&calls), kept.clone());
        let router = paths::router(settings, agent.clone(), calls_too, kept_too, stop.clone());
        let served = http::serve(address, router, LIMITS).await;
        let failed = |source| Error { address: address.clone(), source };
        Ok(Some(Self { server: served.map_err(failed)?, calls, kept, stop }))
    }

    /// The address that is really listened on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Takes no more calls, waits up to `grace` for those that run, and closes every connection.
    pub async fn close(self, grace: Duration) {
        // Clients that are away to answer would come back to nobody.
        self.kept.cancel();
        // Whoever has all permits knows that no call runs, and none can begin any more.
        let all = u32::try_from(CALLS_MAX).expect("it is small");
        if tokio::time::timeout(grace, self.calls.acquire_many(all)).await.is_err() {
            let running = CALLS_MAX - self.calls.available_permits();
            tracing::warn!(running, "calls of MCP clients are cut off");
        }
        self.calls.close();
        self.stop.cancel();
        self.server.close().await;
        self.kept.close().await;
    }
}
