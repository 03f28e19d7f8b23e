//! One live connection to a server: the handshake, the list of tools, calls.
//!
//! A [`Connection`] is composed of parts with one owner each: the `ConnectionLifecycle` knows how
//! it ends, the `RequestSender` sends requests, and the `SharedSubscriptions` count subscriptions.
//! A connection never reconnects. It is over when its transport is, and calls that wait then end at
//! once. Its holders keep it alive: the last one to drop it closes it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::model::ErrorData;
use rmcp::service::ServiceError;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolbus_bus::Deadline;
use toolbus_wire::json::RawJson;

use crate::auth::{self, Authorization};
use crate::call::Call;
use crate::catalogue::Catalogue;
use crate::config::{Entry, Isolation, SandboxPolicy, StdioIsolation, Target};
use crate::eraser::Eraser;
use crate::failure::Failure;
use crate::http::HttpClients;
use crate::lookup::{ReadRequest, ReadResponse};
use crate::method::Method;
use crate::metrics::Metrics;
use crate::offer::Offer;
use crate::record::{About, Recorder};
use crate::server::ServerOrigin;
use crate::server_credentials::ServerCredentials;
use crate::supervisor::Supervisor;
use crate::transport::intercept::{ReportedChanges, WireState};
use crate::transport::requested_pause::RequestedPause;
use crate::transport::sandbox::Sandboxes;
use crate::transport::shield::Shield;
use crate::transport::streamable_http::HttpAccess;

mod answers;
mod caller_questions;
mod client_handler;
mod exchange;
mod handshake;
mod hang_watch;
mod lifecycle;
mod list_subscription;
mod listing;
mod read_exchange;
mod request_sender;
pub(crate) mod resource_subscription;
mod start_watch;
mod vault_credentials;

use answers::AnswerReader;
pub(crate) use answers::CallFailure;
use client_handler::ClientRequestHandler;
use exchange::{Exchange, ExchangeScope, McpRequest};
use handshake::McpSession;
pub(crate) use handshake::{Handshake, ServerIdentity, StartAttempt};
use hang_watch::HangWatch;
use lifecycle::ConnectionLifecycle;
use listing::OfferLister;
pub(crate) use listing::OfferListing;
use request_sender::RequestSender;
use resource_subscription::{ResourceSubscription, SharedSubscriptions};
pub(crate) use start_watch::StartWatch;
pub use start_watch::{StartProgress, StartStep};
pub(crate) use vault_credentials::resolve_target;

/// How long a server that is being closed has to be told that calls are cut off.
const LAST_CANCELS_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection that has passed the handshake.
pub(crate) struct Connection {
    pub(crate) identity: ServerIdentity,
    session: Mutex<Option<McpSession>>,
    lifecycle: Arc<ConnectionLifecycle>,
    sender: RequestSender,
    hang_watch: HangWatch,
    /// Subscriptions to resources of a server of the older era.
    subscriptions: SharedSubscriptions,
}

/// What the connections to one server share: the secrets to erase, and how it is reached.
pub(crate) struct ServerAccess {
    eraser: Eraser,
    http: HttpAccess,
    sandbox: SandboxDemand,
}

/// Requested isolation of a server that is a program.
#[derive(Clone)]
enum SandboxDemand {
    None,
    /// A shield, if one is possible.
    Shield,
    /// A sandbox with a persistent home. The server does not start without it.
    Required(SandboxPolicy),
    /// A sandbox, if one is possible; otherwise the given isolation.
    Preferred(SandboxPolicy, StdioIsolation),
}

impl SandboxDemand {
    fn of(entry: &Entry, origin: ServerOrigin, deps: &SharedDeps) -> Self {
        let Target::Launch(launch) = &entry.target else { return Self::None };
        match (&launch.sandbox, origin) {
            (Isolation::Sandbox(policy), _) => Self::Required(policy.clone()),
            (_, ServerOrigin::Agent) if deps.sandbox_registered => {
                Self::Preferred(SandboxPolicy::for_registered(), deps.stdio_isolation)
            }
            (Isolation::Shield, _) => Self::Shield,
            // An agent that registers a server cannot disable the shield.
            (Isolation::Off, ServerOrigin::Operator) => Self::None,
            (Isolation::AsSet | Isolation::Off, _) => match deps.stdio_isolation {
                StdioIsolation::Shield => Self::Shield,
                StdioIsolation::Off => Self::None,
            },
        }
    }
}

impl ServerAccess {
    pub(crate) fn new(entry: &Entry, origin: ServerOrigin, deps: &SharedDeps) -> Self {
        let eraser = entry.eraser();
        let clients = match origin {
            ServerOrigin::Operator => deps.clients.clone(),
            ServerOrigin::Agent => deps.clients_of_agents.clone(),
        };

        let authorization = match &entry.target {
            Target::Launch(_) | Target::Disabled => None,
            Target::Endpoint(endpoint) => Authorization::of(
                endpoint,
                auth::AuthorizationDeps {
                    server: &entry.name,
                    clients: &clients,
                    folder: deps.tokens.clone(),
                    eraser: eraser.clone(),
                    tracker: deps.tracker.clone(),
                },
            ),
        };
        let http = HttpAccess { clients, authorization, pause: RequestedPause::default() };
        Self { eraser, http, sandbox: SandboxDemand::of(entry, origin, deps) }
    }
}

/// The handles that connections of all servers share.
pub(crate) struct SharedDeps {
    /// The clients for servers of the operator.
    pub(crate) clients: HttpClients,
    /// The clients for servers that agents have registered.
    pub(crate) clients_of_agents: HttpClients,
    pub(crate) tracker: TaskTracker,
    /// What every child finds in its environment.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// The supervisor of children; without one, they are started directly.
    pub(crate) supervisor: Option<Supervisor>,
    pub(crate) sandboxes: Sandboxes,
    pub(crate) shield: Shield,
    /// Isolation of servers whose entries do not set it.
    pub(crate) stdio_isolation: StdioIsolation,
    /// Whether programs that agents have registered run in a sandbox, where there can be one.
    pub(crate) sandbox_registered: bool,
    /// The folder that keeps tokens.
    pub(crate) tokens: Option<PathBuf>,
    /// The vault, where there is one.
    pub(crate) credentials: Option<ServerCredentials>,
    pub(crate) metrics: Arc<Metrics>,
}

impl Connection {
    /// Starts or calls the server and shakes hands. The caller bounds the time: dropped, the future
    /// takes everything along that it has started. When `cut` fires, calls end.
    pub(crate) async fn open(
        entry: &Entry,
        access: &ServerAccess,
        deps: &SharedDeps,
        attempt: StartAttempt<'_>,
        cut: CancellationToken,
    ) -> Result<Self, Failure> {
        let began = Instant::now();
        let server = entry.name.as_str().to_owned();
        let eraser = access.eraser.clone();
        let wire = WireState::new(&server, eraser.clone());
        let handler = ClientRequestHandler {
            server: server.clone(),
            wire: Arc::clone(&wire),
            eraser: eraser.clone(),
        };

        let (session, child) = match attempt.target {
            Target::Launch(launch) => {
                let starting = handshake::start_child(launch, access, deps, handler, attempt);
                let (session, child) = starting.await?;
                (session, Some(child))
            }
            Target::Endpoint(endpoint) => {
                let handshake = attempt.handshake;
                let dialing = handshake::dial_endpoint(endpoint, access, handler, handshake);
                (dialing.await?, None)
            }
            Target::Disabled => return Err(Failure::disabled()),
        };

        let info = session.peer().peer_info();
        let is_stateless_protocol =
            info.is_some_and(|info| !info.protocol_version.has_initialize());
        let identity = handshake::read_identity(session.peer());
        let recorder = Recorder::new(entry, &deps.metrics, &identity.protocol);
        let method = if is_stateless_protocol { "server/discover" } else { "initialize" };
        recorder.record_handshake(began, method);

        let lifecycle = Arc::new(ConnectionLifecycle::new(Arc::clone(&wire), child, cut));
        let sender = RequestSender {
            server,
            peer: session.peer().clone(),
            wire,
            lifecycle: Arc::clone(&lifecycle),
            eraser,
            recorder,
            pending: TaskTracker::new(),
            is_stateless_protocol,
        };
        Ok(Self {
            identity,
            session: Mutex::new(Some(session)),
            lifecycle,
            sender,
            hang_watch: HangWatch::default(),
            subscriptions: SharedSubscriptions::default(),
        })
    }

    /// Lists the server's tools, page by page, within the limits. The caller bounds the time.
    pub(crate) async fn list_tools(&self, entry: &Entry) -> Result<Catalogue, Failure> {
        OfferLister::new(&self.sender).list_tools(entry).await
    }

    /// Lists what the server offers beside tools. What it does not list within the time is as it
    /// was in the previous listing: tools must not wait for it.
    pub(crate) async fn list_offer(
        &self,
        previous: Option<Offer>,
        limit: Duration,
    ) -> OfferListing {
        OfferLister::new(&self.sender).list_offer(previous, limit).await
    }

    /// Calls a tool; [`AnswerReader`] says what each answer means.
    pub(crate) async fn call_tool(
        &self,
        call: &Call,
        deadline: Deadline,
        is_listed: impl Fn() -> bool,
    ) -> Result<RawJson, CallFailure> {
        let _running = self.hang_watch.begin_call(deadline.at());
        let called = self.exchange_call(call, deadline, is_listed).await;
        self.note_unanswered(&called);
        called
    }

    async fn exchange_call(
        &self,
        call: &Call,
        deadline: Deadline,
        is_listed: impl Fn() -> bool,
    ) -> Result<RawJson, CallFailure> {
        let params = call.params();
        let about = About::Tool { name: &call.tool, is_listed: is_listed() };
        let request = McpRequest { method: Method::CallTool, about, params: &params };
        let scope = ExchangeScope {
            deadline,
            cancelled: &call.context.cancelled,
            progress: &call.context.progress,
            asker: &call.context.asker,
        };
        let outcome = Exchange::new(&self.sender, request, scope).run().await?;

        let answers = AnswerReader::new(&self.sender);
        match outcome.result {
            Ok(result) => Ok(result),
            Err(error) => match answers.explain_failure(call, &outcome.tag, error, is_listed).await
            {
                // What was there before the server asked for more may have taken effect.
                CallFailure::NotSent(failure) if outcome.is_repeated => {
                    Err(CallFailure::Lost(failure))
                }
                failed => Err(failed),
            },
        }
    }

    /// Makes a request that only reads, within the limits of `call`.
    pub(crate) async fn read(
        &self,
        request: &ReadRequest,
        call: &Call,
        deadline: Deadline,
    ) -> Result<ReadResponse, CallFailure> {
        let _running = self.hang_watch.begin_call(deadline.at());
        let response = read_exchange::read(&self.sender, request, call, deadline).await;
        self.note_unanswered(&response);
        response
    }

    /// Notes a call that got no answer; several in a row have the server probed.
    fn note_unanswered<T>(&self, called: &Result<T, CallFailure>) {
        if matches!(called, Err(CallFailure::TimedOut | CallFailure::Lost(_))) {
            self.hang_watch.record_unanswered(self.sender.wire.messages_received());
        }
    }

    /// Waits until the server turns out to hang: calls had no answer, and neither had a probe.
    pub(crate) async fn wait_hung(&self) -> Failure {
        self.hang_watch.wait_hung(&self.sender).await
    }

    /// Subscribes to resources. Changes that the server reports from then on are received.
    pub(crate) async fn subscribe_to_resources(
        &self,
        uris: &[String],
    ) -> Result<ResourceSubscription<'_>, ServiceError> {
        ResourceSubscription::open(&self.sender, &self.subscriptions, uris).await
    }

    /// Subscribes to changes of lists where a server only reports them to subscribers. Dropped, it
    /// unsubscribes.
    pub(crate) async fn subscribe_to_list_changes(&self) -> std::convert::Infallible {
        list_subscription::subscribe_to_list_changes(&self.sender).await
    }

    /// Waits until the server reports that its tools have changed.
    pub(crate) async fn wait_tools_changed(&self) {
        self.sender.wire.tools_changed.notified().await;
    }

    /// Waits until the server reports that its prompts or resources have changed.
    pub(crate) async fn wait_offer_changed(&self) {
        self.sender.wire.offer_changed.notified().await;
    }

    /// Takes the changes of lists that the server has reported since they were last taken.
    pub(crate) fn take_reported_changes(&self) -> ReportedChanges<'_> {
        self.sender.wire.change_reports.take()
    }

    /// The text of a JSON-RPC error, as it may be passed on.
    pub(crate) fn json_rpc_failure(&self, error: &ErrorData) -> CallFailure {
        AnswerReader::new(&self.sender).failure_of(error)
    }

    pub(crate) fn eraser(&self) -> &Eraser {
        &self.sender.eraser
    }

    /// Counts the connection as one that ended while the server was wanted.
    pub(crate) fn record_lost(&self) {
        self.sender.recorder.record_lost();
    }

    /// Waits until nothing more should be begun on this connection.
    pub(crate) async fn wait_over(&self) {
        self.lifecycle.wait_over().await;
    }

    /// Whether nothing more should be begun on this connection.
    pub(crate) fn is_over(&self) -> bool {
        self.lifecycle.is_over()
    }

    /// Whether the server answers, and has forgotten the session.
    pub(crate) fn has_lost_session(&self) -> bool {
        self.lifecycle.has_lost_session()
    }

    /// Leaves the connection to the calls that are on it.
    pub(crate) fn retire(&self, because: &Failure) {
        self.lifecycle.retire(because);
    }

    /// Why the connection is over, as far as it is known.
    pub(crate) async fn why_over(&self) -> Failure {
        self.lifecycle.why_over().await
    }

    /// Closes the connection for all its holders, and waits until its child is reaped. Calls that
    /// run are cut off, and the server is told.
    pub(crate) async fn close(&self, because: &Failure) {
        self.retire(because);
        self.lifecycle.cut_calls();

        self.sender.pending.close();
        // After the timeout, the server may go on in vain with calls that have no caller.
        let _ = timeout(LAST_CANCELS_TIMEOUT, self.sender.pending.wait()).await;

        self.lifecycle.end_transport();
        let session = self.session.lock().take();
        if let Some(session) = session {
            // An error is a panic of rmcp's task, which is over then as well.
            let _ = session.cancel().await;
        }

        self.lifecycle.stop_child().await;
    }
}
