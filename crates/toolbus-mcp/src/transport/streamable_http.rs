//! Streamable HTTP: rmcp's transport over a client that ends with its connection, recognizes a lost
//! session by any server's words for it, and never shows an address.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, RequestId};
use rmcp::service::RxJsonRpcMessage;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpPostResponse,
};
use tokio::time::sleep;

use super::MESSAGE_BYTES_MAX;
use super::http_post::{Post, look_at_events};
use super::intercept::WireState;
use super::older_sse::SseTransport;
use super::rate_window::{RateWindow, wait_admitted};
use super::requested_pause::RequestedPause;
use super::stream_watch::{EventStream, StreamWatch};
use crate::auth::Authorization;
use crate::config::Endpoint;
use crate::http::{Error, HttpClients, PrivateAddress};

/// Requests to one server that are sent at the same time and not answered yet.
pub(super) const REQUESTS_MAX: usize = 256;
/// Event streams of one connection that are opened in any one second; more wait. rmcp opens one
/// that has broken off again at once, and one that was closed when its server wants it.
const STREAMS_PER_SECOND_MAX: u32 = 32;
/// Longest session id that spans name, in bytes.
const SESSION_BYTES_MAX: usize = 256;

pub(crate) type HttpTransport = StreamableHttpClientTransport<SessionClient>;

/// How one server is reached over HTTP, by all its connections.
#[derive(Clone)]
pub(crate) struct HttpAccess {
    pub(crate) clients: HttpClients,
    pub(crate) authorization: Option<Arc<Authorization>>,
    pub(crate) pause: RequestedPause,
}

/// A transport to one server. It sends nothing yet. When the connection has ended, so has whatever
/// it waits for.
///
/// # Errors
/// When its address may not be connected to.
pub(crate) fn open(
    access: &HttpAccess,
    endpoint: &Endpoint,
    wire: &Arc<WireState>,
) -> Result<HttpTransport, PrivateAddress> {
    let inner = access.clients.client_for(&endpoint.url)?.clone();
    let mut config = StreamableHttpClientTransportConfig::with_uri(endpoint.url.as_str())
        .max_concurrent_requests(REQUESTS_MAX)
        .custom_headers(endpoint.headers.iter().cloned().collect())
        .max_sse_event_size(MESSAGE_BYTES_MAX);

    // A session that was lost ends the connection: the server may be another one by now, with other
    // tools, and knows of no subscription.
    config.reinit_on_expired_session = false;
    let client = SessionClient::new(inner, access, wire);
    config.retry_config = Arc::new(client.stream_watch.clone());
    Ok(HttpTransport::with_client(client, config))
}

/// Opens the older transport to one server. When the connection has ended, so has whatever it waits
/// for.
///
/// # Errors
/// When its address may not be connected to, or the server does not open an event stream that
/// begins as it has to.
pub(crate) async fn open_older(
    access: &HttpAccess,
    endpoint: &Endpoint,
    wire: &Arc<WireState>,
) -> Result<SseTransport, Error> {
    let inner = access.clients.client_for(&endpoint.url).map_err(std::io::Error::other)?.clone();
    SseTransport::open(endpoint, SessionClient::new(inner, access, wire)).await
}

/// The client of one connection.
#[derive(Clone)]
pub(crate) struct SessionClient {
    pub(super) inner: reqwest::Client,
    authorization: Option<Arc<Authorization>>,
    pub(super) wire: Arc<WireState>,
    stream_watch: StreamWatch,
    stream_rate: Arc<Mutex<RateWindow>>,
    /// The pause that the server has asked for.
    pub(super) pause: RequestedPause,
}

impl SessionClient {
    fn new(inner: reqwest::Client, access: &HttpAccess, wire: &Arc<WireState>) -> Self {
        Self {
            inner,
            authorization: access.authorization.clone(),
            pause: access.pause.clone(),
            wire: Arc::clone(wire),
            stream_watch: StreamWatch::new(wire.stream_lost.clone()),
            stream_rate: Arc::new(Mutex::new(RateWindow::new())),
        }
    }

    /// Sends a request, with a token where the server wants one, and notes the pause that the
    /// server may ask for.
    pub(super) async fn send<T, F>(&self, request: impl Fn(Option<String>) -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let sent = self.until_ended(async {
            // Boxed: kilobytes, which each of a dozen futures around them would move.
            match &self.authorization {
                Some(authorization) => Box::pin(authorization.send(request)).await,
                None => Box::pin(request(None)).await,
            }
        });
        sent.await.inspect_err(|error| self.pause.begin_if_asked(error))
    }

    /// Runs a request until the connection ends. rmcp's worker does not see that end while it waits
    /// for its first answer, so every request sees it itself.
    pub(super) async fn until_ended<T>(
        &self,
        request: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        match self.wire.ended.run_until_cancelled(request).await {
            Some(result) => result.map_err(strip_address),
            None => Err(Error::UnexpectedEndOfStream),
        }
    }
}

fn strip_address(error: Error) -> Error {
    match error {
        Error::Client(error) => Error::Client(error.without_url()),
        other => other,
    }
}

type Headers = HashMap<HeaderName, HeaderValue>;

impl StreamableHttpClient for SessionClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Error> {
        self.post_message_with_max_sse_event_size(
            uri,
            message,
            session_id,
            auth_header,
            headers,
            MESSAGE_BYTES_MAX,
        )
        .await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        headers: Headers,
        _event_bytes_max: usize,
    ) -> Result<StreamableHttpPostResponse, Error> {
        // Notifications and answers ask nothing of the server.
        if request_id(&message).is_some() {
            self.pause.check()?;
        }

        let has_session = session_id.is_some();
        let recorded = session_id.as_ref().filter(|id| id.len() <= SESSION_BYTES_MAX);
        let session = &self.wire.session;
        if session.lock().as_ref() != recorded {
            *session.lock() = recorded.cloned();
        }

        let post = |token: Option<String>| {
            let post = Post {
                address: &uri,
                message: &message,
                session: session_id.as_deref(),
                token: token.or_else(|| auth_header.clone()),
                headers: &headers,
                pause: &self.pause,
            };
            post.send(&self.inner, &self.wire)
        };

        let response = match self.send(post).await {
            Ok(StreamableHttpPostResponse::Json(answer, _))
                if has_session && is_session_refused(&answer, request_id(&message)) =>
            {
                Err(Error::SessionExpired)
            }
            response => response,
        };
        if matches!(response, Err(Error::SessionExpired)) {
            self.wire.session_lost.cancel();
        }
        response
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        headers: Headers,
    ) -> Result<(), Error> {
        // Sent after the end of the connection, so it must not end with it. rmcp bounds it.
        let token =
            self.authorization.as_ref().and_then(|authorization| authorization.usable_token());
        let token = token.map(|token| token.expose().to_owned()).or(auth_header);
        self.inner.delete_session(uri, session_id, token, headers).await.map_err(strip_address)
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        headers: Headers,
    ) -> Result<EventStream, Error> {
        self.get_stream_with_max_sse_event_size(
            uri,
            session_id,
            last_event_id,
            auth_header,
            headers,
            MESSAGE_BYTES_MAX,
        )
        .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        headers: Headers,
        event_bytes_max: usize,
    ) -> Result<EventStream, Error> {
        let get = |token: Option<String>| {
            self.inner.get_stream_with_max_sse_event_size(
                Arc::clone(&uri),
                session_id.clone(),
                last_event_id.clone(),
                token.or_else(|| auth_header.clone()),
                headers.clone(),
                event_bytes_max,
            )
        };

        for failed in 0.. {
            self.until_ended(async {
                // Waited for, where a request is refused: nobody would open the stream again.
                self.pause.wait_over().await;
                wait_admitted(&self.stream_rate, STREAMS_PER_SECOND_MAX).await;
                Ok(())
            })
            .await?;

            let opened = self.send(&get).await;
            match self.stream_watch.first_retry(&opened, failed) {
                Some(backoff) => {
                    self.until_ended(async {
                        sleep(backoff).await;
                        Ok(())
                    })
                    .await?;
                }
                None => {
                    let events = self.stream_watch.watch(opened)?;
                    return Ok(look_at_events(events, &self.wire));
                }
            }
        }
        Err(Error::UnexpectedEndOfStream)
    }
}

/// The id of a message that is answered.
fn request_id(message: &ClientJsonRpcMessage) -> Option<&RequestId> {
    match message {
        JsonRpcMessage::Request(request) => Some(&request.id),
        _ => None,
    }
}

/// Whether the server did not take the message because it does not know the session.
///
/// The protocol's word for that is HTTP 404, which rmcp knows. Many servers say it with HTTP 400
/// and a JSON-RPC error in the words of the SDK that they are made with. Such a message was not
/// run, so it may be sent again in a new session.
///
/// An error with the id of the request is an answer to it, from a tool for example, whatever its
/// words: what refuses a message at the door has not read it, and answers with no id or another.
fn is_session_refused(answer: &RxJsonRpcMessage<RoleClient>, request: Option<&RequestId>) -> bool {
    const WORDS: &[&str] = &["no valid session id", "session not found", "expired session"];

    let JsonRpcMessage::Error(answer) = answer else { return false };
    if request.is_some() && answer.id.as_ref() == request {
        return false;
    }
    let message = answer.error.message.to_ascii_lowercase();
    matches!(answer.error.code.0, -32000 | -32001 | -32600)
        && WORDS.iter().any(|words| message.contains(words))
}
