//! A connection to the standard streams of a pod's container.
//!
//! Read frame by frame on the caller's own task: the client library's own reader would put a task
//! and three buffers of one kibibyte in between, and does not say when the connection is lost.
//!
//! Invariants: nothing here waits forever (the caller's timeout surrounds every call); a connection
//! that was refused because the container is not there yet is distinguished from one that was cut.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Sink, SinkExt as _, Stream, StreamExt as _};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode, header};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::api::AttachParams;
use kube::client::{Body, UpgradeConnectionError};
use kube::{Client, Resource as _};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error as SocketError, Message};
use toolbus_json::Limits;

/// How long one try to connect may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// An API server hands this one through to the node. One that is newer by a version it would
/// translate instead, and it forgets to close its connection to the node when that has no container
/// yet (kubernetes/kubernetes#135245).
const PROTOCOL: &str = "v4.channel.k8s.io";
/// Most bytes of standard input in one message.
const PIECE_BYTES: usize = 32 << 10;
/// Most bytes of one message that comes in. One of output has some ten kibibytes.
const MESSAGE_BYTES_MAX: usize = 2 << 20;
/// How an API server says that the streams have ended: a few members, one of them a message.
const STATUS_LIMITS: Limits = Limits::of_bytes(1 << 20).with_values(1_000);

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;

/// The sending half.
pub(crate) struct ContainerInput(Pin<Box<dyn Sink<Message, Error = SocketError> + Send + Sync>>);

/// The receiving half.
pub(crate) struct ContainerOutput(Pin<Box<dyn Stream<Item = Result<Message, SocketError>> + Send>>);

/// A piece of what a container sends.
#[derive(Debug)]
pub(crate) enum ContainerFrame {
    /// Bytes of its standard output.
    Stdout(Bytes),
    /// Bytes of its standard error.
    Stderr(Bytes),
    /// The connection has ended, and why.
    Closed(String),
}

/// Attaches to a pod's only container. That it succeeds does not mean that the container is there:
/// where it is not, the first frame says so.
pub(crate) async fn attach(
    client: &Client,
    namespace: &str,
    pod: &str,
) -> Result<(ContainerInput, ContainerOutput), kube::Error> {
    let parameters = AttachParams::default().stdin(true).stdout(true).stderr(true);
    let request = kube::core::Request::new(Pod::url_path(&(), Some(namespace)))
        .attach(pod, &parameters)
        .map_err(kube::Error::BuildRequest)?;
    let socket = timeout(CONNECT_TIMEOUT, open_socket(client, request)).await.map_err(|_| {
        kube::Error::Service(format!("no connection within {CONNECT_TIMEOUT:?}").into())
    })??;
    let (sink, stream) = socket.split();
    Ok((ContainerInput(Box::pin(sink)), ContainerOutput(Box::pin(stream))))
}

/// Opens a WebSocket of protocol [`PROTOCOL`], which the client library cannot be made to ask for.
async fn open_socket(
    client: &Client,
    request: Request<Vec<u8>>,
) -> Result<WebSocketStream<TokioIo<Upgraded>>, kube::Error> {
    let key = generate_key();
    let (mut parts, _) = request.into_parts();
    let own: [(HeaderName, &str); 5] = [
        (header::CONNECTION, "Upgrade"),
        (header::UPGRADE, "websocket"),
        (header::SEC_WEBSOCKET_VERSION, "13"),
        (header::SEC_WEBSOCKET_PROTOCOL, PROTOCOL),
        (header::SEC_WEBSOCKET_KEY, &key),
    ];
    for (name, value) in own {
        let value = HeaderValue::from_str(value).map_err(|e| kube::Error::HttpError(e.into()))?;
        parts.headers.insert(name, value);
    }

    let response = client.send(Request::from_parts(parts, Body::empty())).await?;
    check_upgrade(&response, &key).map_err(kube::Error::UpgradeConnection)?;

    let upgraded = hyper::upgrade::on(response).await;
    let upgraded = upgraded.map_err(|error| {
        kube::Error::UpgradeConnection(UpgradeConnectionError::GetPendingUpgrade(error))
    })?;

    let config = Some(socket_config());
    Ok(WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Client, config).await)
}

fn socket_config() -> WebSocketConfig {
    WebSocketConfig::default()
        .max_message_size(Some(MESSAGE_BYTES_MAX))
        .max_frame_size(Some(MESSAGE_BYTES_MAX))
}

/// Checks that a response switches to our protocol.
fn check_upgrade<B>(response: &Response<B>, key: &str) -> Result<(), UpgradeConnectionError> {
    let is = |name: &HeaderName, expected: &str| {
        response.headers().get(name).is_some_and(|value| value == expected)
    };

    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Err(UpgradeConnectionError::ProtocolSwitch(response.status()));
    }

    if !is(&header::SEC_WEBSOCKET_ACCEPT, &derive_accept_key(key.as_bytes())) {
        return Err(UpgradeConnectionError::SecWebSocketAcceptKeyMismatch);
    }

    if !is(&header::SEC_WEBSOCKET_PROTOCOL, PROTOCOL) {
        return Err(UpgradeConnectionError::SecWebSocketProtocolMismatch);
    }

    Ok(())
}

impl ContainerInput {
    /// An input that leads to no container.
    #[cfg(test)]
    pub(crate) fn to(
        sink: impl Sink<Message, Error = SocketError> + Send + Sync + 'static,
    ) -> Self {
        Self(Box::pin(sink))
    }

    /// Sends bytes to the container's standard input. Not cancel-safe: the connection is of no use
    /// after it was dropped half way.
    pub(crate) async fn send(&mut self, bytes: &Bytes) -> Result<(), SocketError> {
        for piece in bytes.chunks(PIECE_BYTES) {
            let mut message = Vec::with_capacity(piece.len() + 1);
            message.push(STDIN);
            message.extend_from_slice(piece);
            self.0.feed(Message::Binary(message.into())).await?;
        }
        self.0.flush().await
    }
}

impl ContainerOutput {
    /// The next frame. Cancel-safe.
    pub(crate) async fn next(&mut self) -> ContainerFrame {
        loop {
            let message = match self.0.next().await {
                Some(Ok(Message::Binary(message))) => message,
                Some(Ok(Message::Close(_))) | None => {
                    return ContainerFrame::Closed("the connection was closed".to_owned());
                }
                Some(Ok(_)) => continue,
                Some(Err(error)) => return ContainerFrame::Closed(error.to_string()),
            };

            // Each channel is opened by an empty message.
            match message.first() {
                Some(_) if message.len() == 1 => {}
                Some(&STDOUT) => return ContainerFrame::Stdout(message.slice(1..)),
                Some(&STDERR) => return ContainerFrame::Stderr(message.slice(1..)),
                Some(&STATUS) => return ContainerFrame::Closed(status_text(&message[1..])),
                _ => {}
            }
        }
    }
}

/// What a status says; `Success` when the container's streams ended.
fn status_text(status: &[u8]) -> String {
    let status: serde_json::Value =
        toolbus_json::from_slice(status, &STATUS_LIMITS).unwrap_or_default();
    let text = |name: &str| status.get(name).and_then(|text| text.as_str()).unwrap_or_default();
    match text("message") {
        "" => text("status").to_owned(),
        message => message.to_owned(),
    }
}

/// Reads frames of a container out of messages until the connection ends.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz<'a>(messages: impl Iterator<Item = &'a [u8]>) {
    use futures_util::FutureExt as _;

    let message = |bytes: &[u8]| Ok(Message::Binary(Bytes::copy_from_slice(bytes)));
    let messages: Vec<Result<Message, SocketError>> = messages.map(message).collect();
    let mut output = ContainerOutput(Box::pin(futures_util::stream::iter(messages)));
    loop {
        let frame = output.next().now_or_never().expect("all messages are there");
        if let ContainerFrame::Closed(_) = frame {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
