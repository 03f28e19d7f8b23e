//! How a party loses its connection, or its life.

use std::sync::Arc;
use std::time::Duration;

use crate::broker::Broker;
use crate::event::{Event, Party, RECONNECT_MS};
use crate::link::LinkStatus;
use crate::queue::Queue;

impl Broker {
    /// Has happen what was chosen, where it concerns a party rather than a message.
    pub(crate) fn perform(self: &Arc<Self>, event: Event) {
        match event {
            Event::Disconnect(party, ms) => self.disconnect(party, ms),
            Event::Stall(party, ms) => {
                self.freeze(party, ms, move |broker| broker.thaw(party));
            }
            Event::HalfOpen(party, ms) => {
                self.freeze(party, ms, move |broker| broker.disconnect(party, RECONNECT_MS));
            }
            Event::Restart { caller_ms, workers_ms } => {
                self.disconnect(Party::WorkerA, workers_ms);
                self.disconnect(Party::WorkerB, workers_ms);
                self.disconnect(Party::Caller, caller_ms);
            }
            Event::Kill(party) => self.kill(party),
            Event::Cancel => self.cancelled.cancel(),
            _ => {}
        }
    }

    fn disconnect(self: &Arc<Self>, party: Party, ms: u64) {
        self.cut(party, LinkStatus::Down);
        self.later(ms, move |broker| {
            if broker.status(party) == LinkStatus::Down {
                broker.reconnect(party);
            }
        });
    }

    fn reconnect(self: &Arc<Self>, party: Party) {
        self.history.trace(|| format!("{party} is connected again"));
        let handlers = self.with_queues(|queues| {
            let own = queues.iter_mut().filter(|queue| queue.belongs_to(party));
            own.flat_map(|queue| queue.open()).collect::<Vec<_>>()
        });
        self.link(party).connect();
        for handler in handlers {
            handler.on_resubscribed();
        }
        self.wake(party);
    }

    /// Cuts a party off, and lets `after` happen at the end of that.
    fn freeze(
        self: &Arc<Self>,
        party: Party,
        ms: u64,
        after: impl FnOnce(&Arc<Self>) + Send + 'static,
    ) {
        self.link(party).set_status(LinkStatus::Frozen);
        self.later(ms, move |broker| {
            if broker.status(party) == LinkStatus::Frozen {
                broker.history.trace(|| format!("{party} is no longer cut off"));
                after(broker);
            }
        });
    }

    fn thaw(self: &Arc<Self>, party: Party) {
        self.link(party).set_status(LinkStatus::Up);
        self.wake(party);
    }

    fn kill(self: &Arc<Self>, party: Party) {
        self.cut(party, LinkStatus::Dead);
        self.with_queues(|queues| {
            for queue in queues.iter_mut() {
                queue.kill_consumer(party);
            }
            queues.retain(|queue| !queue.is_private() || !queue.consumers.is_empty());
        });
    }

    /// Ends the connection: what the party held goes back, what is private to it goes with it.
    fn cut(self: &Arc<Self>, party: Party, status: LinkStatus) {
        self.link(party).end_connection(status);
        let lost = self.with_queues(|queues| {
            queues.iter_mut().for_each(|queue| queue.requeue(party));
            let own = queues.iter_mut().filter(|queue| queue.belongs_to(party));
            own.flat_map(Queue::close).collect::<Vec<_>>()
        });
        for message in lost {
            self.history.add_lost(&message.envelope);
        }
        self.dispatch();
    }

    /// Has a party that is connected again take what waits.
    fn wake(self: &Arc<Self>, party: Party) {
        self.with_queues(|queues| {
            for queue in queues.iter().filter(|queue| queue.belongs_to(party)) {
                queue.wake();
            }
        });
        self.dispatch();
    }

    fn later(self: &Arc<Self>, ms: u64, act: impl FnOnce(&Arc<Self>) + Send + 'static) {
        let broker = Arc::clone(self);
        self.tasks.spawn(async move {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            act(&broker);
        });
    }
}
