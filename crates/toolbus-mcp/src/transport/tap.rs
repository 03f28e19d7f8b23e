//! Listens on a connection, between rmcp and the transport under it.
//!
//! rmcp hands every notification to a task of its own, so that progress could arrive out of order
//! and after its result, and a server that sends without end could start tasks without end. What
//! concerns us is taken out here, in order, before rmcp sees it. This is also where it is known
//! that a connection is at its end, and whether a call was handed over before that.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use rmcp::RoleClient;
use rmcp::model::{
    ClientNotification, ClientRequest, GetMeta, JsonRpcMessage, JsonRpcNotification,
    ProgressNotificationParam, ProgressToken, RequestId, ServerNotification,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::Serialize;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolbus_bus::Progress;
use toolbus_wire::message::toolbus::ToolProgress;

use crate::eraser::{Eraser, shortened};

/// Requests of the server to us that are not answered yet; more are not taken.
const SERVER_REQUESTS_MAX: usize = 64;
/// Progress of one call that is passed on in any one second; more is dropped.
const PROGRESS_PER_SECOND_MAX: u32 = 50;
/// Words to the server that a request is cancelled which are still to be sent. One that takes them
/// this slowly is stuck, and what it is not told piles up here.
const CANCELS_UNSENT_MAX: usize = 1024;
/// Longest text of one progress or log notification that is passed on, in bytes.
const NOTE_BYTES_MAX: usize = 2 << 10;

/// A transport that is listened on.
pub(crate) struct Tap<T> {
    inner: T,
    wire: Arc<Wire>,
}

/// What is known about one connection by listening.
pub(crate) struct Wire {
    /// Fires when nothing more will come.
    pub(crate) ended: CancellationToken,
    /// Fires when the server does not take what it is sent.
    pub(crate) stuck: CancellationToken,
    /// Told whenever the server says that its list of tools has changed.
    pub(crate) tools_changed: Notify,
    server: String,
    eraser: Eraser,
    asked: Mutex<Asked>,
    cancels_unsent: AtomicUsize,
    /// Requests of the server that we have not answered yet.
    serving: Mutex<HashSet<RequestId>>,
}

/// Requests that wait for their answer. An answer to any other is not rmcp's to see: before the
/// handshake is done, it takes that for the end of the connection.
#[derive(Default)]
struct Asked {
    requests: HashMap<RequestId, Option<ProgressToken>>,
    marks: HashMap<ProgressToken, Mark>,
}

/// Goes along with one call's request, in its extensions, which are never sent.
#[derive(Clone)]
pub(crate) struct Mark(Arc<MarkState>);

struct MarkState {
    handed_over: AtomicBool,
    is_over: AtomicBool,
    progress: Progress,
    pace: Mutex<Pace>,
}

/// How much progress was passed on in the current second.
struct Pace {
    since: Instant,
    count: u32,
}

impl Mark {
    pub(crate) fn new(progress: Progress) -> Self {
        Self(Arc::new(MarkState {
            handed_over: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            progress,
            pace: Mutex::new(Pace { since: Instant::now(), count: 0 }),
        }))
    }

    /// Whether the request was given to the transport: from then on it may have been sent.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.0.handed_over.load(Ordering::Acquire)
    }

    /// Ends progress: the call has its outcome.
    pub(crate) fn end(&self) {
        self.0.is_over.store(true, Ordering::Release);
    }

    fn wants_progress(&self) -> bool {
        self.0.progress.is_wanted()
    }

    fn has_room(&self) -> bool {
        if self.0.is_over.load(Ordering::Acquire) {
            return false;
        }
        let mut pace = self.0.pace.lock();
        if pace.since.elapsed().as_secs() > 0 {
            *pace = Pace { since: Instant::now(), count: 0 };
        }
        pace.count += 1;
        pace.count <= PROGRESS_PER_SECOND_MAX
    }
}

impl Wire {
    pub(crate) fn new(server: &str, eraser: Eraser) -> Arc<Self> {
        Arc::new(Self {
            ended: CancellationToken::new(),
            stuck: CancellationToken::new(),
            tools_changed: Notify::new(),
            server: server.to_owned(),
            eraser,
            asked: Mutex::default(),
            cancels_unsent: AtomicUsize::new(0),
            serving: Mutex::default(),
        })
    }

    fn sees(&self, message: &TxJsonRpcMessage<RoleClient>) {
        match message {
            JsonRpcMessage::Request(request) => self.sees_request(&request.id, &request.request),
            JsonRpcMessage::Notification(notification) => {
                if let Some(id) = cancelled(notification) {
                    self.asked.lock().settle(id);
                    if self.cancels_unsent.fetch_add(1, Ordering::AcqRel) >= CANCELS_UNSENT_MAX {
                        self.stuck.cancel();
                    }
                }
            }
            _ => {}
        }
    }

    fn sees_request(&self, id: &RequestId, request: &ClientRequest) {
        let mut asked = self.asked.lock();
        if matches!(request, ClientRequest::InitializeRequest(_)) {
            // What was asked before got no answer in time, and must not get one now.
            *asked = Asked::default();
        }
        let mut token = None;
        if let ClientRequest::CallToolRequest(call) = request
            && let Some(mark) = call.extensions.get::<Mark>()
        {
            mark.0.handed_over.store(true, Ordering::Release);
            token = request.get_meta().get_progress_token().filter(|_| mark.wants_progress());
            asked.marks.extend(token.clone().map(|token| (token, mark.clone())));
        }
        asked.requests.insert(id.clone(), token);
    }

    /// Takes a notification, or gives it back when it is rmcp's.
    fn hears(&self, notification: ServerNotification) -> Option<ServerNotification> {
        match notification {
            ServerNotification::ProgressNotification(progress) => {
                self.progress(progress.params);
                None
            }
            ServerNotification::LoggingMessageNotification(note) => {
                self.log(&note);
                None
            }
            ServerNotification::ToolListChangedNotification(_) => {
                self.tools_changed.notify_one();
                None
            }
            ServerNotification::CancelledNotification(cancelled) => {
                // rmcp does not answer such a request any more.
                if let Some(id) = &cancelled.params.request_id {
                    self.serving.lock().remove(id);
                }
                Some(ServerNotification::CancelledNotification(cancelled))
            }
            acknowledged @ ServerNotification::SubscriptionsAcknowledgedNotification(_) => {
                Some(acknowledged)
            }
            _ => None,
        }
    }

    fn progress(&self, params: ProgressNotificationParam) {
        // The sink is called without the lock: it is not ours.
        let mark = self.asked.lock().marks.get(&params.progress_token).cloned();
        let Some(mark) = mark else { return };
        if mark.has_room() {
            let message = params.message.map(|text| shortened(&text, NOTE_BYTES_MAX).into_owned());
            mark.0.progress.send(ToolProgress {
                progress: Some(params.progress),
                total: params.total,
                message,
                ..ToolProgress::default()
            });
        }
    }

    fn log(&self, note: &impl Serialize) {
        if tracing::enabled!(tracing::Level::DEBUG) {
            let note = serde_json::to_string(note).unwrap_or_default();
            let note = self.eraser.erase(&note);
            let note = shortened(&note, NOTE_BYTES_MAX);
            tracing::debug!(server = self.server, "the server logs: {note}");
        }
    }

    /// Takes a request of the server, unless there are too many.
    fn admits(&self, id: &RequestId) -> bool {
        let mut serving = self.serving.lock();
        let admitted = serving.len() < SERVER_REQUESTS_MAX;
        if admitted {
            serving.insert(id.clone());
        } else {
            tracing::debug!(server = self.server, "the server asks too much at a time");
        }
        admitted
    }

    /// Whether somebody waits for an answer with this id. Nobody does after that.
    fn settles(&self, id: &RequestId) -> bool {
        let mut asked = self.asked.lock();
        asked.settle(id)
            // Some servers make a text of the number.
            || matches!(id, RequestId::String(text)
                if text.parse().is_ok_and(|number| asked.settle(&RequestId::Number(number))))
    }

    /// What is to be forgotten once a message was sent, or could not be.
    fn sent(&self, message: Sent, well: bool) {
        match message {
            Sent::Request(id) if !well => drop(self.asked.lock().settle(&id)),
            Sent::Answer(id) => drop(self.serving.lock().remove(&id)),
            Sent::Cancel => drop(self.cancels_unsent.fetch_sub(1, Ordering::AcqRel)),
            Sent::Request(_) | Sent::Other => {}
        }
    }
}

impl Asked {
    /// Forgets a request and tells whether it was there.
    fn settle(&mut self, id: &RequestId) -> bool {
        let Some(token) = self.requests.remove(id) else { return false };
        if let Some(token) = token {
            self.marks.remove(&token);
        }
        true
    }
}

/// A message to the server, as far as something has to be remembered of it.
enum Sent {
    Request(RequestId),
    Answer(RequestId),
    Cancel,
    Other,
}

impl Sent {
    fn of(message: &TxJsonRpcMessage<RoleClient>) -> Self {
        match message {
            JsonRpcMessage::Request(request) => Self::Request(request.id.clone()),
            JsonRpcMessage::Response(answer) => Self::Answer(answer.id.clone()),
            JsonRpcMessage::Error(error) => error.id.clone().map_or(Self::Other, Self::Answer),
            JsonRpcMessage::Notification(notification) => match cancelled(notification) {
                Some(_) => Self::Cancel,
                None => Self::Other,
            },
        }
    }
}

/// The request that a notification cancels.
fn cancelled(notification: &JsonRpcNotification<ClientNotification>) -> Option<&RequestId> {
    match &notification.notification {
        ClientNotification::CancelledNotification(cancelled) => {
            cancelled.params.request_id.as_ref()
        }
        _ => None,
    }
}

impl<T> Tap<T> {
    pub(crate) fn new(inner: T, wire: Arc<Wire>) -> Self {
        Self { inner, wire }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Tap<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        self.wire.sees(&message);
        let sent = Sent::of(&message);
        let wire = Arc::clone(&self.wire);
        let sending = self.inner.send(message);
        async move {
            let result = sending.await;
            wire.sent(sent, result.is_ok());
            result
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let Some(message) = self.inner.receive().await else {
                self.wire.ended.cancel();
                return None;
            };
            match message {
                JsonRpcMessage::Notification(mut notification) => {
                    let Some(ours) = self.wire.hears(notification.notification) else { continue };
                    notification.notification = ours;
                    return Some(JsonRpcMessage::Notification(notification));
                }
                JsonRpcMessage::Request(request) if !self.wire.admits(&request.id) => {}
                JsonRpcMessage::Response(answer) if !self.wire.settles(&answer.id) => {}
                JsonRpcMessage::Error(error)
                    if error.id.as_ref().is_some_and(|id| !self.wire.settles(id)) => {}
                message => return Some(message),
            }
        }
    }

    async fn close(&mut self) -> Result<(), T::Error> {
        self.wire.ended.cancel();
        self.inner.close().await
    }
}

impl<T> Drop for Tap<T> {
    /// A connection that is given up before it is open is dropped without being closed.
    fn drop(&mut self) {
        self.wire.ended.cancel();
    }
}

#[cfg(test)]
mod tests;
