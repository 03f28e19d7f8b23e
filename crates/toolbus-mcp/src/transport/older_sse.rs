//! HTTP with server-sent events, the transport of 2024-11-05: one event stream brings every message
//! of the server, and a POST takes each message to the server to the address that the stream's
//! first event names.
//!
//! The address has to be of the origin of the stream, for credentials go there. The stream is the
//! connection: its end is the end. An event that is too long or not understood ends its own call
//! with an error, and no other.

use std::io;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, RETRY_AFTER, WWW_AUTHENTICATE};
use reqwest::{Response, StatusCode, Url};
use rmcp::RoleClient;
use rmcp::model::JsonRpcMessage;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError,
};
use tokio::io::AsyncRead;
use tokio::sync::Semaphore;
use tokio_util::io::StreamReader;

use super::MESSAGE_BYTES_MAX;
use super::batch::BatchQueue;
use super::intercept::WireState;
use super::sse_events::{Event, EventReader};
use super::stdio::{ParsedLine, Received, parse_line, replace_answer, too_long_text};
use super::streamable_http::{REQUESTS_MAX, SessionClient};
use crate::config::Endpoint;
use crate::http::Error;

const EVENT_STREAM: &str = "text/event-stream";
/// Longest answer to a POST that is read for what is wrong, in bytes. Such an answer has no other
/// content.
const REFUSAL_BYTES_MAX: usize = 4 << 10;
/// Longest address that an event names, in bytes.
const ADDRESS_BYTES_MAX: usize = 8 << 10;

type ByteStream = Pin<Box<dyn AsyncRead + Send>>;

/// One event stream, and the address that takes our messages.
pub(crate) struct SseTransport {
    events: EventReader<ByteStream>,
    batch: BatchQueue,
    sender: Arc<PostSender>,
}

struct PostSender {
    client: SessionClient,
    address: Url,
    headers: HeaderMap,
    permits: Semaphore,
}

impl SseTransport {
    /// Opens the stream and waits for its first event. The caller bounds the time.
    pub(super) async fn open(endpoint: &Endpoint, client: SessionClient) -> Result<Self, Error> {
        let headers: HeaderMap = endpoint.headers.iter().cloned().collect();
        let get = |token: Option<String>| {
            let request = client.inner.get(endpoint.url.clone()).headers(headers.clone());
            send_checked(with_token(request, token).header(ACCEPT, EVENT_STREAM))
        };

        client.pause.check()?;
        let response = client.send(get).await?;
        let kind = response.headers().get(CONTENT_TYPE).map(|kind| kind.as_bytes().to_vec());
        if !kind.as_ref().is_some_and(|kind| kind.starts_with(EVENT_STREAM.as_bytes())) {
            let kind = kind.map(|kind| String::from_utf8_lossy(&kind).into_owned());
            return Err(Error::UnexpectedContentType(kind));
        }

        // Where redirects have led, which is the same origin.
        let origin = response.url().clone();
        let bytes = response.bytes_stream().map_err(io::Error::other).boxed();
        let stream: ByteStream = Box::pin(StreamReader::new(bytes));

        let mut events = EventReader::new(stream, MESSAGE_BYTES_MAX);
        let address = client.until_ended(read_endpoint(&mut events, &origin)).await?;
        let permits = Semaphore::new(REQUESTS_MAX);
        let sender = Arc::new(PostSender { client, address, headers, permits });
        Ok(Self { events, batch: BatchQueue::default(), sender })
    }

    fn read_event(&mut self, event: Event) -> Received {
        match event {
            Event::End => Received::End,
            Event::Whole(name, data) if name == "message" => {
                if self.batch.try_take(self.sender.client.wire.server(), &data) {
                    return Received::Nothing;
                }
                read_message(&self.sender.client.wire, data)
            }
            // Other events are not of the protocol, and there is one endpoint for good.
            Event::Whole(..) => Received::Nothing,
            Event::Cut(line) => match line.answered_request() {
                Some(id) => replace_answer(id, too_long_text(line.length)),
                None => Received::Nothing,
            },
        }
    }
}

fn read_message(wire: &WireState, text: Vec<u8>) -> Received {
    match parse_line(wire, text) {
        ParsedLine::Message(message) => Received::Message(message),
        ParsedLine::Answer(id, what) => replace_answer(id, what.to_owned()),
        ParsedLine::Stray => Received::Nothing,
    }
}

/// Waits for the event that names the address for messages.
async fn read_endpoint(events: &mut EventReader<ByteStream>, origin: &Url) -> Result<Url, Error> {
    let unexpected = |what: &'static str| Error::UnexpectedServerResponse(what.into());
    loop {
        match events.next().await {
            Event::Whole(name, data) if name == "endpoint" => {
                if data.len() > ADDRESS_BYTES_MAX {
                    return Err(unexpected("the address for messages is too long"));
                }

                let text = String::from_utf8_lossy(&data);
                let address = origin.join(text.trim());
                let address =
                    address.map_err(|_| unexpected("the address for messages is none"))?;
                if address.origin() != origin.origin() {
                    return Err(unexpected("the address for messages is of another origin"));
                }
                return Ok(address);
            }
            Event::End => {
                return Err(unexpected("the event stream ended before it named an address"));
            }
            Event::Whole(..) | Event::Cut(_) => {}
        }
    }
}

impl PostSender {
    async fn send(&self, message: TxJsonRpcMessage<RoleClient>) -> Result<(), Error> {
        // An error would mean that the semaphore is closed, and it never is.
        let _permit = self.permits.acquire().await.map_err(|_| Error::TransportChannelClosed)?;
        let body = WireState::write(&message)?;
        if matches!(message, JsonRpcMessage::Request(_)) {
            self.client.pause.check()?;
        }

        let post = |token: Option<String>| {
            let request =
                self.client.inner.post(self.address.clone()).headers(self.headers.clone());
            let request = request.header(CONTENT_TYPE, "application/json").body(body.clone());
            send_checked(with_token(request, token))
        };
        self.client.send(post).await.map(drop)
    }
}

fn with_token(request: reqwest::RequestBuilder, token: Option<String>) -> reqwest::RequestBuilder {
    match token {
        Some(token) => request.bearer_auth(token),
        None => request,
    }
}

/// Sends a request and returns the response, unless that refuses the request: then the error that
/// streamable HTTP has for that.
async fn send_checked(request: reqwest::RequestBuilder) -> Result<Response, Error> {
    let response = request.send().await.map_err(reqwest::Error::without_url)?;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }

    let challenge = response.headers().get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
    match (status, challenge.map(str::to_owned)) {
        (StatusCode::UNAUTHORIZED, Some(challenge)) => {
            return Err(Error::AuthRequired(AuthRequiredError::new(challenge)));
        }
        (StatusCode::FORBIDDEN, Some(challenge)) => {
            let scope = read_scope(&challenge);
            return Err(Error::InsufficientScope(InsufficientScopeError::new(challenge, scope)));
        }
        _ => {}
    }

    if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() {
        let retry_after = response.headers().get(RETRY_AFTER).and_then(|wait| wait.to_str().ok());
        return Err(HttpStatusError::new(status.as_u16(), retry_after.map(str::to_owned)).into());
    }
    let text = read_beginning(response).await;

    // The words of the SDKs that servers are made with for a session that they do not know. Such a
    // request was not run.
    let folded = text.to_ascii_lowercase();
    let names_the_session = folded.contains("session");
    if matches!(status.as_u16(), 400 | 404 | 410) && names_the_session {
        return Err(Error::SessionExpired);
    }
    Err(Error::UnexpectedServerResponse(format!("HTTP {status}: {text}").into()))
}

pub(super) fn read_scope(challenge: &str) -> Option<String> {
    let (_, value) = challenge.split_once("scope=\"")?;
    value.split_once('"').map(|(scope, _)| scope.to_owned())
}

async fn read_beginning(mut response: Response) -> String {
    let mut body = Vec::new();
    while body.len() < REFUSAL_BYTES_MAX {
        match response.chunk().await {
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) | Err(_) => break,
        }
    }
    body.truncate(REFUSAL_BYTES_MAX);
    String::from_utf8_lossy(&body).into_owned()
}

impl Transport<RoleClient> for SseTransport {
    type Error = Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Error>> + Send + 'static {
        let sender = Arc::clone(&self.sender);
        async move { sender.send(message).await }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            while let Some(message) = self.batch.next_message() {
                let text = message.get().as_bytes().to_vec();
                if let Received::Message(message) = read_message(&self.sender.client.wire, text) {
                    return Some(message);
                }
            }

            let event = self.events.next().await;
            match self.read_event(event) {
                Received::Message(message) => return Some(message),
                Received::Nothing => {}
                Received::End => return None,
            }
        }
    }

    async fn close(&mut self) -> Result<(), Error> {
        // The stream closes with this; requests that wait end with the connection.
        Ok(())
    }
}
