//! Heartbeats: a caller that waits for long hears once a second that its calls are held.
//!
//! The first heartbeat goes out at once, so it also says "taken"; after that there is one a second
//! and caller, however many calls it has here. A caller whose queue is missing for ten heartbeats
//! in a row is taken for dead, and its calls are cancelled.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolbus_wire::Topic;
use toolbus_wire::message::toolbus::Alive;
use toolbus_wire::name::InstanceId;

use super::cancel::{CallName, Cancels};
use super::outbox::Outbox;
use crate::port::PublishError;
use crate::slot::{Kept, Slot};

/// Time between two heartbeats to one caller.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
/// How often to check whether a heartbeat is due.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Most heartbeats to one caller that are not confirmed yet.
const SENDING_MAX: u32 = 3;
/// Heartbeats in a row that no queue takes until the caller counts as dead.
const UNROUTABLE_MAX: u32 = 10;

/// Sends the heartbeats of one responder. Clones are the same.
#[derive(Clone)]
pub(super) struct Heartbeats {
    inner: Arc<HeartbeatsInner>,
}

struct HeartbeatsInner {
    instance: InstanceId,
    outbox: Outbox,
    cancels: Arc<Cancels>,
    callers: Mutex<HashMap<Topic, CallerHeartbeat>>,
    wake: Notify,
    stop: CancellationToken,
    tasks: TaskTracker,
}

#[derive(Default)]
struct CallerHeartbeat {
    calls: Vec<(Arc<CallName>, Slot)>,
    sent_at: Option<Instant>,
    /// How many of its heartbeats are not confirmed yet.
    sending: u32,
    unroutable_in_a_row: u32,
}

impl CallerHeartbeat {
    fn to_message(&self, instance: &InstanceId) -> Alive {
        let is_kept = |slot: &Slot| slot.kept() == Some(Kept::InStore);
        let kept = self.calls.iter().filter(|(_, slot)| is_kept(slot));
        Alive {
            instance: instance.to_string(),
            calls: self.calls.iter().map(|(call, _)| call.call_id.to_string()).collect(),
            kept: kept.map(|(call, _)| call.call_id.to_string()).collect(),
        }
    }
}

impl Heartbeats {
    /// Starts the task that sends heartbeats, until `stop`.
    pub(super) fn start(
        outbox: Outbox,
        instance: &InstanceId,
        cancels: Arc<Cancels>,
        stop: CancellationToken,
    ) -> Self {
        let inner = Arc::new(HeartbeatsInner {
            instance: instance.clone(),
            outbox,
            cancels,
            callers: Mutex::default(),
            wake: Notify::new(),
            stop,
            tasks: TaskTracker::new(),
        });
        inner.tasks.spawn(Arc::clone(&inner).send_heartbeats());
        Self { inner }
    }

    /// Sends heartbeats for a call, until the guard is dropped.
    pub(super) fn hold(&self, caller: &Topic, call: &Arc<CallName>, slot: &Slot) -> HeldCall {
        let mut callers = self.inner.callers.lock();
        let entry = callers.entry(caller.clone()).or_default();
        entry.calls.push((Arc::clone(call), slot.clone()));
        let due = entry.sent_at.is_none();
        drop(callers);
        if due {
            self.inner.wake.notify_one();
        }
        HeldCall { heartbeats: self.clone(), caller: caller.clone(), call: Arc::clone(call) }
    }

    /// Sends the next heartbeat to this caller at once.
    pub(super) fn send_soon(&self, caller: &Topic) {
        if let Some(entry) = self.inner.callers.lock().get_mut(caller) {
            entry.sent_at = None;
        }
        self.inner.wake.notify_one();
    }

    /// Sends this caller a heartbeat now, and waits until the broker has it or does not take it in
    /// time.
    pub(super) async fn send_now(&self, caller: &Topic) {
        let alive = match self.inner.callers.lock().get(caller) {
            Some(entry) => entry.to_message(&self.inner.instance),
            None => return,
        };
        let sending = self.inner.outbox.send(caller, &alive);
        // A heartbeat may be lost.
        let _ = tokio::time::timeout(HEARTBEAT_INTERVAL, sending).await;
    }

    pub(super) async fn stop(&self) {
        self.inner.stop.cancel();
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }
}

impl HeartbeatsInner {
    async fn send_heartbeats(self: Arc<Self>) {
        loop {
            let idle = self.callers.lock().is_empty();
            let next_check = async {
                if idle {
                    std::future::pending::<()>().await;
                }
                tokio::time::sleep(CHECK_INTERVAL).await;
            };

            tokio::select! {
                () = self.wake.notified() => {}
                () = next_check => {}
                () = self.stop.cancelled() => return,
            }

            for (topic, alive) in self.take_due(Instant::now()) {
                let heartbeats = Arc::clone(&self);
                self.tasks.spawn(async move { heartbeats.send(topic, alive).await });
            }
        }
    }

    /// Sends one heartbeat. Each is sent by itself, so that a confirm which takes long holds up no
    /// other caller's.
    async fn send(&self, topic: Topic, alive: Alive) {
        let sent = tokio::select! {
            sent = self.outbox.send(&topic, &alive) => sent,
            // A broker that is away must not hold up the stop; a heartbeat may be lost.
            () = self.stop.cancelled() => return,
        };
        self.note_outcome(&topic, sent);
    }

    /// Takes the heartbeats that are due and marks them as sent; callers without calls are
    /// forgotten.
    fn take_due(&self, now: Instant) -> Vec<(Topic, Alive)> {
        let mut callers = self.callers.lock();
        let mut due = Vec::new();
        callers.retain(|topic, caller| {
            let rested = caller.sent_at.is_none_or(|at| now - at >= HEARTBEAT_INTERVAL);
            if rested && !caller.calls.is_empty() && caller.sending < SENDING_MAX {
                caller.sent_at = Some(now);
                caller.sending += 1;
                due.push((topic.clone(), caller.to_message(&self.instance)));
            }
            !(rested && caller.calls.is_empty())
        });

        due
    }

    fn note_outcome(&self, topic: &Topic, sent: Result<(), PublishError>) {
        let mut callers = self.callers.lock();
        let Some(caller) = callers.get_mut(topic) else { return };
        caller.sending = caller.sending.saturating_sub(1);

        match sent {
            Ok(()) => caller.unroutable_in_a_row = 0,
            Err(PublishError::Unroutable(_)) => caller.unroutable_in_a_row += 1,
            // The broker is away: that says nothing about the caller.
            Err(_) => {}
        }

        if caller.unroutable_in_a_row >= UNROUTABLE_MAX {
            caller.unroutable_in_a_row = 0;
            let calls: Vec<_> = caller.calls.iter().map(|(call, _)| Arc::clone(call)).collect();
            drop(callers);
            tracing::warn!(%topic, calls = calls.len(), "caller is gone: cancelling its calls");
            for call in calls {
                self.cancels.cancel(&call.source, &call.call_id);
            }
        }
    }
}

/// A call that heartbeats are sent for.
pub(super) struct HeldCall {
    heartbeats: Heartbeats,
    caller: Topic,
    call: Arc<CallName>,
}

impl Drop for HeldCall {
    fn drop(&mut self) {
        let mut callers = self.heartbeats.inner.callers.lock();
        if let Some(caller) = callers.get_mut(&self.caller)
            && let Some(at) =
                caller.calls.iter().position(|(call, _)| Arc::ptr_eq(call, &self.call))
        {
            caller.calls.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests;
