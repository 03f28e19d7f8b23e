//! One live connection to a server: the handshake, the list of tools, calls.
//!
//! A connection never reconnects. It is at its end when its transport is, and calls that wait then
//! end at once. Whoever holds it keeps it alive: the last one to let go closes it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry::StringValue;
use parking_lot::Mutex;
use rmcp::model::{
    ClientRequest, ErrorCode, ListToolsRequest, PaginatedRequestParams, ProtocolVersion,
    RequestMetaObject, ServerResult, Tool as McpTool,
};
use rmcp::service::{
    ClientLifecycleMode, Peer, PeerRequestOptions, RequestHandle, RunningService, ServiceError,
    serve_client_with_lifecycle,
};
use rmcp::{RoleClient, transport::Transport};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tracing::Instrument as _;

use crate::auth::{self, Authorization};
use crate::catalogue::{Catalogue, Listing, PAGES_MAX};
use crate::config::{Endpoint, Entry, Target};
use crate::eraser::{Eraser, shortened};
use crate::failure::Failure;
use crate::http::Clients;
use crate::metrics::Metrics;
use crate::record::{About, Operation, Recorder};
use crate::supervisor::Supervisor;
use crate::transport::http;
use crate::transport::process::{Care, Process, Watch};
use crate::transport::stdio::Stdio;
use crate::transport::tap::{Said, Tap, Wire};

mod face;
mod invoke;
mod listen;
mod lookup;
mod question;
mod rounds;
pub(crate) mod subscribe;

use face::Face;
pub(crate) use invoke::Ended;

/// How long a child that has ended its protocol has to show how it ended.
const STATUS_WAIT: Duration = Duration::from_secs(1);
/// How long a server that is being closed has to be told that calls are cut off.
const LAST_WORDS_WAIT: Duration = Duration::from_secs(1);
/// How long the word that a request is cancelled may take; it waits behind other messages.
const CANCEL_WAIT: Duration = Duration::from_secs(10);
/// Longest text of a server about itself that is kept, in bytes.
const IDENTITY_BYTES_MAX: usize = 64 << 10;
/// Longest revision of the protocol that is kept, in bytes; every span names it.
const PROTOCOL_BYTES_MAX: usize = 64;

/// A connection that has passed the handshake.
pub(crate) struct Connection {
    server: String,
    peer: Peer<RoleClient>,
    service: Mutex<Option<RunningService<RoleClient, Face>>>,
    wire: Arc<Wire>,
    /// Fires when nobody should begin anything on this connection any more.
    retired: CancellationToken,
    retired_because: Mutex<Option<Failure>>,
    /// Fires when whoever waits on this connection has to go.
    cut: CancellationToken,
    /// Counts requests without an answer, and those whose server is being told so.
    pending: TaskTracker,
    child: Option<Arc<Watch>>,
    eraser: Eraser,
    recorder: Recorder,
    /// Requests say what their caller takes, and answers may ask for more.
    is_of_the_newer_era: bool,
    /// Resources of a server of the older era that somebody subscribes to.
    wanted: subscribe::Wanted,
    pub(crate) identity: Identity,
}

/// What a server says about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) name: Option<String>,
    pub(crate) title: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) instructions: Option<String>,
    pub(crate) protocol: String,
}

/// How the handshake begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handshake {
    /// By asking what the server speaks; one of the older era is then initialized.
    Discover,
    /// By initializing. For servers that an unknown question breaks.
    Initialize,
    /// By opening the event stream of the older HTTP transport, and initializing.
    OlderHttp,
}

impl Handshake {
    pub(crate) fn is_older_http(self) -> bool {
        self == Self::OlderHttp
    }
}

/// What the connections to one server share.
pub(crate) struct Reach {
    eraser: Eraser,
    authorization: Option<Arc<Authorization>>,
}

impl Reach {
    pub(crate) fn new(entry: &Entry, means: &Means) -> Self {
        let eraser = entry.eraser();
        let authorization = match &entry.target {
            Target::Launch(_) => None,
            Target::Endpoint(endpoint) => Authorization::of(
                endpoint,
                auth::AuthorizationDeps {
                    server: &entry.name,
                    clients: &means.clients,
                    folder: means.tokens.clone(),
                    eraser: eraser.clone(),
                    tracker: means.tracker.clone(),
                },
            ),
        };
        Self { eraser, authorization }
    }
}

/// What connections of all servers share.
pub(crate) struct Means {
    pub(crate) clients: Clients,
    pub(crate) tracker: TaskTracker,
    /// What every child finds in its environment.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// Who looks after the children; without, they are started directly.
    pub(crate) supervisor: Option<Supervisor>,
    /// The folder that keeps tokens.
    pub(crate) tokens: Option<PathBuf>,
    pub(crate) metrics: Arc<Metrics>,
}

impl Connection {
    /// Starts or calls the server and shakes hands. The caller bounds the time: dropped, the future
    /// takes everything along that it has started. When `cut` fires, calls end.
    pub(crate) async fn open(
        entry: &Entry,
        reach: &Reach,
        means: &Means,
        handshake: Handshake,
        cut: CancellationToken,
    ) -> Result<Self, Failure> {
        let (server, began) = (entry.name.as_str(), Instant::now());
        let eraser = reach.eraser.clone();
        let wire = Wire::new(server, eraser.clone());
        let face =
            Face { server: server.to_owned(), wire: Arc::clone(&wire), eraser: eraser.clone() };
        let (service, child) = match &entry.target {
            Target::Launch(launch) => {
                let care = Care {
                    server,
                    environment: &means.environment,
                    eraser: eraser.clone(),
                    tracker: &means.tracker,
                    supervisor: means.supervisor.as_ref(),
                };
                let (process, pipes) = Process::start(launch, care)
                    .map_err(|error| Failure::start(&launch.command, &error))?;
                tracing::debug!(server, pid = process.id(), "started");
                let child = process.watch();
                let transport = Tap::new(Stdio::new(server, process, pipes), Arc::clone(&wire));
                match shake_hands(transport, face, handshake).await {
                    Ok(service) => (service, Some(child)),
                    Err(failure) => {
                        let failure = explained(failure, &child).await;
                        let why = child.why_not_started();
                        let not_started = why.map(|error| Failure::start(&launch.command, &error));
                        return Err(not_started.unwrap_or(failure));
                    }
                }
            }
            Target::Endpoint(endpoint) => {
                (dial(endpoint, reach, means, face, handshake).await?, None)
            }
        };
        let is_of_the_newer_era =
            service.peer().peer_info().is_some_and(|info| !info.protocol_version.has_initialize());
        let identity = identity(service.peer());
        let recorder = Recorder::new(entry, &means.metrics, &identity.protocol);
        let method = if is_of_the_newer_era { "server/discover" } else { "initialize" };
        recorder.handshake(began, method);
        Ok(Self {
            server: server.to_owned(),
            recorder,
            identity,
            is_of_the_newer_era,
            peer: service.peer().clone(),
            service: Mutex::new(Some(service)),
            wire,
            retired: CancellationToken::new(),
            retired_because: Mutex::default(),
            cut,
            pending: TaskTracker::new(),
            wanted: subscribe::Wanted::default(),
            child,
            eraser,
        })
    }

    /// Lists the server's tools, page by page, within the limits. The caller bounds the time.
    pub(crate) async fn list(&self, entry: &Entry) -> Result<Catalogue, Failure> {
        let mut listing = Listing::new(&entry.filter);
        let mut cursor: Option<String> = None;
        for _ in 0..PAGES_MAX {
            let (tools, next) = match self.list_page(cursor.clone()).await {
                Ok(page) => page,
                Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => {
                    (Vec::new(), None)
                }
                Err(error) => return Err(Failure::request(&error, &self.eraser)),
            };
            listing.add_page(tools);
            if next.is_none() || next == cursor || listing.is_full() {
                cursor = None;
                break;
            }
            cursor = next;
        }
        if cursor.is_some() {
            listing.mark_cut("too many pages");
        }
        if let Some(reason) = listing.cut {
            tracing::warn!(server = self.server, reason, "the list of tools is not taken whole");
        }
        Ok(listing.finish())
    }

    async fn list_page(
        &self,
        cursor: Option<String>,
    ) -> Result<(Vec<McpTool>, Option<String>), ServiceError> {
        let params =
            cursor.map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
        // Not `Peer::list_tools`: that answers from a cache, and with a stale list when the
        // server fails.
        let request = ClientRequest::ListToolsRequest(ListToolsRequest {
            method: Default::default(),
            params,
            extensions: Default::default(),
        });
        match self.request(request).await? {
            ServerResult::ListToolsResult(page) => Ok((page.tools, page.next_cursor)),
            _ => Err(ServiceError::UnexpectedResponse),
        }
    }

    async fn request(&self, request: ClientRequest) -> Result<ServerResult, ServiceError> {
        let operation = self.operation(request.method().to_owned(), About::Nothing);
        let mut meta = RequestMetaObject::default();
        operation.inject(&mut meta);
        let options = PeerRequestOptions::no_options().with_meta(meta);
        let answering = async {
            let handle = self.peer.send_cancellable_request(request, options).await?;
            operation.is_request(&handle.id);
            let mut pending = Pending::new(self, handle);
            tokio::select! {
                biased;
                response = pending.response() => response,
                () = self.cut_off() => Err(ServiceError::TransportClosed),
            }
        };
        let response = answering.instrument(operation.span().clone()).await;
        operation.end(&response);
        response
    }

    /// Begins the recording of a request.
    fn operation<'a>(&'a self, method: impl Into<StringValue>, about: About<'a>) -> Operation<'a> {
        self.recorder.begin(method, about, || self.wire.session.lock().clone())
    }

    /// Counts the connection as one that ended while the server was wanted.
    pub(crate) fn mark_lost(&self) {
        self.recorder.lost();
    }

    /// Waits until nothing more should be begun on this connection.
    pub(crate) async fn over(&self) {
        tokio::select! {
            () = self.wire.ended.cancelled() => {}
            () = self.wire.stuck.cancelled() => {}
            () = self.retired.cancelled() => {}
        }
    }

    /// Waits until no answer will come any more.
    async fn cut_off(&self) {
        tokio::select! {
            () = self.wire.ended.cancelled() => {}
            () = self.cut.cancelled() => {}
        }
    }

    /// Whether nothing more should be begun on this connection.
    pub(crate) fn is_over(&self) -> bool {
        let tokens = [&self.wire.ended, &self.wire.stuck, &self.retired];
        tokens.iter().any(|token| token.is_cancelled())
    }

    /// Waits until the server says that its tools have changed.
    pub(crate) async fn tools_changed(&self) {
        self.wire.tools_changed.notified().await;
    }

    /// Waits until the server says that its prompts or resources have changed.
    pub(crate) async fn offer_changed(&self) {
        self.wire.offer_changed.notified().await;
    }

    /// Which lists the server has said to have changed since this was asked.
    pub(crate) fn lists_said(&self) -> Said<'_> {
        self.wire.lists_said.take()
    }

    pub(crate) fn eraser(&self) -> &Eraser {
        &self.eraser
    }

    /// Leaves the connection to the calls that are on it.
    pub(crate) fn retire(&self, because: &Failure) {
        self.retired_because.lock().get_or_insert_with(|| because.clone());
        self.retired.cancel();
    }

    /// Why the connection is over, as far as it is known.
    pub(crate) async fn why_over(&self) -> Failure {
        if let Some(failure) = self.retired_because.lock().clone() {
            return failure;
        }
        if self.wire.stuck.is_cancelled() {
            return Failure::new("it does not take what it is sent");
        }
        let failure = Failure::new("the connection was closed");
        match &self.child {
            Some(child) if self.wire.ended.is_cancelled() => explained(failure, child).await,
            _ => failure,
        }
    }

    /// Closes the connection, whoever still holds it, and waits for its child to be gone. Calls
    /// that run are cut off, and the server is told.
    pub(crate) async fn close(&self) {
        self.retire(&Failure::new("it was closed"));
        self.cut.cancel();
        self.pending.close();
        // Over the time, the server may do in vain what nobody waits for.
        let _ = timeout(LAST_WORDS_WAIT, self.pending.wait()).await;
        self.wire.ended.cancel();
        let service = self.service.lock().take();
        if let Some(service) = service {
            // An error is a panic of rmcp's task, which is over then as well.
            let _ = service.cancel().await;
        }
        if let Some(child) = &self.child {
            child.stop();
            child.gone().await;
        }
    }
}

/// A request that was sent. Dropped without its response, it is cancelled at the server.
struct Pending<'a> {
    connection: &'a Connection,
    handle: Option<RequestHandle<RoleClient>>,
    _counted: TaskTrackerToken,
}

impl<'a> Pending<'a> {
    fn new(connection: &'a Connection, handle: RequestHandle<RoleClient>) -> Self {
        Self { connection, handle: Some(handle), _counted: connection.pending.token() }
    }

    async fn response(&mut self) -> Result<ServerResult, ServiceError> {
        let Some(handle) = &mut self.handle else { return Err(ServiceError::TransportClosed) };
        let response = (&mut handle.rx).await;
        self.handle = None;
        response.unwrap_or(Err(ServiceError::TransportClosed))
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        let Some(handle) = self.handle.take() else { return };
        let runtime = tokio::runtime::Handle::try_current();
        let (false, Ok(runtime)) = (self.connection.wire.ended.is_cancelled(), runtime) else {
            return;
        };
        let cancel = timeout(CANCEL_WAIT, handle.cancel(Some("not wanted any more".to_owned())));
        self.connection.pending.spawn_on(
            async move {
                // Nobody is left to be told of a failure.
                let _ = cancel.await;
            },
            &runtime,
        );
    }
}

/// Shakes hands with a server over HTTP.
async fn dial(
    endpoint: &Endpoint,
    reach: &Reach,
    means: &Means,
    face: Face,
    handshake: Handshake,
) -> Result<RunningService<RoleClient, Face>, Failure> {
    let (authorization, wire) = (reach.authorization.clone(), Arc::clone(&face.wire));
    if handshake.is_older_http() {
        let opened =
            Box::pin(http::open_older(&means.clients, endpoint, authorization, &wire)).await;
        let sse = opened.map_err(|error| Failure::stream(error, &face.eraser))?;
        shake_hands(Tap::new(sse, wire), face, handshake).await
    } else {
        let http = http::open(&means.clients, endpoint, authorization, &wire);
        shake_hands(Tap::new(http, wire), face, handshake).await
    }
}

async fn shake_hands<T>(
    transport: Tap<T>,
    face: Face,
    handshake: Handshake,
) -> Result<RunningService<RoleClient, Face>, Failure>
where
    T: Transport<RoleClient> + 'static,
{
    let eraser = face.eraser.clone();
    let lifecycle = match handshake {
        Handshake::Initialize | Handshake::OlderHttp => ClientLifecycleMode::Initialize,
        Handshake::Discover => ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::LATEST],
            legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
        },
    };
    // Boxed: it is large, and part of every future that connects.
    Box::pin(serve_client_with_lifecycle(face, transport, lifecycle))
        .await
        .map_err(|error| Failure::handshake(&error, &eraser))
}

/// The failure with what the child's end and its last words say about it.
async fn explained(failure: Failure, child: &Watch) -> Failure {
    // A child that has closed its stdout is usually about to end by itself.
    let _ = timeout(STATUS_WAIT, child.gone()).await;
    failure.of_child(child.ending(), child.last_words())
}

fn identity(peer: &Peer<RoleClient>) -> Identity {
    let Some(info) = peer.peer_info() else { return Identity::default() };
    let kept = |text: &Option<String>| {
        text.as_deref().map(|text| shortened(text, IDENTITY_BYTES_MAX).into_owned())
    };
    let mut identity = Identity {
        instructions: kept(&info.instructions),
        protocol: shortened(info.protocol_version.as_str(), PROTOCOL_BYTES_MAX).into_owned(),
        ..Identity::default()
    };
    if let Some(program) = &info.server_info {
        identity.name = kept(&Some(program.name.clone()));
        identity.title = kept(&program.title);
        identity.version = kept(&Some(program.version.clone()));
        identity.description = kept(&program.description);
    }
    identity
}
