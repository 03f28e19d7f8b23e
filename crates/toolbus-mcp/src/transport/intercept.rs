//! Intercepts the messages of a connection, between rmcp and the transport under it.
//!
//! rmcp hands every notification to a task of its own, so that progress could arrive out of order
//! and after its result, and a server that sends without end could start tasks without end. What
//! concerns this crate is taken out here, in order, before rmcp sees it. This is also where the end
//! of a connection is seen, and whether a call was handed over before it; and where the credentials
//! of the server are erased from every message that goes on from here.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use rmcp::RoleClient;
use rmcp::model::{
    ClientNotification, ClientRequest, GetExtensions as _, GetMeta, JsonRpcMessage,
    JsonRpcNotification, JsonRpcRequest, ProgressNotificationParam, RequestId, ServerNotification,
    ServerRequest,
};
use rmcp::service::{InboundStreamOrigin, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::Serialize;
use tokio::sync::{Notify, broadcast};
use tokio_util::sync::{CancellationToken, DropGuard};
use toolbus_bus::{Asker, Progress};
use toolbus_tools::hidden_text::{self, HiddenCounts};
use toolbus_wire::json::RawJson;
use toolbus_wire::message::toolbus::ToolProgress;

use super::rate_window::RateWindow;
use crate::eraser::{Eraser, shorten_text};
use crate::lookup::URI_BYTES_MAX;

mod credential_erasure;
mod list_changes;
mod pending_requests;
mod server_requests;
mod verbatim;

use list_changes::ChangeReports;
pub(crate) use list_changes::{ListKinds, ReportedChanges};
use pending_requests::PendingRequests;
use server_requests::ServerRequests;
pub(crate) use server_requests::Withdrawn;
pub(crate) use verbatim::{BYTE_ORDER_MARK, Reading};

/// Most progress of one call that is forwarded in any one second; more is dropped.
const PROGRESS_PER_SECOND_MAX: u32 = 50;
/// Most notifications of cancelled requests that are still to be sent. A server that takes them
/// this slowly is stuck, and they pile up here.
const CANCELS_UNSENT_MAX: usize = 1024;
/// Most changed resources that wait for a slow subscriber; past that, it is only told that it
/// missed some.
const RESOURCES_CHANGED_MAX: usize = 256;
/// Longest text of one progress or log notification that is forwarded, in bytes.
const NOTE_BYTES_MAX: usize = 2 << 10;

/// A transport whose messages are intercepted.
pub(crate) struct InterceptedTransport<T> {
    inner: T,
    wire: Arc<WireState>,
}

/// The state of one connection, as its messages show it.
pub(crate) struct WireState {
    /// Fires when nothing more will come.
    pub(crate) ended: CancellationToken,
    /// Fires when the server does not take what it is sent.
    pub(crate) stuck: CancellationToken,
    /// Fires when an HTTP server no longer knows the session of this connection.
    pub(crate) session_lost: CancellationToken,
    /// Fires when the event stream was lost on which an HTTP server reports changes.
    pub(crate) stream_lost: CancellationToken,
    /// The session that an HTTP server of the older era has given this connection.
    pub(crate) session: Arc<Mutex<Option<Arc<str>>>>,
    /// Notified whenever the server reports that its list of tools has changed.
    pub(crate) tools_changed: Notify,
    /// Notified whenever the server reports that its prompts or resources have changed.
    pub(crate) offer_changed: Notify,
    /// The lists whose changes the server has reported since they were last listed.
    pub(crate) change_reports: ChangeReports,
    /// Resources whose changes the server has reported.
    pub(crate) resources_changed: broadcast::Sender<Arc<str>>,
    server: String,
    eraser: Eraser,
    pending: Mutex<PendingRequests>,
    cancels_unsent: AtomicUsize,
    messages_received: AtomicU64,
    /// A warning was logged that the server repeats a credential.
    has_warned_of_credential: AtomicBool,
    server_requests: ServerRequests,
    /// The server was initialized, as those of the older era are.
    is_initialized: AtomicBool,
}

/// The tag of the requests of one call, or of one listing. It is in their extensions, which are
/// never sent.
#[derive(Clone)]
pub(crate) struct CallTag(Arc<CallTagState>);

struct CallTagState {
    handed_over: AtomicBool,
    over: CancellationToken,
    progress: Progress,
    asker: Asker,
    progress_rate: Mutex<RateWindow>,
    /// The params of the call as its caller wrote them; `None` for a listing of our own.
    params: Option<RawJson>,
    /// The result as the server wrote it.
    result: Mutex<Option<RawJson>>,
}

impl CallTag {
    pub(crate) fn new(progress: Progress, asker: Asker, params: RawJson) -> Self {
        Self::with_params(progress, asker, Some(params))
    }

    /// The tag of a listing, whose result is set aside too. No caller waits for it, so nothing that
    /// the server asks or reports can be about it.
    pub(crate) fn of_listing() -> Self {
        Self::with_params(Progress::none(), Asker::none(), None)
    }

    fn with_params(progress: Progress, asker: Asker, params: Option<RawJson>) -> Self {
        Self(Arc::new(CallTagState {
            params,
            result: Mutex::default(),
            handed_over: AtomicBool::new(false),
            over: CancellationToken::new(),
            progress,
            asker,
            progress_rate: Mutex::new(RateWindow::new()),
        }))
    }

    /// Whether the request was given to the transport: from then on it may have been sent.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.0.handed_over.load(Ordering::Acquire)
    }

    /// A guard that ends the call's progress and questions when it is dropped: the call has its
    /// outcome.
    pub(crate) fn outcome_guard(&self) -> DropGuard {
        self.0.over.clone().drop_guard()
    }

    /// Waits until the call has its outcome.
    pub(crate) async fn wait_over(&self) {
        self.0.over.cancelled().await;
    }

    /// The caller, for questions of the server.
    pub(crate) fn asker(&self) -> &Asker {
        &self.0.asker
    }

    pub(crate) fn is_listing(&self) -> bool {
        self.0.params.is_none()
    }

    /// Whether the call's progress is wanted.
    pub(crate) fn wants_progress(&self) -> bool {
        self.0.progress.is_wanted()
    }

    /// Counts one more progress of the call. False when it is to be dropped.
    fn try_admit_progress(&self) -> bool {
        !self.0.over.is_cancelled()
            && self.0.progress_rate.lock().try_admit(PROGRESS_PER_SECOND_MAX)
    }
}

impl WireState {
    pub(crate) fn new(server: &str, eraser: Eraser) -> Arc<Self> {
        Arc::new(Self {
            ended: CancellationToken::new(),
            stuck: CancellationToken::new(),
            session_lost: CancellationToken::new(),
            stream_lost: CancellationToken::new(),
            session: Arc::default(),
            tools_changed: Notify::new(),
            offer_changed: Notify::new(),
            change_reports: ChangeReports::default(),
            resources_changed: broadcast::Sender::new(RESOURCES_CHANGED_MAX),
            server: server.to_owned(),
            eraser,
            pending: Mutex::default(),
            cancels_unsent: AtomicUsize::new(0),
            messages_received: AtomicU64::new(0),
            has_warned_of_credential: AtomicBool::new(false),
            server_requests: ServerRequests::default(),
            is_initialized: AtomicBool::new(false),
        })
    }

    /// The server's name, for logs.
    pub(super) fn server(&self) -> &str {
        &self.server
    }

    /// How many messages the server has sent, whatever they were.
    pub(crate) fn messages_received(&self) -> u64 {
        self.messages_received.load(Ordering::Acquire)
    }

    /// Remembers what a message to the server begins or ends.
    pub(super) fn record_outgoing(&self, message: &TxJsonRpcMessage<RoleClient>) {
        match message {
            JsonRpcMessage::Request(request) => self.record_request(&request.id, &request.request),
            JsonRpcMessage::Notification(notification) => {
                if let Some(id) = cancelled_request(notification) {
                    self.pending.lock().give_up(id);
                    if self.cancels_unsent.fetch_add(1, Ordering::AcqRel) >= CANCELS_UNSENT_MAX {
                        self.stuck.cancel();
                    }
                }
            }
            _ => {}
        }
    }

    fn record_request(&self, id: &RequestId, request: &ClientRequest) {
        let mut pending = self.pending.lock();
        if matches!(request, ClientRequest::InitializeRequest(_)) {
            self.is_initialized.store(true, Ordering::Release);
            // Requests before it got no answer in time, and must not get one now.
            *pending = PendingRequests::default();
        }

        let Some(tag) = request.extensions().get::<CallTag>() else {
            pending.add(id.clone());
            return;
        };
        tag.0.handed_over.store(true, Ordering::Release);
        let token = request.get_meta().get_progress_token().filter(|_| tag.wants_progress());
        pending.add_call(id.clone(), tag.clone(), token);
    }

    /// Handles a notification here, or returns it when it is rmcp's.
    fn intercept_notification(
        &self,
        notification: ServerNotification,
    ) -> Option<ServerNotification> {
        match notification {
            ServerNotification::ProgressNotification(progress) => {
                self.forward_progress(progress.params);
                None
            }
            ServerNotification::LoggingMessageNotification(note) => {
                self.forward_log(&note);
                None
            }

            ServerNotification::ToolListChangedNotification(_) => {
                self.change_reports.report(|lists| lists.tools = true);
                self.tools_changed.notify_one();
                None
            }
            ServerNotification::PromptListChangedNotification(_) => {
                self.change_reports.report(|lists| lists.prompts = true);
                self.offer_changed.notify_one();
                None
            }
            ServerNotification::ResourceListChangedNotification(_) => {
                self.change_reports.report(|lists| lists.resources = true);
                self.offer_changed.notify_one();
                None
            }

            ServerNotification::ResourceUpdatedNotification(updated) => {
                // An error means that there is no subscriber.
                if updated.params.uri.len() <= URI_BYTES_MAX {
                    let _ = self.resources_changed.send(updated.params.uri.into());
                }
                None
            }

            // Not passed on: rmcp would drop the reply without a word, and nothing would tell when
            // the request is over.
            ServerNotification::CancelledNotification(cancelled)
                if self.is_initialized.load(Ordering::Acquire) =>
            {
                if let Some(id) = &cancelled.params.request_id {
                    self.server_requests.withdraw(id);
                }
                None
            }
            // In the newer era it ends a subscription of ours.
            ended @ ServerNotification::CancelledNotification(_) => Some(ended),
            acknowledged @ ServerNotification::SubscriptionsAcknowledgedNotification(_) => {
                Some(acknowledged)
            }
            _ => None,
        }
    }

    fn forward_progress(&self, params: ProgressNotificationParam) {
        // The progress handler is called without the lock: it is the caller's code.
        let tag = self.pending.lock().call_by_token(&params.progress_token).cloned();
        let Some(tag) = tag else { return };

        if tag.try_admit_progress() {
            let message = params.message.map(|text| self.clean_text(&text));
            tag.0.progress.send(ToolProgress {
                progress: Some(params.progress),
                total: params.total,
                message,
                ..ToolProgress::default()
            });
        }
    }

    /// Forwards a line of the server's log. It does not say which call it is about, so it goes to a
    /// caller only while there is but one call that it can be about.
    fn forward_log(&self, note: &impl Serialize) {
        let tag = self.pending.lock().only_call().cloned();
        let receiver = tag.filter(|tag| tag.wants_progress() && tag.try_admit_progress());
        if receiver.is_none() && !tracing::enabled!(tracing::Level::DEBUG) {
            return;
        }

        let mut note = serde_json::to_value(note).unwrap_or_default();
        // Before it becomes a text, in which a credential would be escaped.
        if let (Some(finder), Some(params)) = (self.eraser.finder(), note.get_mut("params")) {
            finder.erase(params);
        }

        let params = &note["params"];
        let data = &params["data"];
        let text = data.as_str().map_or_else(|| Cow::Owned(data.to_string()), Cow::Borrowed);
        let text = match params["logger"].as_str() {
            Some(logger) => self.clean_text(&format!("{logger}: {text}")),
            None => self.clean_text(&text),
        };
        let level = params["level"].as_str().map(str::to_owned);
        tracing::debug!(server = self.server, level, "MCP server logs: {text}");

        if let Some(tag) = receiver {
            let message = Some(text);
            tag.0.progress.send(ToolProgress { level, message, ..ToolProgress::default() });
        }
    }

    /// Erases credentials and hidden characters from a text of the server, and shortens it.
    fn clean_text(&self, text: &str) -> String {
        // Erased before it is cut, so that no part of a secret is left; what is far too long is
        // cut before.
        let text = shorten_text(text, 64 * NOTE_BYTES_MAX);
        let text = hidden_text::clean_text(&text, &mut HiddenCounts::default());
        shorten_text(&self.eraser.erase(&text), NOTE_BYTES_MAX).into_owned()
    }

    /// The call that a request of the server belongs to: that of the stream on which it came; where
    /// the transport has but one stream for all, the only call that the server can be working on.
    /// With several it is unknown, and a question must not reach a caller whose call is not the
    /// cause of it.
    pub(crate) fn find_asking_call(&self, origin: Option<&InboundStreamOrigin>) -> Option<CallTag> {
        let pending = self.pending.lock();
        match origin {
            Some(InboundStreamOrigin::OutboundRequest(id)) => pending.call(id).cloned(),
            Some(InboundStreamOrigin::Unassociated) | None => pending.only_call().cloned(),
        }
    }

    /// Gives a request of the server its place. False when it is dropped.
    fn try_admit_server_request(&self, request: &mut JsonRpcRequest<ServerRequest>) -> bool {
        match self.server_requests.try_admit(&request.id) {
            Ok(withdrawn) => {
                request.request.extensions_mut().insert(withdrawn);
                true
            }
            Err(why) => {
                let reason = why.reason();
                tracing::debug!(server = self.server, reason, "dropping request of MCP server");
                false
            }
        }
    }

    /// Erases credentials from a message. `None` when there is nothing left of it.
    fn erase_credentials(
        &self,
        message: RxJsonRpcMessage<RoleClient>,
    ) -> Option<RxJsonRpcMessage<RoleClient>> {
        let Some(finder) = self.eraser.finder().filter(|finder| finder.is_in(&message)) else {
            return Some(message);
        };

        self.note_credential();
        if let JsonRpcMessage::Request(request) = &message {
            let id = request.id.clone();
            let cleaned = credential_erasure::erase_credentials(message, &finder);
            if cleaned.is_none() {
                self.server_requests.finish(&id);
            }
            return cleaned;
        }
        credential_erasure::erase_credentials(message, &finder)
    }

    fn note_credential(&self) {
        let server = &self.server;
        if self.has_warned_of_credential.swap(true, Ordering::Relaxed) {
            tracing::debug!(server, "erasing credential that MCP server repeats");
        } else {
            tracing::warn!(server, "erasing credential that MCP server repeats");
        }
    }

    /// Forgets what is over once a message was sent, or could not be.
    fn finish_send(&self, message: SentMessage, result: SendResult) {
        match message {
            SentMessage::Request(id) if result == SendResult::Failed => {
                self.pending.lock().take_unsent(&id);
            }
            SentMessage::Answer(id) => self.server_requests.finish(&id),
            SentMessage::Cancel => {
                self.cancels_unsent.fetch_sub(1, Ordering::AcqRel);
            }
            SentMessage::Request(_) | SentMessage::Other => {}
        }
    }
}

/// Whether the transport has sent a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SendResult {
    Sent,
    Failed,
}

/// A message to the server, as far as it matters once it was sent.
enum SentMessage {
    Request(RequestId),
    Answer(RequestId),
    Cancel,
    Other,
}

impl SentMessage {
    fn of(message: &TxJsonRpcMessage<RoleClient>) -> Self {
        match message {
            JsonRpcMessage::Request(request) => Self::Request(request.id.clone()),
            JsonRpcMessage::Response(answer) => Self::Answer(answer.id.clone()),
            JsonRpcMessage::Error(error) => error.id.clone().map_or(Self::Other, Self::Answer),
            JsonRpcMessage::Notification(notification) => match cancelled_request(notification) {
                Some(_) => Self::Cancel,
                None => Self::Other,
            },
        }
    }
}

/// The request that a notification cancels.
fn cancelled_request(notification: &JsonRpcNotification<ClientNotification>) -> Option<&RequestId> {
    match &notification.notification {
        ClientNotification::CancelledNotification(cancelled) => {
            cancelled.params.request_id.as_ref()
        }
        _ => None,
    }
}

impl<T> InterceptedTransport<T> {
    pub(crate) fn new(inner: T, wire: Arc<WireState>) -> Self {
        Self { inner, wire }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for InterceptedTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        self.wire.record_outgoing(&message);
        let sent = SentMessage::of(&message);
        let wire = Arc::clone(&self.wire);
        // A server that has taken its request back wants no reply.
        let is_wanted = !matches!(&sent, SentMessage::Answer(id)
            if self.wire.server_requests.is_withdrawn(id));
        let sending = is_wanted.then(|| self.inner.send(message));

        // Boxed: kilobytes, which every hand that this goes through would move.
        Box::pin(async move {
            let result = match sending {
                Some(sending) => sending.await,
                None => Ok(()),
            };
            let sent_result = if result.is_ok() { SendResult::Sent } else { SendResult::Failed };
            wire.finish_send(sent, sent_result);
            result
        })
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let Some(message) = self.inner.receive().await else {
                self.wire.ended.cancel();
                return None;
            };
            self.wire.messages_received.fetch_add(1, Ordering::AcqRel);

            match message {
                JsonRpcMessage::Notification(mut notification) => {
                    let Some(passed_on) =
                        self.wire.intercept_notification(notification.notification)
                    else {
                        continue;
                    };
                    notification.notification = passed_on;
                    // rmcp logs what it is told.
                    let message = JsonRpcMessage::Notification(notification);
                    if let Some(message) = self.wire.erase_credentials(message) {
                        return Some(message);
                    }
                }
                JsonRpcMessage::Request(mut request) => {
                    if self.wire.try_admit_server_request(&mut request)
                        && let Some(message) =
                            self.wire.erase_credentials(JsonRpcMessage::Request(request))
                    {
                        return Some(message);
                    }
                }
                JsonRpcMessage::Response(answer)
                    if !self.wire.pending.lock().take_answered(&answer.id) => {}
                JsonRpcMessage::Error(error)
                    if error
                        .id
                        .as_ref()
                        .is_some_and(|id| !self.wire.pending.lock().take_answered(id)) => {}
                message => {
                    if let Some(message) = self.wire.erase_credentials(message) {
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

impl<T> Drop for InterceptedTransport<T> {
    /// A connection that is given up before it is open is dropped without being closed.
    fn drop(&mut self) {
        self.wire.ended.cancel();
    }
}

#[cfg(test)]
mod tests;
