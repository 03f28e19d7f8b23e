//! Sends responses to the requests of a script whose reports are read from the log of its pod.
//!
//! Over streams that are attached for that alone, and again whenever they break. Invariants: what
//! they carry in the other direction is read and goes nowhere, since a reader that stalls would
//! stall the container; a message that was cut off is forgotten by the supervisor, since a greeting
//! comes first on every connection; no response is sent before the greeting has been answered.

use std::convert::Infallible;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::{Interval, sleep};
use toolbus_scripts::runner::CHANNEL_OPEN_MAX;
use toolbus_scripts::supervisor::{Requests, protocol};
use uuid::Uuid;

use crate::attach::{ContainerFrame, attach};
use crate::errors;
use crate::script_session::ScriptSession;

/// How long to wait before streams are attached again.
const ATTACH_BACKOFF: Duration = Duration::from_millis(500);

/// How often the supervisor is greeted until it answers: what is sent at first may be lost.
const GREETING_INTERVAL: Duration = Duration::from_secs(1);

/// The sender for one script.
pub(crate) struct ResponseSender<'a> {
    session: &'a ScriptSession<'a>,
    connection: Option<Connection<'a>>,
}

/// Streams that are attached, or about to be.
struct Connection<'a> {
    messages: mpsc::Sender<Bytes>,
    /// When to greet the supervisor again.
    greetings: Interval,
    /// Ends when the streams break.
    sending: Pin<Box<dyn Future<Output = ()> + Send + 'a>>,
}

impl<'a> ResponseSender<'a> {
    /// A sender that attaches nothing unless the script has a channel.
    pub(crate) fn new(session: &'a ScriptSession<'a>) -> Self {
        Self { session, connection: None }
    }

    /// Sends responses as they come, without end. Cancel-safe: what is half sent goes on when it is
    /// called again.
    pub(crate) async fn forward(&mut self, requests: &mut Requests) -> Infallible {
        if !requests.has_channel() {
            return std::future::pending().await;
        }

        loop {
            let session = self.session;
            let connection = self.connection.get_or_insert_with(|| {
                requests.pause_until(Uuid::new_v4().simple().to_string());
                Connection::open(session)
            });

            let mark = requests.awaited_mark().map(protocol::mark_message);
            tokio::select! {
                () = &mut connection.sending => self.connection = None,
                message = requests.next_message() => {
                    // There is room for a response to every open request, and greetings.
                    let _ = connection.messages.try_send(message);
                }
                _ = connection.greetings.tick(), if mark.is_some() => {
                    let hello = protocol::hello_message(session.nonce);
                    for message in [Some(hello), mark].into_iter().flatten() {
                        // Where those before were not sent yet, these are not needed.
                        let _ = connection.messages.try_send(message);
                    }
                }
            }
        }
    }
}

impl<'a> Connection<'a> {
    fn open(session: &'a ScriptSession<'a>) -> Self {
        let (messages, queued) = mpsc::channel(2 * CHANNEL_OPEN_MAX);
        let greetings = tokio::time::interval(GREETING_INTERVAL);
        Self { messages, greetings, sending: Box::pin(send_messages(session, queued)) }
    }
}

/// Attaches streams and sends what is queued, until they break.
async fn send_messages(session: &ScriptSession<'_>, mut queued: mpsc::Receiver<Bytes>) {
    let reason = match try_send_messages(session, &mut queued).await {
        Ok(()) => "closed".to_owned(),
        Err(reason) => reason,
    };
    tracing::debug!(pod = session.name, reason, "streams for responses to a script ended");
    sleep(ATTACH_BACKOFF).await;
}

async fn try_send_messages(
    session: &ScriptSession<'_>,
    queued: &mut mpsc::Receiver<Bytes>,
) -> Result<(), String> {
    let namespace = session.pods.namespace().unwrap_or_default();
    let attached = attach(session.client, namespace, session.name).await;
    let (mut input, mut output) = attached.map_err(|error| errors::error_chain(&error))?;

    loop {
        tokio::select! {
            message = queued.recv() => match message {
                Some(message) => input.send(&message).await.map_err(|error| error.to_string())?,
                None => return Ok(()),
            },
            frame = output.next() => {
                if let ContainerFrame::Closed(reason) = frame {
                    return Err(reason);
                }
            }
        }
    }
}
