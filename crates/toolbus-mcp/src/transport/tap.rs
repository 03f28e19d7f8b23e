//! Listens on a connection, between rmcp and the transport under it.
//!
//! rmcp hands every notification to a task of its own, so that progress could arrive out of order
//! and after its result, and a server that sends without end could start tasks without end. What
//! concerns us is taken out here, in order, before rmcp sees it. This is also where it is known
//! that a connection is at its end, and whether a call was handed over before that; and where the
//! credentials of the server are taken out of every message that goes on from here.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use rmcp::RoleClient;
use rmcp::model::{
    ClientNotification, ClientRequest, GetExtensions as _, GetMeta, JsonRpcMessage,
    JsonRpcNotification, ProgressNotificationParam, ProgressToken, RequestId, ServerNotification,
};
use rmcp::service::{InboundStreamOrigin, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::Serialize;
use tokio::sync::{Notify, broadcast};
use tokio_util::sync::{CancellationToken, DropGuard};
use toolbus_bus::{Asker, Progress};
use toolbus_wire::message::toolbus::ToolProgress;

use super::pace::Pace;
use crate::eraser::{Eraser, shortened};
use crate::lookup::URI_BYTES_MAX;

mod credentials;
mod lists;

use lists::ListsSaid;
pub(crate) use lists::{Lists, Said};

/// Requests of the server to us that are not answered yet; more are not taken.
const SERVER_REQUESTS_MAX: usize = 64;
/// Progress of one call that is passed on in any one second; more is dropped.
const PROGRESS_PER_SECOND_MAX: u32 = 50;
/// Words to the server that a request is cancelled which are still to be sent. One that takes them
/// this slowly is stuck, and what it is not told piles up here.
const CANCELS_UNSENT_MAX: usize = 1024;
/// Changed resources that wait for whoever is slow to hear of them; past that, some are not told by
/// name.
const RESOURCES_CHANGED_MAX: usize = 256;
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
    /// The session that an HTTP server of the older era has given this connection.
    pub(crate) session: Arc<Mutex<Option<Arc<str>>>>,
    /// Told whenever the server says that its list of tools has changed.
    pub(crate) tools_changed: Notify,
    /// Told whenever the server says that its prompts or resources have changed.
    pub(crate) offer_changed: Notify,
    /// Which of its lists the server has said to have changed since somebody looked.
    pub(crate) lists_said: ListsSaid,
    /// Resources that the server says to have changed.
    pub(crate) resources_changed: broadcast::Sender<Arc<str>>,
    server: String,
    eraser: Eraser,
    asked: Mutex<Asked>,
    cancels_unsent: AtomicUsize,
    /// It was told that the server repeats a credential.
    has_repeated: AtomicBool,
    /// Requests of the server that we have not answered yet.
    serving: Mutex<HashSet<RequestId>>,
}

/// Requests that wait for their answer. An answer to any other is not rmcp's to see: before the
/// handshake is done, it takes that for the end of the connection.
#[derive(Default)]
struct Asked {
    requests: HashMap<RequestId, Option<Marked>>,
    /// Of calls whose progress somebody hears.
    marks: HashMap<ProgressToken, Mark>,
}

/// A request of a call.
struct Marked {
    mark: Mark,
    token: Option<ProgressToken>,
}

/// Goes along with one call's requests, in their extensions, which are never sent.
#[derive(Clone)]
pub(crate) struct Mark(Arc<MarkState>);

struct MarkState {
    handed_over: AtomicBool,
    over: CancellationToken,
    progress: Progress,
    asker: Asker,
    pace: Mutex<Pace>,
}

impl Mark {
    pub(crate) fn new(progress: Progress, asker: Asker) -> Self {
        Self(Arc::new(MarkState {
            handed_over: AtomicBool::new(false),
            over: CancellationToken::new(),
            progress,
            asker,
            pace: Mutex::new(Pace::new()),
        }))
    }

    /// Whether the request was given to the transport: from then on it may have been sent.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.0.handed_over.load(Ordering::Acquire)
    }

    /// Ends the call's progress and questions when it is dropped: the call has its outcome.
    pub(crate) fn ends_with(&self) -> DropGuard {
        self.0.over.clone().drop_guard()
    }

    /// Waits until the call has its outcome.
    pub(crate) async fn over(&self) {
        self.0.over.cancelled().await;
    }

    /// Whom the call may ask.
    pub(crate) fn asker(&self) -> &Asker {
        &self.0.asker
    }

    /// Whether anybody hears the call's progress.
    pub(crate) fn wants_progress(&self) -> bool {
        self.0.progress.is_wanted()
    }

    fn has_room(&self) -> bool {
        !self.0.over.is_cancelled() && self.0.pace.lock().admits(PROGRESS_PER_SECOND_MAX)
    }
}

impl Wire {
    pub(crate) fn new(server: &str, eraser: Eraser) -> Arc<Self> {
        Arc::new(Self {
            ended: CancellationToken::new(),
            stuck: CancellationToken::new(),
            session: Arc::default(),
            tools_changed: Notify::new(),
            offer_changed: Notify::new(),
            lists_said: ListsSaid::default(),
            resources_changed: broadcast::Sender::new(RESOURCES_CHANGED_MAX),
            server: server.to_owned(),
            eraser,
            asked: Mutex::default(),
            cancels_unsent: AtomicUsize::new(0),
            has_repeated: AtomicBool::new(false),
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
        let marked = request.extensions().get::<Mark>().map(|mark| {
            mark.0.handed_over.store(true, Ordering::Release);
            let token = request.get_meta().get_progress_token().filter(|_| mark.wants_progress());
            asked.marks.extend(token.clone().map(|token| (token, mark.clone())));
            Marked { mark: mark.clone(), token }
        });
        asked.requests.insert(id.clone(), marked);
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
                self.lists_said.add(|lists| lists.tools = true);
                self.tools_changed.notify_one();
                None
            }
            ServerNotification::PromptListChangedNotification(_) => {
                self.lists_said.add(|lists| lists.prompts = true);
                self.offer_changed.notify_one();
                None
            }
            ServerNotification::ResourceListChangedNotification(_) => {
                self.lists_said.add(|lists| lists.resources = true);
                self.offer_changed.notify_one();
                None
            }
            ServerNotification::ResourceUpdatedNotification(updated) => {
                // Nobody may have subscribed.
                if updated.params.uri.len() <= URI_BYTES_MAX {
                    let _ = self.resources_changed.send(updated.params.uri.into());
                }
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
            let message = params.message.map(|text| self.note(&text));
            mark.0.progress.send(ToolProgress {
                progress: Some(params.progress),
                total: params.total,
                message,
                ..ToolProgress::default()
            });
        }
    }

    /// A line of the server's log. It does not say which call it is about, so it goes to a caller
    /// only while there is but one.
    fn log(&self, note: &impl Serialize) {
        let mark = self.asked.lock().only_mark().cloned();
        let heard = mark.filter(|mark| mark.wants_progress() && mark.has_room());
        if heard.is_none() && !tracing::enabled!(tracing::Level::DEBUG) {
            return;
        }
        let mut note = serde_json::to_value(note).unwrap_or_default();
        // Before it becomes a text in which a credential would be written otherwise.
        if let (Some(finder), Some(params)) = (self.eraser.finder(), note.get_mut("params")) {
            finder.erase(params);
        }
        let params = &note["params"];
        let data = &params["data"];
        let text = data.as_str().map_or_else(|| Cow::Owned(data.to_string()), Cow::Borrowed);
        let text = match params["logger"].as_str() {
            Some(logger) => self.note(&format!("{logger}: {text}")),
            None => self.note(&text),
        };
        let level = params["level"].as_str().map(str::to_owned);
        tracing::debug!(server = self.server, level, "the server logs: {text}");
        if let Some(mark) = heard {
            let (level, message) = (level, Some(text));
            mark.0.progress.send(ToolProgress { level, message, ..ToolProgress::default() });
        }
    }

    /// A text of the server as it may be passed on.
    fn note(&self, text: &str) -> String {
        // Erased before it is cut, so that no part of a secret is left; what is far too long is
        // cut before.
        let text = shortened(text, 64 * NOTE_BYTES_MAX);
        shortened(&self.eraser.erase(&text), NOTE_BYTES_MAX).into_owned()
    }

    /// The call that a request of the server belongs to: that of the stream on which it came; where
    /// the transport has but one stream for all, the only call in flight. With several it cannot be
    /// told, and a question must reach nobody whose call is not the cause of it.
    pub(crate) fn call_that_asks(&self, origin: Option<&InboundStreamOrigin>) -> Option<Mark> {
        let asked = self.asked.lock();
        match origin {
            Some(InboundStreamOrigin::OutboundRequest(id)) => {
                asked.requests.get(id)?.as_ref().map(|marked| marked.mark.clone())
            }
            Some(InboundStreamOrigin::Unassociated) | None => asked.only_mark().cloned(),
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

    /// The message as it may go on. None when there is nothing left of it.
    fn without_credentials(
        &self,
        message: RxJsonRpcMessage<RoleClient>,
    ) -> Option<RxJsonRpcMessage<RoleClient>> {
        let Some(finder) = self.eraser.finder().filter(|finder| finder.is_in(&message)) else {
            return Some(message);
        };
        let server = &self.server;
        if self.has_repeated.swap(true, Ordering::Relaxed) {
            tracing::debug!(server, "the server repeats a credential");
        } else {
            tracing::warn!(server, "the server repeats a credential, which is erased");
        }
        if let JsonRpcMessage::Request(request) = &message {
            let id = request.id.clone();
            let cleaned = credentials::take_out(message, &finder);
            if cleaned.is_none() {
                self.serving.lock().remove(&id);
            }
            return cleaned;
        }
        credentials::take_out(message, &finder)
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
        let Some(marked) = self.requests.remove(id) else { return false };
        if let Some(token) = marked.and_then(|marked| marked.token) {
            self.marks.remove(&token);
        }
        true
    }

    /// The call in flight, when there is but one.
    fn only_mark(&self) -> Option<&Mark> {
        let mut marked = self.requests.values().flatten();
        marked.next().filter(|_| marked.next().is_none()).map(|marked| &marked.mark)
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
        // Boxed: kilobytes, which every hand that this goes through would move.
        Box::pin(async move {
            let result = sending.await;
            wire.sent(sent, result.is_ok());
            result
        })
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
                message => {
                    if let Some(message) = self.wire.without_credentials(message) {
                        return Some(message);
                    }
                }
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
