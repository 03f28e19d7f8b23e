//! How a party loses its connection, or its life.

use std::sync::Arc;
use std::time::Duration;

use crate::broker::Broker;
use crate::event::{Event, Moment, Party, RECONNECT};
use crate::link::LinkStatus;
use crate::queue::Queue;

/// How long a worker takes requests before it hears cancel messages, where it does.
const REQUESTS_FIRST: Duration = Duration::from_millis(5);

impl Broker {
    /// Has happen what was chosen, where it concerns a party rather than a message.
    pub(crate) fn perform(self: &Arc<Self>, event: Event) {
        match event {
            Event::Disconnect(party, ms) => self.disconnect(party, Duration::from_millis(ms)),
            Event::Stall(party, ms) => {
                self.freeze(party, ms, move |broker| broker.thaw(party));
            }
            Event::HalfOpen(party, ms) => {
                self.freeze(party, ms, move |broker| broker.disconnect(party, RECONNECT));
            }
            Event::Restart { .. } | Event::WorkersAway(_) => {
                for (party, outage) in event.outages() {
                    self.disconnect(party, outage);
                }
            }
            Event::Kill(party) => self.kill(party),
            Event::Cancel => self.cancelled.cancel(),
            Event::CancelLater(ms) => {
                self.later(Duration::from_millis(ms), |broker| broker.cancelled.cancel())
            }
            _ => {}
        }
    }

    fn disconnect(self: &Arc<Self>, party: Party, outage: Duration) {
        self.cut(party, LinkStatus::Down);
        self.later(outage, move |broker| {
            if broker.status(party) == LinkStatus::Down {
                broker.reconnect(party);
            }
        });
    }

    fn reconnect(self: &Arc<Self>, party: Party) {
        if party != Party::Caller {
            // The wall clock stands still while tokio's goes on, and workers compare when a request
            // was sent with when they were back, in milliseconds.
            std::thread::sleep(Duration::from_millis(1));
        }
        let requests_first = party != Party::Caller
            && self.come_to(Moment::Reconnect, party) == Event::RequestsFirst;

        self.link(party).set_status(LinkStatus::Up);
        if !requests_first {
            self.open_queues(party);
        }
        self.resubscribe(|queue| !queue.is_private(), party);
        self.dispatch();

        if requests_first {
            self.later(REQUESTS_FIRST, move |broker| broker.open_queues(party));
        }
    }

    /// Gives a party that is connected its private queues back.
    fn open_queues(self: &Arc<Self>, party: Party) {
        self.history.trace(|| format!("{party} is connected again"));
        self.with_queues(|queues| {
            let own = queues.iter_mut().filter(|queue| queue.belongs_to(party));
            own.for_each(|queue| queue.is_open = true);
        });
        self.resubscribe(Queue::is_private, party);
        self.wake(party);
    }

    /// Tells a party that it consumes from these queues again.
    fn resubscribe(&self, is_meant: impl Fn(&Queue) -> bool, party: Party) {
        let handlers: Vec<_> = self.with_queues(|queues| {
            let meant = queues.iter().filter(|queue| is_meant(queue));
            meant.filter_map(|queue| queue.handler_of(party)).collect()
        });
        handlers.iter().for_each(|handler| handler.on_resubscribed());
    }

    /// Cuts a party off, and lets `after` happen at the end of that.
    fn freeze(
        self: &Arc<Self>,
        party: Party,
        ms: u64,
        after: impl FnOnce(&Arc<Self>) + Send + 'static,
    ) {
        self.link(party).set_status(LinkStatus::Frozen);
        self.later(Duration::from_millis(ms), move |broker| {
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

    fn later(self: &Arc<Self>, after: Duration, act: impl FnOnce(&Arc<Self>) + Send + 'static) {
        let broker = Arc::clone(self);
        self.tasks.spawn(async move {
            tokio::time::sleep(after).await;
            act(&broker);
        });
    }
}
