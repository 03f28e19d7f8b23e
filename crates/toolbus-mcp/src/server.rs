//! One configured server: a task that keeps it connected, and the calls that go there.
//!
//! A [`Server`] is its entry with three parts, each of which owns its state: the
//! [`ServerConnector`] (the connection), the [`ToolCatalogueCache`] (the last listing) and the
//! [`CallLimiter`] (permits and timeouts). Invariants: a call is sent twice only when the first was
//! provably not sent, or the server says of the tool that this does no harm. What the server listed
//! last is known while it is away.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use toolbus_wire::message::mcp::{McpGetServiceDetailsResponse, McpServerSummary};

use crate::claims::Position;
use crate::config::{Entry, SessionMode};
use crate::connection::CallFailure;
pub use crate::connection::{StartProgress, StartStep};
use crate::failure::Failure;
use crate::ownership::Ownership;
use crate::server_pool::PoolContext;
use crate::summary::summary;
use crate::trust::findings::Reader;

mod call_limits;
mod caller_sessions;
mod catalogue_cache;
mod connector;
mod resource_reads;
mod resource_watch;
mod tool_calls;

use call_limits::CallLimiter;
pub(crate) use call_limits::{LOOKUPS_PER_SERVER_MAX, SUBSCRIPTIONS_PER_SERVER_MAX};
use caller_sessions::CallerSessions;
pub(crate) use catalogue_cache::{ServerListing, ToolCatalogueCache};
pub(crate) use connector::ServerConnector;

/// How often it is looked whether calls still run that are waited for.
const IDLE_LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// Why a server is unavailable that is being connected for the first time.
const CONNECTING: &str = "it is being connected";

/// Who added a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerOrigin {
    /// The operator: agents can neither replace nor remove it.
    Operator,
    /// An agent has registered it.
    Agent,
}

/// One configured server.
pub(crate) struct Server {
    pub(crate) entry: Arc<Entry>,
    pub(crate) origin: ServerOrigin,
    /// True once the configuration or the file of registrations holds the server.
    pub(crate) is_persisted: AtomicBool,
    /// The position of its name among those of its pool. A server that replaces it has the same.
    pub(crate) position: Position,
    /// Whether it is this bridge's to run.
    pub(crate) ownership: Ownership,
    pub(crate) connector: ServerConnector,
    pub(crate) catalogue: ToolCatalogueCache,
    limiter: CallLimiter,
    /// The sessions of single callers, where each has one of its own.
    sessions: Option<CallerSessions>,
    context: Arc<PoolContext>,
    stop: CancellationToken,
}

/// The state of a server, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerState {
    /// No attempt was made yet.
    Configured,
    /// It is being started for the first time, or connected to.
    Starting(StartProgress),
    /// The server is connected.
    Connected {
        /// For how long.
        since: Duration,
        /// How many tools it has that may be seen.
        tools: usize,
        /// The protocol's version that was agreed on.
        protocol: String,
    },
    /// The last attempt failed, or the connection was lost.
    Failed {
        /// Why.
        failure: Failure,
        /// How many attempts have failed in a row.
        attempts: u32,
        /// When the next one is made, unless a call wants it sooner. Zero while it is being made.
        next_try_in: Duration,
        /// Whether calls are refused at once until an attempt succeeds. Before that, a call that
        /// needs the server has the next attempt made, and waits for it.
        is_circuit_open: bool,
    },
    /// Another bridge has it.
    Standby,
    /// The operator has disabled it.
    Disabled,
    /// It was removed or everything is closed.
    Stopped,
}

impl Server {
    pub(crate) fn new(entry: Entry, origin: ServerOrigin, context: Arc<PoolContext>) -> Arc<Self> {
        let sessions = match entry.session {
            SessionMode::Shared => None,
            SessionMode::Caller => Some(CallerSessions::default()),
        };
        let stop = context.stop.child_token();
        Self::with_sessions(Arc::new(entry), origin, sessions, stop, context)
    }

    fn with_sessions(
        entry: Arc<Entry>,
        origin: ServerOrigin,
        sessions: Option<CallerSessions>,
        stop: CancellationToken,
        context: Arc<PoolContext>,
    ) -> Arc<Self> {
        let position = context.claims.position(&entry.name);
        let ownership = context.ownerships.of(&entry.name);

        Arc::new(Self {
            origin,
            is_persisted: AtomicBool::new(false),
            position,
            connector: ServerConnector::new(
                Arc::clone(&entry),
                origin,
                Arc::clone(&context),
                ownership.clone(),
                stop.clone(),
            ),
            ownership,
            catalogue: ToolCatalogueCache::new(Arc::clone(&entry), position, Arc::clone(&context)),
            limiter: CallLimiter::new(Arc::clone(&entry), &context.options),
            sessions,
            entry,
            context,
            stop,
        })
    }

    /// Keeps the server connected until it is stopped.
    pub(crate) async fn keep_connected(self: Arc<Self>) {
        self.connector.run(&self.catalogue, || self.is_announced()).await;
    }

    /// Whether agents know of the server: one that an agent is about to register is not one of the
    /// servers yet.
    fn is_announced(&self) -> bool {
        self.origin == ServerOrigin::Operator
            || self.is_persisted.load(Ordering::Relaxed)
            || self.catalogue.latest().is_some()
    }

    /// The state of the server, for people.
    pub(crate) fn state(&self) -> ServerState {
        self.connector.state(self.catalogue.tool_count())
    }

    /// Waits until the first attempt to connect has ended, one way or the other.
    pub(crate) async fn wait_first_attempt(&self) -> Result<(), Failure> {
        self.connector.wait_first_attempt().await
    }

    /// Lists the tools again, over the connection there is, or connects. Bounded by the time that
    /// connecting may take.
    pub(crate) async fn refresh(&self) -> Result<(), Failure> {
        let limit = self.context.options.connect_timeout;
        let until = Instant::now() + limit;

        let connection = self.connector.acquire(&self.stop, until).await;
        let connection = connection.map_err(|failed| match failed {
            CallFailure::NotSent(failure)
            | CallFailure::Unavailable { failure, .. }
            | CallFailure::Lost(failure) => failure,
            _ => Failure::timeout(limit),
        })?;

        let refreshed = timeout_at(until, self.catalogue.refresh(&connection)).await;
        refreshed.unwrap_or(Err(Failure::timeout(limit)))
    }

    /// Has the server list again before long, or be tried if it is away.
    pub(crate) fn request_refresh(&self) {
        self.connector.request_refresh();
    }

    /// Ends everything: waits up to `grace` for running calls, then closes the connection. At once
    /// when all servers are closed.
    pub(crate) async fn close(&self, grace: Duration) {
        self.limiter.close();
        self.catalogue.freeze_claims();
        if let Some(sessions) = &self.sessions {
            sessions.close(grace).await;
        }

        let idle = timeout(grace, self.limiter.wait_idle());
        let ended = self.stop.run_until_cancelled(idle).await;
        if !matches!(ended, Some(Ok(()))) {
            let calls = self.limiter.running_calls();
            tracing::warn!(server = %self.entry.name, calls, "cutting off running calls");
        }

        self.stop.cancel();
        self.connector.wait_stopped().await;
    }

    /// Waits until no call runs here at some moment.
    pub(crate) async fn wait_idle(&self) {
        while self.is_busy() {
            sleep(IDLE_LOOK_INTERVAL).await;
        }
    }

    /// Whether calls run here, those in sessions of single callers included.
    fn is_busy(&self) -> bool {
        let in_sessions = || self.sessions.as_ref().is_some_and(CallerSessions::are_busy);
        self.limiter.running_calls() > 0 || in_sessions()
    }

    /// Whether it takes no more calls.
    pub(crate) fn is_closing(&self) -> bool {
        self.limiter.is_closed()
    }

    /// The longest that a call may take here.
    pub(crate) fn longest_call(&self) -> Duration {
        self.limiter.longest_call()
    }

    /// Ends everything at once, without waiting for it.
    pub(crate) fn abandon_connection(&self) {
        self.stop.cancel();
    }

    /// Since when it is being connected for the first time, if it is and agents know of it.
    pub(crate) fn connecting_since(&self) -> Option<Instant> {
        let is_owned = self.is_announced() && self.ownership.is_owned();
        self.connector.connecting_since().filter(|_| is_owned)
    }

    /// The summary for agents; `None` of a server that they are not to know yet.
    pub(crate) fn summary(&self) -> Option<McpServerSummary> {
        let unavailable = self.connector.unavailable_reason().map(|reason| reason.to_string());
        let Some(listing) = self.catalogue.latest() else {
            let summary = match &unavailable {
                Some(reason) => format!("Not available: {reason}."),
                None => "Not available yet: it is being connected.".to_owned(),
            };
            let connecting = unavailable.is_none().then(|| self.connecting_since()).flatten();
            return Some(McpServerSummary {
                server_name: self.name(),
                summary: Some(summary),
                connecting: connecting.is_some(),
                unavailable: Some(unavailable.or(connecting.map(|_| CONNECTING.to_owned()))?),
                operator_added: self.origin == ServerOrigin::Operator,
                ..McpServerSummary::default()
            });
        };

        let tool_names = || listing.catalogue.tools().map(|tool| tool.name.as_str());
        Some(McpServerSummary {
            server_name: self.name(),
            summary: Some(summary(tool_names())),
            unavailable,
            tool_count: u32::try_from(listing.catalogue.len()).unwrap_or(u32::MAX),
            tool_names: tool_names().map(str::to_owned).collect(),
            prompt_count: listing.offer.prompt_count(),
            prompt_names: listing.offer.prompt_names(),
            resource_count: listing.offer.resource_count(),
            features: listing.offer.features.to_wire(),
            timeouts: Some(self.limiter.timeouts()),
            revisions: Some(listing.revisions),
            tool_fingerprints: Some(listing.catalogue.fingerprints()),
            operator_added: self.origin == ServerOrigin::Operator,
            read_only_tools: listing.catalogue.names_where(|tool| tool.is_read_only),
            idempotent_tools: listing.catalogue.names_where(|tool| tool.may_repeat),
            destructive_tools: listing.catalogue.names_where(|tool| tool.is_destructive),
            ..McpServerSummary::default()
        })
    }

    /// All that agents may know of the server, once it has listed its tools.
    pub(crate) fn details(&self) -> Option<McpGetServiceDetailsResponse> {
        let listing = self.catalogue.latest()?;
        let identity = listing.identity.clone();
        let notices = listing.findings.notices(Reader::Model);

        Some(McpGetServiceDetailsResponse {
            server_name: self.name(),
            tools: listing.catalogue.details(),
            implementation_name: identity.name,
            title: identity.title,
            version: identity.version,
            description: identity.description,
            instructions: identity.instructions,
            website_url: identity.website_url,
            icons: identity.icons,
            prompts: listing.offer.prompt_details(),
            resource_count: listing.offer.resource_count(),
            notices: Some(notices).filter(|notices| !notices.is_empty()),
            ..McpGetServiceDetailsResponse::default()
        })
    }

    fn name(&self) -> String {
        self.entry.name.as_str().to_owned()
    }
}
