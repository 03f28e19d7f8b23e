//! What a caller sends to workers beside its requests: cancel messages, answers to their queries,
//! and requests for replies that it may have missed.
//!
//! Nothing of it is waited for, and each of it may be lost. A cancel message is sent again whenever
//! a heartbeat names a call that nobody waits for any more; a worker asks again; and a caller asks
//! several times for what it has missed.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolbus_wire::message::Message;
use toolbus_wire::message::toolbus::{CallState, CallStatus, ReplyRequest, ToolCancel};
use toolbus_wire::name::InstanceId;
use toolbus_wire::{Envelope, Topic, topic};
use tracing::Instrument as _;

use crate::port::Bus;

/// How long a cancel message may wait for its worker before it is worth nothing.
const CANCEL_TTL: Duration = Duration::from_secs(60);
/// How long a message may wait that is sent again soon.
const REPEATED_TTL: Duration = Duration::from_secs(5);
/// How long what is being sent may take once the requester closes.
const CLOSE_GRACE: Duration = Duration::from_secs(1);
/// Messages that are being sent at a time. More are dropped.
const SENDING_MAX: usize = 1_024;

/// Sends for one requester.
pub(super) struct WorkerMessages {
    bus: Arc<dyn Bus>,
    source: String,
    room: Arc<Semaphore>,
    closed: CancellationToken,
    tasks: TaskTracker,
}

impl WorkerMessages {
    /// `closed` ends what is being sent, a moment later.
    pub(super) fn new(
        bus: Arc<dyn Bus>,
        source: &str,
        closed: CancellationToken,
        tasks: TaskTracker,
    ) -> Self {
        let room = Arc::new(Semaphore::new(SENDING_MAX));
        Self { bus, source: source.to_owned(), room, closed, tasks }
    }

    /// Tells the worker that holds a call to stop it: this one where it is known, else all.
    pub(super) fn cancel(&self, call_id: &str, worker: Option<&str>, reason: &str) {
        let cancel = ToolCancel {
            source: self.source.clone(),
            tool_call_id: call_id.to_owned(),
            reason: Some(reason.to_owned()),
        };
        let worker = worker.and_then(|instance| InstanceId::parse(instance).ok());
        let to = worker.map_or(topic::TOOL_CANCEL, |instance| topic::tool_worker(&instance));
        self.send(to, &cancel, CANCEL_TTL);
    }

    /// Tells a worker whether a call is still waited for.
    pub(super) fn answer_query(&self, to: Topic, correlation_id: String, is_awaited: bool) {
        let state = if is_awaited { CallState::Awaited } else { CallState::Abandoned };
        self.send(to, &CallStatus { correlation_id, state }, REPEATED_TTL);
    }

    /// Asks every worker for replies to these requests.
    pub(super) fn request_replies(&self, correlation_ids: Vec<String>) {
        let request = ReplyRequest { source: self.source.clone(), correlation_ids };
        self.send(topic::TOOL_CANCEL, &request, REPEATED_TTL);
    }

    fn send<M: Message>(&self, to: Topic, message: &M, ttl: Duration) {
        let Ok(room) = Arc::clone(&self.room).try_acquire_owned() else {
            return tracing::debug!(%to, "dropped a {}: too many are being sent", M::TYPE);
        };

        let envelope = Envelope::of(message, &self.source).with_expiry(ttl);
        let bus = Arc::clone(&self.bus);
        let closed = self.closed.clone();
        let sending = async move {
            let publishing = bus.publish(&to, envelope);
            // A requester that closes still tells its workers, unless the broker is away.
            let closing = async {
                closed.cancelled().await;
                tokio::time::sleep(CLOSE_GRACE).await;
            };
            let sent = tokio::select! {
                biased;
                sent = publishing => sent,
                () = closing => return,
            };
            // Where no worker of ours listens, there is none to tell.
            if let Err(error) = sent {
                tracing::debug!(%error, %to, "could not send a {}", M::TYPE);
            }
            drop(room);
        };

        self.tasks.spawn(sending.in_current_span());
    }
}
