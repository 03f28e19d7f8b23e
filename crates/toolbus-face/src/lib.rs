//! The MCP face: the agent's tools for MCP clients, over streamable HTTP, in both eras of the
//! protocol.
//!
//! `/mcp` offers the agent's own tools. `/mcp/NAME` offers the tools of one MCP server of the
//! fleet, as it names and describes them, and reaches them by the agent's `mcp_invoke_tool`. Either
//! way a call is the invoker's: there is no other way from here to a tool. `/NAME/mcp` is the same
//! as `/mcp/NAME`, sessions included, and `/` is a page that lists these paths.
//!
//! Where clients have tokens, every request needs one of them, for the page too; a client is then
//! known by its token, and has sessions that no other client reaches. Without tokens everybody is
//! the same client. The names that the face is reached by are checked either way: a request whose
//! `Host` or `Origin` is not one of those is refused, or any web page could call tools through its
//! reader's browser. The server of the router says where a request comes from
//! (`toolbus_tools::visitors`).
//!
//! `/mcp/NAME` has the prompts and resources of its server too, completes arguments, and tells of
//! changes, where the server has or does such: see `subscriptions`.
//!
//! A call's progress, the log of its server and its questions go to the client that made it: see
//! `progress_relay`, `log`, `questions` and `pending_call`.
//!
//! The face opens no port itself: [`Face::router`] is served by whoever has one. It starts no
//! program, holds no credentials, and asks the services of the fleet over the bus only.

mod client_params;
mod clients;
mod cors;
mod front_page;
mod handler;
mod input_rounds;
mod instructions;
mod instrumented;
mod limits;
mod log;
mod mounts;
mod offer;
mod outcome;
mod pending_call;
mod progress_relay;
mod protocol_version;
mod questions;
mod refusals;
mod resource_requests;
mod resource_set;
mod session_limit;
mod subscriptions;
mod suspended_calls;
mod written_results;

use std::time::Duration;

use axum::Router;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use toolbus_bus::SlotPool;
use toolbus_mcp_agent::{McpDirectory, seen_summary};
use toolbus_tools::invoker::ReadContext;
use toolbus_tools::{Call, CallError, Invoker, Subject, View};
use toolbus_wire::message::mcp::McpServerSummary;
use toolbus_wire::name::AgentName;

pub use limits::CONNECTIONS_MAX;
use limits::{CALLS_MAX, PARKED_CALLS_MAX};
pub use suspended_calls::BYTES_MAX as SUSPENDED_BYTES_MAX;
use suspended_calls::SuspendedCalls;
pub use toolbus_tools::visitors::ApiSettings;

/// Whose requests the face answers.
#[derive(Clone, Default)]
pub struct FaceSettings {
    /// The clients and their tokens, and the names and web pages that the face is reached by.
    pub api: ApiSettings,
    /// Whether browsers are told that those pages may read answers (CORS). Without it, a page can
    /// have requests made and not see what comes of them.
    pub cors: bool,
    /// What clients see of the agent's tools and of MCP servers; by default everything. Calls at
    /// `/mcp/NAME` are the agent's `mcp:management/mcp_invoke_tool`, so it is to be seen for them.
    pub view: View,
}

/// The agent whose tools a face offers. Clones are the same agent.
#[derive(Clone)]
pub struct FaceDeps {
    /// The agent's name.
    pub agent: AgentName,
    /// Runs the agent's tools.
    pub invoker: Invoker,
    /// What the agent knows of MCP servers.
    pub directory: McpDirectory,
}

impl FaceDeps {
    /// Reads what a view sees of an MCP server, by its name in any case; `None` where that is
    /// nothing, or no bridge has announced it. One that is being connected for the first time is
    /// not there yet: what it can do is told to a client once, at the beginning.
    pub(crate) fn read_seen<T>(
        &self,
        name: &str,
        view: &View,
        read: impl FnOnce(&McpServerSummary) -> T,
    ) -> Option<T> {
        let known = self.directory.servers();
        let is_it = |known: &&McpServerSummary| known.server_name.eq_ignore_ascii_case(name);
        let is_listed = |known: &&McpServerSummary| !known.connecting || known.features.is_some();
        let known = known.iter().find(is_it).filter(is_listed)?;
        seen_summary(known, view).map(|seen| read(&seen))
    }

    /// Has a list pass the gates, whose entries are filtered by the scope's view afterwards; makes
    /// the read of it, and records how that ended.
    pub(crate) fn read_list<'a, T, Fut>(
        &'a self,
        call: Call,
        subject: Subject,
        read: impl FnOnce(ReadContext) -> Fut + Send + 'a,
    ) -> BoxFuture<'a, Result<T, CallError>>
    where
        T: Send + 'a,
        Fut: Future<Output = Result<T, CallError>> + Send + 'a,
    {
        Box::pin(async move { self.invoker.admit_list(call, subject).await?.run(read).await })
    }

    /// Has a read pass the gates, makes it, and records how it ended.
    pub(crate) fn read<'a, T, Fut>(
        &'a self,
        call: Call,
        subject: Subject,
        read: impl FnOnce(ReadContext) -> Fut + Send + 'a,
    ) -> BoxFuture<'a, Result<T, CallError>>
    where
        T: Send + 'a,
        Fut: Future<Output = Result<T, CallError>> + Send + 'a,
    {
        // Boxed: it is large, and part of every request's future.
        Box::pin(async move { self.invoker.admit(call, subject).await?.run(read).await })
    }
}

/// A face that is open. Before the server of its router is closed, [`Face::drain`] it;
/// [`Face::close`] it afterwards.
pub struct Face {
    router: Router,
    calls: SlotPool,
    suspended: SuspendedCalls,
    stop: CancellationToken,
}

impl Face {
    /// Opens the face of an agent.
    #[must_use]
    pub fn new(settings: &FaceSettings, deps: FaceDeps) -> Self {
        let calls = SlotPool::new(CALLS_MAX, PARKED_CALLS_MAX);
        let stop = CancellationToken::new();
        let suspended = SuspendedCalls::new();
        let router = mounts::router(settings, deps, calls.clone(), suspended.clone(), stop.clone());

        Self { router, calls, suspended, stop }
    }

    /// What an HTTP server serves, at every path: it has an answer for those where nothing is. The
    /// server is to allow [`CONNECTIONS_MAX`] connections.
    pub fn router(&self) -> Router {
        self.router.clone()
    }

    /// Takes no more calls, waits up to `grace` for those that run, and ends the others and every
    /// stream.
    pub async fn drain(&self, grace: Duration) {
        // Clients that are away to answer would come back to nobody.
        self.suspended.cancel();

        let running = self.calls.close(grace).await;
        if running > 0 {
            tracing::warn!(running, "calls of MCP clients are cut off");
        }
        self.stop.cancel();
    }

    /// Waits for the last tasks of a face that was drained.
    pub async fn close(self) {
        self.suspended.close().await;
    }
}

#[cfg(test)]
mod tests;
