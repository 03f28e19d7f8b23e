//! Signs of life: a caller that waits for long hears once a second that its calls are held.
//!
//! The first sign goes out at once, so it also says "taken"; after that there is one a second and
//! caller, however many calls it has here. A caller whose queue is gone for ten signs in a row has
//! gone itself, and its calls are cancelled.

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

use super::cancel::{Cancels, Name};
use super::outbox::Outbox;
use crate::port::PublishError;

/// One sign a second and caller.
const SIGN_EVERY: Duration = Duration::from_secs(1);
/// How often it is looked whether a sign is due.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Signs in a row that no queue takes until the caller counts as gone.
const UNHEARD_MAX: u32 = 10;

/// Gives signs of life for one responder. Clones are the same.
#[derive(Clone)]
pub(super) struct Vitals {
    inner: Arc<Inner>,
}

struct Inner {
    instance: InstanceId,
    outbox: Outbox,
    cancels: Arc<Cancels>,
    callers: Mutex<HashMap<Topic, Caller>>,
    first: Notify,
    stop: CancellationToken,
    tasks: TaskTracker,
}

#[derive(Default)]
struct Caller {
    calls: Vec<Arc<Name>>,
    signed_at: Option<Instant>,
    unheard: u32,
}

impl Vitals {
    /// `stop` ends it.
    pub(super) fn start(
        outbox: Outbox,
        instance: &InstanceId,
        cancels: Arc<Cancels>,
        stop: CancellationToken,
    ) -> Self {
        let inner = Arc::new(Inner {
            instance: instance.clone(),
            outbox,
            cancels,
            callers: Mutex::default(),
            first: Notify::new(),
            stop,
            tasks: TaskTracker::new(),
        });
        inner.tasks.spawn(Arc::clone(&inner).run());
        Self { inner }
    }

    /// Says that a call is held, until the guard is dropped.
    pub(super) fn hold(&self, caller: &Topic, call: &Arc<Name>) -> Hold {
        let mut callers = self.inner.callers.lock();
        let entry = callers.entry(caller.clone()).or_default();
        entry.calls.push(Arc::clone(call));
        let due = entry.signed_at.is_none();
        drop(callers);
        if due {
            self.inner.first.notify_one();
        }
        Hold { vitals: self.clone(), caller: caller.clone(), call: Arc::clone(call) }
    }

    pub(super) async fn stop(&self) {
        self.inner.stop.cancel();
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }
}

impl Inner {
    async fn run(self: Arc<Self>) {
        loop {
            let idle = self.callers.lock().is_empty();
            let next_look = async {
                if idle {
                    std::future::pending::<()>().await;
                }
                tokio::time::sleep(LOOK_EVERY).await;
            };
            tokio::select! {
                () = self.first.notified() => {}
                () = next_look => {}
                () = self.stop.cancelled() => return,
            }
            for (topic, alive) in self.due(Instant::now()) {
                let heard = tokio::select! {
                    heard = self.outbox.send(&topic, &alive) => heard,
                    // A broker that is away must not hold up the end; a sign may be lost.
                    () = self.stop.cancelled() => return,
                };
                self.note(&topic, heard);
            }
        }
    }

    /// The signs that are due, marked as given; callers that hold nothing any more are forgotten.
    fn due(&self, now: Instant) -> Vec<(Topic, Alive)> {
        let mut callers = self.callers.lock();
        let mut due = Vec::new();
        callers.retain(|topic, caller| {
            let rested = caller.signed_at.is_none_or(|at| now - at >= SIGN_EVERY);
            if rested && !caller.calls.is_empty() {
                caller.signed_at = Some(now);
                let calls = caller.calls.iter().map(|call| call.call_id.to_string()).collect();
                due.push((topic.clone(), Alive { instance: self.instance.to_string(), calls }));
            }
            !(rested && caller.calls.is_empty())
        });
        due
    }

    fn note(&self, topic: &Topic, heard: Result<(), PublishError>) {
        let mut callers = self.callers.lock();
        let Some(caller) = callers.get_mut(topic) else { return };
        match heard {
            Ok(()) => caller.unheard = 0,
            Err(PublishError::Unroutable(_)) => caller.unheard += 1,
            // The broker is away: that says nothing about the caller.
            Err(_) => {}
        }
        if caller.unheard >= UNHEARD_MAX {
            caller.unheard = 0;
            let calls = caller.calls.clone();
            drop(callers);
            tracing::warn!(%topic, calls = calls.len(), "the caller is gone: cancelling its calls");
            for call in calls {
                self.cancels.cancel(&call.source, &call.call_id);
            }
        }
    }
}

/// A call that is held.
pub(super) struct Hold {
    vitals: Vitals,
    caller: Topic,
    call: Arc<Name>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut callers = self.vitals.inner.callers.lock();
        if let Some(caller) = callers.get_mut(&self.caller)
            && let Some(at) = caller.calls.iter().position(|call| Arc::ptr_eq(call, &self.call))
        {
            caller.calls.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests;
