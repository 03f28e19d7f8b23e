//! The paths that the face mounts, and the checks that a request passes before the protocol sees
//! it.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Path, Request, State};
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, get};
use opentelemetry::global;
use parking_lot::Mutex;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolbus_bus::SlotPool;
use toolbus_json::{Limits, OverLimit};
use toolbus_telemetry::mcp::{Recorder, Transport};
use toolbus_tools::visitors::ApiSettings;
use toolbus_tools::{Principal, View};

use crate::client_params::ClientParams;
use crate::clients::{Clients, refuse_visitor};
use crate::cors::{Cors, is_preflight};
use crate::front_page::FrontPage;
use crate::handler::Handler;
use crate::instrumented::InstrumentedHandler;
use crate::limits::{BODY_BYTES_MAX, BODY_VALUES_MAX, SESSIONS_MAX};
use crate::offer::Offer;
use crate::refusals::{SentRequest, nothing_here, refuse};
use crate::session_limit::SessionLimit;
use crate::suspended_calls::SuspendedCalls;
use crate::written_results::{RecentResults, ResultSlot, put_in_place};
use crate::{FaceDeps, FaceSettings};

/// The code of the error for a session that there is no room for: one of a server's own.
const TOO_MANY_SESSIONS: i32 = -32000;
/// In how many seconds a client may try again. Sessions that are idle end after five minutes.
const SESSIONS_RETRY_AFTER: HeaderValue = HeaderValue::from_static("60");
/// What a request body may have.
const BODY_LIMITS: Limits = Limits::of_bytes(BODY_BYTES_MAX).with_values(BODY_VALUES_MAX);

type Service = StreamableHttpService<InstrumentedHandler, LocalSessionManager>;
/// What is served at one path, by the names of clients: no session of one is another's. Only
/// clients that are let in have any, and those are the settings'.
type MountsOfPath = HashMap<Arc<str>, Mount>;

/// Everything behind the face.
struct Mounts {
    deps: FaceDeps,
    clients: Arc<Clients>,
    /// What clients see.
    view: View,
    calls: SlotPool,
    suspended: SuspendedCalls,
    config: StreamableHttpServerConfig,
    recorder: Recorder,
    /// The agent's tools.
    offer: Offer,
    own: Mutex<MountsOfPath>,
    /// By name in lower case. Only servers that bridges have announced get in, which are bounded.
    servers: Mutex<HashMap<String, MountsOfPath>>,
}

/// What is served at one path for one client.
#[derive(Clone)]
struct Mount {
    service: Service,
    sessions: Arc<LocalSessionManager>,
    limit: SessionLimit,
    recent: RecentResults,
}

/// The mounts of one agent.
pub(crate) fn router(
    settings: &FaceSettings,
    deps: FaceDeps,
    calls: SlotPool,
    suspended: SuspendedCalls,
    stop: CancellationToken,
) -> Router {
    let config = server_config(settings, stop);
    let cors = settings.cors.then(|| Arc::new(Cors::new(&config.allowed_origins)));

    let clients = Arc::new(Clients::new(settings.api.clone()));
    let view = settings.view.clone();
    let front_page = FrontPage::new(deps.clone(), view.clone(), Arc::clone(&clients));
    let front_page = Arc::new(front_page);
    let mounts = Mounts {
        offer: Offer::of_agent(deps.clone()),
        deps,
        clients,
        view,
        calls,
        suspended,
        config,
        recorder: Recorder::new(&global::meter("toolbus.face"), Transport::Tcp),
        own: Mutex::default(),
        servers: Mutex::default(),
    };

    let router = Router::new()
        .route(
            "/mcp",
            any(async |State(mounts): State<Arc<Mounts>>, request: Request| {
                mounts.serve(None, request).await
            }),
        )
        .route("/mcp/{server}", any(serve_at_server))
        // Some clients make the last part of every path `mcp`.
        .route("/{server}/mcp", any(serve_at_server))
        .with_state(Arc::new(mounts))
        .route("/", get(async move |head: Parts| front_page.serve(&head).await))
        .fallback(nothing_here);
    match cors {
        Some(cors) => router.layer(from_fn_with_state(cors, answer_page)),
        None => router,
    }
}

/// Answers a request of a web page so that its browser shows it the answer.
async fn answer_page(State(cors): State<Arc<Cors>>, request: Request, next: Next) -> Response {
    let origin = cors.allowed_origin(request.headers());
    if is_preflight(request.method(), request.headers()) {
        return Cors::preflight(origin);
    }
    Cors::allow(next.run(request).await, origin)
}

async fn serve_at_server(
    State(mounts): State<Arc<Mounts>>,
    Path(server): Path<String>,
    request: Request,
) -> Response {
    mounts.serve(Some(&server), request).await
}

fn server_config(settings: &FaceSettings, stop: CancellationToken) -> StreamableHttpServerConfig {
    let config = StreamableHttpServerConfig::default();
    let ApiSettings { allowed_hosts, allowed_origins, .. } = &settings.api;
    // Whether a request may use the names of this machine is known before the transport sees it.
    let hosts: Vec<_> = config.allowed_hosts.iter().chain(allowed_hosts).cloned().collect();
    let local = ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"].map(str::to_owned);
    let origins = local.into_iter().chain(allowed_origins.iter().cloned());

    config
        .with_allowed_hosts(hosts)
        .with_allowed_origins(origins)
        .enforce_origin_validation()
        .with_max_request_body_bytes(BODY_BYTES_MAX)
        .with_cancellation_token(stop)
}

impl Mounts {
    /// Answers a request at the path of an MCP server, or at that of the agent.
    async fn serve(&self, server: Option<&str>, request: Request) -> Response {
        let (head, body) = request.into_parts();
        // Before its body: who is not let in has nothing read.
        let client = match self.clients.admit(&head) {
            Ok(client) => client,
            Err(error) => return refuse_visitor(error),
        };

        let mount = match server {
            None => Some(self.mount_of_agent(&client)),
            Some(server) => self.mount_of_server(server, &client),
        };
        let Some(mount) = mount else {
            let line = "no MCP server of this name is there; GET / lists those that are\n";
            return refuse(StatusCode::NOT_FOUND, line);
        };
        mount.serve_request(Request::from_parts(head, body)).await
    }

    /// What is served for the agent itself.
    fn mount_of_agent(&self, client: &Principal) -> Mount {
        let mut own = self.own.lock();
        let mount = own
            .entry(Arc::clone(&client.name))
            .or_insert_with(|| self.mount(self.offer.clone(), self.recorder.clone(), client));
        mount.clone()
    }

    /// What is served for one MCP server; `None` where clients see none of that name.
    fn mount_of_server(&self, name: &str, client: &Principal) -> Option<Mount> {
        let server = self.deps.read_seen(name, &self.view, |seen| seen.server_name.clone());
        let key = name.to_lowercase();

        let mut servers = self.servers.lock();
        let Some(server) = server else {
            // Its sessions end with it; one that comes back is asked anew.
            servers.remove(&key);
            return None;
        };
        let mounts = servers.entry(key).or_default();
        let mount = mounts.entry(Arc::clone(&client.name)).or_insert_with(|| {
            let recorder = self.recorder.about_server(&server);
            self.mount(Offer::of_server(self.deps.clone(), server), recorder, client)
        });
        Some(mount.clone())
    }

    fn mount(&self, offer: Offer, recorder: Recorder, client: &Principal) -> Mount {
        let (calls, suspended) = (self.calls.clone(), self.suspended.clone());
        let handler = Handler::new(offer, self.view.clone(), client.clone(), calls, suspended);
        Mount::new(handler, recorder, &self.config)
    }
}

impl Mount {
    fn new(handler: Handler, recorder: Recorder, config: &StreamableHttpServerConfig) -> Self {
        let sessions = Arc::new(LocalSessionManager::default());
        let make = move || Ok(InstrumentedHandler::new(handler.for_session(), recorder.clone()));
        let service = Service::new(make, Arc::clone(&sessions), config.clone());
        let limit = SessionLimit::default();
        Self { service, sessions, limit, recent: RecentResults::default() }
    }

    async fn serve_request(self, request: Request) -> Response {
        // The whole body first: a client that is slow to send it takes no room from others.
        let (mut head, body) = request.into_parts();
        let Ok(body) = to_bytes(body, BODY_BYTES_MAX).await else {
            let line = format!("the body is longer than {BODY_BYTES_MAX} bytes, or broke off\n");
            return refuse(StatusCode::PAYLOAD_TOO_LARGE, line);
        };
        // The reader of the protocol limits the depth, and says so.
        match BODY_LIMITS.with_depth(usize::MAX).check(&body) {
            Ok(()) => {}
            Err(OverLimit::Values { max }) => {
                let line = format!("the body has more than {max} JSON values\n");
                return refuse(StatusCode::PAYLOAD_TOO_LARGE, line);
            }
            Err(over) => {
                return refuse(StatusCode::BAD_REQUEST, format!("the body is refused: {over}\n"));
            }
        }

        let slot = ResultSlot::default();
        head.extensions.insert(slot.clone());
        if let Some(params) = ClientParams::read(&body) {
            head.extensions.insert(params);
        }
        // Only streams of sessions can be asked for again.
        let has_session = head.headers.contains_key("mcp-session-id");
        let recent = has_session.then(|| self.recent.clone());

        // Only the older era has sessions, and only its first request comes without one.
        let begins_a_session = !has_session && !head.headers.contains_key("mcp-method");
        let open = if begins_a_session { self.sessions.sessions.read().await.len() } else { 0 };
        let reservation = begins_a_session.then(|| self.limit.try_reserve(open));
        if matches!(reservation, Some(None)) {
            return too_many_sessions(&body);
        }

        let sent = SentRequest::of(&head.method, &head.headers, &body);
        let request = Request::from_parts(head, Body::from(body));
        let response = self.service.handle(request).await.map(Body::new);
        sent.reword(put_in_place(response, slot, recent))
    }
}

/// Refuses a session: HTTP 503, with an error of the protocol that says why and what the bound is.
fn too_many_sessions(request: &[u8]) -> Response {
    let message: Option<Value> = toolbus_json::from_slice(request, &BODY_LIMITS).ok();
    let id = message.and_then(|mut message| message.get_mut("id").map(Value::take));
    let error = json!({
        "jsonrpc": "2.0",
        "id": id,
        "error": {
            "code": TOO_MANY_SESSIONS,
            "message": format!("too many sessions: there are {SESSIONS_MAX} at this path"),
            "data": {"reason": "too_many_sessions", "limit": SESSIONS_MAX},
        },
    });
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (RETRY_AFTER, SESSIONS_RETRY_AFTER),
    ];
    (StatusCode::SERVICE_UNAVAILABLE, headers, error.to_string()).into_response()
}
