//! The agent as a server of the A2A protocol: its card, and JSON-RPC over HTTP in the versions 1.0
//! and 0.3.
//!
//! What is asked becomes a row like those of tasks that come over the bus, done through the same
//! [`DoTask`](crate::DoTask) by whichever process has room; so a client that goes away, or a
//! process that is killed, costs nothing but the connection. The same message of a client is one
//! task, and nobody else's tasks are there for it.
//!
//! It opens no port itself: [`HttpServer::router`] is served by whoever has one.

mod call;
mod card;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod methods;
mod places;
mod streams;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolbus_tools::visitors::{VisitorError, Visitors, host_of};

use crate::TaskIntake;
use crate::protocol::{CARD_PATH, ErrorKind, RpcError};
use call::Call;
use places::Places;

pub use toolbus_tools::visitors::ApiSettings;

/// Where requests go.
pub const RPC_PATH: &str = "/a2a";
/// Longest body of a request, in bytes.
pub const HTTP_BODY_BYTES_MAX: usize = 1 << 20;
/// How long a body may take to come.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Connections beside those of requests that wait: of clients that are refused, or have yet to ask.
const CONNECTIONS_MORE: usize = 24;

/// Whose requests are answered, and how many.
#[derive(Clone)]
pub struct HttpServerConfig {
    /// The clients and their tokens, and the names and web pages that the port is reached by.
    pub api: ApiSettings,
    /// What the port is reached by, without a path, such as `https://agent.example.com`. `None`:
    /// what the request for the card was sent to, over `http`.
    pub public_url: Option<String>,
    /// Tasks that clients have open at a time: all of them, in all processes of the agent.
    pub open_max: u64,
    /// The same of each client.
    pub client_open_max: u64,
    /// Requests that wait for a task at a time, in this process: streams, and those that want the
    /// end of a task.
    pub waiting_max: usize,
    /// The same of each client.
    pub client_waiting_max: usize,
    /// How long a request without a stream waits for the end of its task. It is answered with the
    /// task as it is then.
    pub wait_timeout: Duration,
}

impl Default for HttpServerConfig {
    fn default() -> Self {
        Self {
            api: ApiSettings::default(),
            public_url: None,
            open_max: 200,
            client_open_max: 20,
            waiting_max: 64,
            client_waiting_max: 10,
            wait_timeout: Duration::from_secs(5 * 60),
        }
    }
}

impl HttpServerConfig {
    /// How many connections its server may have.
    #[must_use]
    pub fn connections_max(&self) -> usize {
        self.waiting_max + CONNECTIONS_MORE
    }
}

/// The agent as a server of the A2A protocol. Before its worker is closed, [`drain`] it.
///
/// [`drain`]: HttpServer::drain
pub struct HttpServer {
    router: Router,
    shared: Arc<Shared>,
}

/// What its requests share.
pub(crate) struct Shared {
    intake: TaskIntake,
    config: HttpServerConfig,
    visitors: Visitors,
    places: Arc<Places>,
    /// Fires when nothing is waited for any more.
    stop: CancellationToken,
}

impl HttpServer {
    /// A server whose tasks are done by the worker of this intake.
    #[must_use]
    pub fn new(config: HttpServerConfig, intake: TaskIntake) -> Self {
        let shared = Arc::new(Shared {
            intake,
            visitors: Visitors::new(config.api.clone()),
            places: Arc::new(Places::new(config.waiting_max, config.client_waiting_max)),
            config,
            stop: CancellationToken::new(),
        });
        let router = Router::new()
            .route(CARD_PATH, get(show_card))
            .route(RPC_PATH, post(answer))
            .with_state(Arc::clone(&shared));
        Self { router, shared }
    }

    /// What is to be served.
    pub fn router(&self) -> Router {
        self.router.clone()
    }

    /// Takes no more tasks, waits up to `grace` for those that this process does, and then ends the
    /// requests that wait. What is left goes on in another process.
    pub async fn drain(&self, grace: Duration) {
        self.shared.places.close();
        self.shared.intake.drain(grace).await;
        self.shared.stop.cancel();
    }
}

/// The card is for everybody whom the port is for: it says that a token is needed.
async fn show_card(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (head, _) = request.into_parts();
    if let Err(error) = shared.visitors.check_place(&head) {
        return refuse(error);
    }
    let url = match &shared.config.public_url {
        Some(url) => format!("{}{RPC_PATH}", url.trim_end_matches('/')),
        None => format!("http://{}{RPC_PATH}", host_of(&head.uri, &head.headers)),
    };
    let worker = shared.intake.worker();
    let card = worker.config().card.clone().unwrap_or_default();
    let needs_token = shared.visitors.need_tokens();
    axum::Json(card::describe(worker.agent().as_str(), &card, &url, needs_token)).into_response()
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let client = match shared.visitors.admit(&parts) {
        Ok(client) => client,
        Err(error) => return refuse(error),
    };

    // A page can send other types to anybody without being asked.
    if !is_json(&parts.headers) {
        let error = RpcError::new(ErrorKind::InvalidRequest, "a request is application/json");
        return failure(StatusCode::UNSUPPORTED_MEDIA_TYPE, &Value::Null, &error);
    }
    let body = match read_body(body).await {
        Ok(body) => body,
        Err((status, error)) => return failure(status, &Value::Null, &error),
    };
    let call = match Call::read(&body, &parts.headers, &client) {
        Ok(call) => call,
        Err((id, error)) => return failure(StatusCode::OK, &id, &error),
    };
    drop(body);

    match shared.answer(&call).await {
        Ok(response) => response,
        Err(error) => failure(status_of(error.kind), &call.id, &error),
    }
}

fn status_of(kind: ErrorKind) -> StatusCode {
    match kind {
        ErrorKind::Busy => StatusCode::TOO_MANY_REQUESTS,
        _ => StatusCode::OK,
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
        || kind.eq_ignore_ascii_case("application/a2a+json")
}

async fn read_body(body: Body) -> Result<axum::body::Bytes, (StatusCode, RpcError)> {
    let read = axum::body::to_bytes(body, HTTP_BODY_BYTES_MAX);
    match tokio::time::timeout(BODY_TIMEOUT, read).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(_)) => {
            let what = format!("a body is complete, and has up to {HTTP_BODY_BYTES_MAX} bytes");
            let error = RpcError::new(ErrorKind::InvalidRequest, what);
            Err((StatusCode::PAYLOAD_TOO_LARGE, error))
        }
        Err(_) => {
            let error = RpcError::new(ErrorKind::InvalidRequest, "the body did not come in time");
            Err((StatusCode::REQUEST_TIMEOUT, error))
        }
    }
}

fn refuse(error: VisitorError) -> Response {
    let body = json!({"error": {"code": error.code(), "message": error.to_string()}});
    let mut response = (error.status(), axum::Json(body)).into_response();
    if error == VisitorError::Unauthorized {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

fn failure(status: StatusCode, id: &Value, error: &RpcError) -> Response {
    let mut response = (status, axum::Json(error.to_response(id))).into_response();
    if status == StatusCode::TOO_MANY_REQUESTS {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}
