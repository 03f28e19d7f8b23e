//! A broker whose faults a schedule chooses: queues, deliveries, and the connection of each party.
//!
//! It behaves as RabbitMQ does where it matters to a call. What a lost worker held goes to another,
//! marked as redelivered; a private queue ends with its owner's connection; a message is delivered
//! twice only when it was published twice.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolbus_bus::{Handler, Subscription};
use toolbus_wire::Topic;

use crate::event::{Event, Kind, Moment, Party, Point};
use crate::history::History;
use crate::link::{Link, LinkStatus};
use crate::options;
use crate::queue::{Handout, Message, Queue, QueueConsumer};
use crate::schedule::Schedule;

pub(crate) struct Broker {
    pub(crate) history: History,
    /// Fires when the caller cancels.
    pub(crate) cancelled: CancellationToken,
    pub(crate) tasks: TaskTracker,
    schedule: Arc<Schedule>,
    links: [Link; 3],
    state: Mutex<BrokerState>,
}

#[derive(Default)]
struct BrokerState {
    queues: Vec<Queue>,
    /// Points that were come to, to number them.
    points: Vec<(Moment, Party, u32)>,
    /// Requests that are on their way to their queue.
    delayed: usize,
}

impl Broker {
    pub(crate) fn new(schedule: Arc<Schedule>, history: History) -> Arc<Self> {
        Arc::new(Self {
            history,
            cancelled: CancellationToken::new(),
            tasks: TaskTracker::new(),
            schedule,
            links: [Link::new(), Link::new(), Link::new()],
            state: Mutex::default(),
        })
    }

    /// Ends the broker. Handlers hold it, and it holds them.
    pub(crate) fn end(&self) {
        self.with_queues(Vec::clear);
    }

    pub(crate) fn link(&self, party: Party) -> &Link {
        &self.links[party as usize]
    }

    pub(crate) fn status(&self, party: Party) -> LinkStatus {
        self.link(party).status()
    }

    /// Whether no request is anywhere, so that none can be started any more.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.state.lock();
        let mut durable = state.queues.iter().filter(|queue| !queue.is_private());
        state.delayed == 0 && durable.all(Queue::is_idle)
    }

    /// Comes to a point: the schedule chooses what happens there, and it happens.
    pub(crate) fn come_to(self: &Arc<Self>, moment: Moment, party: Party) -> Event {
        let number = self.state.lock().count_point(moment, party);
        let point = Point { moment, party, number };
        let mut options = options::at(point);
        options.retain(|event| self.is_possible(*event));
        let event = self.schedule.choose(point, &options);

        if moment != Moment::Publish(Kind::Loopback) {
            self.history.add_event(point, event);
        }
        self.perform(event);
        event
    }

    /// Chooses which of two free workers gets a request. The first has it where all goes well.
    fn choose_worker(&self, free: [Party; 2]) -> Party {
        let number = self.state.lock().count_point(Moment::Choose, free[0]);
        let point = Point { moment: Moment::Choose, party: free[0], number };
        match self.schedule.choose(point, &free.map(Event::HandTo)) {
            Event::HandTo(party) => party,
            _ => free[0],
        }
    }

    fn is_possible(&self, event: Event) -> bool {
        let is_up = |party| self.status(party) == LinkStatus::Up;
        match event {
            Event::Cancel => !self.cancelled.is_cancelled(),
            Event::Kill(party) => is_up(party),
            _ => event.outages().into_iter().all(|(party, _)| is_up(party)),
        }
    }

    pub(crate) fn has_queue(&self, topic: &Topic) -> bool {
        self.state.lock().queues.iter().any(|queue| queue.takes(topic))
    }

    /// How many consumers a queue has at this moment, as the broker sees it.
    pub(crate) fn count_consumers(&self, name: &str) -> Option<usize> {
        let mut state = self.state.lock();
        let consumers = state.queue(name)?.consumers.iter();
        Some(consumers.filter(|consumer| self.link(consumer.party).is_connected()).count())
    }

    /// Puts a message into each queue that takes it. False where there is none.
    pub(crate) fn route(self: &Arc<Self>, topic: &Topic, message: &Message) -> bool {
        let mut is_taken = false;
        for queue in self.state.lock().queues.iter_mut().filter(|queue| queue.takes(topic)) {
            queue.push(message.clone());
            is_taken = true;
        }
        self.dispatch();
        is_taken
    }

    /// As [`Broker::route`], after a while.
    pub(crate) fn route_late(self: &Arc<Self>, topic: Topic, message: Message, ms: u64) {
        self.state.lock().delayed += 1;
        let broker = Arc::clone(self);
        self.tasks.spawn(async move {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            broker.state.lock().delayed -= 1;
            broker.route(&topic, &message);
        });
    }

    /// Has a party consume from a queue, which is made where it is not there.
    pub(crate) fn consume(
        self: &Arc<Self>,
        subscription: Subscription,
        party: Party,
        handler: Arc<dyn Handler>,
        tasks: &TaskTracker,
    ) -> QueueConsumer {
        let name = subscription.name.clone();
        let (consumer, is_private) = {
            let mut state = self.state.lock();
            let queue = state.queue_or_new(subscription);
            (queue.add_consumer(party, handler), queue.is_private())
        };

        let (broker, running) = (Arc::clone(self), consumer.clone());
        tasks.spawn(async move {
            let stop = running.stop.clone();
            if is_private {
                stop.run_until_cancelled(broker.deliver_in_order(&name, &running)).await;
            }
            stop.cancelled().await;
            broker.remove_consumer(&name, party);
        });
        self.dispatch();

        consumer
    }

    /// Takes the next message of a shared queue out for a worker that is free.
    pub(crate) fn next_handout(&self) -> Option<Handout> {
        let (name, worker) = self.next_worker()?;
        self.state.lock().queue(&name)?.hand_out(worker)
    }

    /// The worker that gets the next message, and the queue that the message is in.
    fn next_worker(&self) -> Option<(String, Party)> {
        let may_deliver = |party| self.link(party).is_connected();
        let (name, last, free) = {
            let state = self.state.lock();
            let mut waiting = state.queues.iter().filter(|queue| !queue.is_private());
            waiting.find_map(|queue| {
                let free = queue.free_consumers(may_deliver);
                let name = queue.subscription.name.clone();
                (queue.has_ready() && !free.is_empty()).then_some((name, queue.last_party, free))
            })?
        };

        let worker = match (free.as_slice(), last) {
            // The one that had the last message is the second to come in question.
            (&[first, second], Some(last)) if last == first => self.choose_worker([second, first]),
            (&[first, second], Some(_)) => self.choose_worker([first, second]),
            // The workers are alike until one has had a message.
            _ => free[0],
        };
        Some((name, worker))
    }

    /// The worker is done with a message.
    pub(crate) fn ack(&self, name: &str, number: u64) {
        if let Some(queue) = self.state.lock().queue(name) {
            queue.ack(number);
        }
    }

    /// Takes a message out of a private queue.
    pub(crate) fn pop(&self, name: &str) -> Option<Message> {
        self.state.lock().queue(name)?.pop()
    }

    pub(crate) fn with_queues<T>(&self, act: impl FnOnce(&mut Vec<Queue>) -> T) -> T {
        act(&mut self.state.lock().queues)
    }

    fn remove_consumer(&self, name: &str, party: Party) {
        let mut state = self.state.lock();
        if let Some(queue) = state.queue(name) {
            queue.remove_consumer(party);
        }
        state.queues.retain(|queue| !queue.is_private() || !queue.consumers.is_empty());
    }
}

impl BrokerState {
    fn queue(&mut self, name: &str) -> Option<&mut Queue> {
        self.queues.iter_mut().find(|queue| queue.subscription.name == name)
    }

    fn queue_or_new(&mut self, subscription: Subscription) -> &mut Queue {
        let found = |queue: &Queue| queue.subscription.name == subscription.name;
        let index = self.queues.iter().position(found).unwrap_or_else(|| {
            self.queues.push(Queue::new(subscription));
            self.queues.len() - 1
        });
        &mut self.queues[index]
    }

    /// The number of this point among those of its kind, from 1.
    fn count_point(&mut self, moment: Moment, party: Party) -> u32 {
        let is_same = |(other, of, _): &&mut (Moment, Party, u32)| *other == moment && *of == party;
        if let Some((_, _, count)) = self.points.iter_mut().find(is_same) {
            *count += 1;
            return *count;
        }
        self.points.push((moment, party, 1));
        1
    }
}
