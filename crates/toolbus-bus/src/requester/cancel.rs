//! Cancel messages of a caller: the worker that holds a call is told to stop it.
//!
//! One message may get lost, or come to a worker that has yet to receive the call. So it is sent
//! again whenever a heartbeat names a call that nobody waits for any more.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;
use toolbus_wire::message::toolbus::ToolCancel;
use toolbus_wire::{Envelope, topic};
use tracing::Instrument as _;

use crate::port::Bus;

/// How long a cancel message may wait for its worker before it is worth nothing.
const CANCEL_TTL: Duration = Duration::from_secs(60);
/// Cancel messages that are being sent at a time. More are dropped: the next heartbeat brings them
/// up again.
const SENDING_MAX: usize = 1_024;

/// Sends the cancel messages of one requester.
pub(super) struct CancelSender {
    bus: Arc<dyn Bus>,
    source: String,
    room: Arc<Semaphore>,
    tasks: TaskTracker,
}

impl CancelSender {
    pub(super) fn new(bus: Arc<dyn Bus>, source: &str, tasks: TaskTracker) -> Self {
        let room = Arc::new(Semaphore::new(SENDING_MAX));
        Self { bus, source: source.to_owned(), room, tasks }
    }

    /// Tells whoever holds the call to stop it, without waiting.
    pub(super) fn send(&self, call_id: &str, reason: &str) {
        let Ok(room) = Arc::clone(&self.room).try_acquire_owned() else {
            return tracing::debug!(call_id, "dropped a cancel message: too many are being sent");
        };

        let cancel = ToolCancel {
            source: self.source.clone(),
            tool_call_id: call_id.to_owned(),
            reason: Some(reason.to_owned()),
        };
        let envelope = Envelope::of(&cancel, &self.source).with_expiry(CANCEL_TTL);
        let bus = Arc::clone(&self.bus);
        let sending = async move {
            // Where no worker of ours listens, there is none to stop.
            if let Err(error) = bus.publish(&topic::TOOL_CANCEL, envelope).await {
                tracing::debug!(%error, "could not send a cancel message");
            }
            drop(room);
        };

        self.tasks.spawn(sending.in_current_span());
    }
}
