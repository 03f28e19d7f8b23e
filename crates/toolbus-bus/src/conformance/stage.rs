//! What a case stands on: names that are its own, buses, and waits that have a limit.

use std::future::Future;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use toolbus_wire::{Envelope, Topic};

use super::probe::{Act, Probe};
use super::{DeadLetter, Doomed, Fixture};
use crate::{Bus, Consumer, Delivery, Disposition, Flow, Handler, Subscription, TopicPattern};

/// How often a value that the broker does not announce is asked for again.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Grace for buses that are closed after a case: nothing runs on them any more.
const STRIKE_GRACE: Duration = Duration::from_secs(1);

/// A case's own corner of a broker.
#[derive(Clone)]
pub(super) struct Stage {
    fixture: Arc<dyn Fixture>,
    /// First segment of every topic of this case, and first part of every name.
    id: Arc<str>,
    buses: Arc<Mutex<Vec<Arc<dyn Bus>>>>,
}

impl Stage {
    pub(super) fn new(fixture: Arc<dyn Fixture>) -> Self {
        let id = format!("conformance-{}", uuid::Uuid::new_v4().simple()).into();
        Self { fixture, id, buses: Arc::default() }
    }

    /// Closes every bus of the case.
    pub(super) async fn strike(&self) {
        let buses = std::mem::take(&mut *self.buses.lock());
        for bus in buses {
            bus.close(STRIKE_GRACE).await;
        }
    }

    pub(super) async fn bus(&self) -> Arc<dyn Bus> {
        let bus = self.fixture.bus().await;
        self.buses.lock().push(Arc::clone(&bus));
        bus
    }

    /// A bus, and what kills it.
    pub(super) async fn doomed(&self) -> (Arc<dyn Bus>, impl Future<Output = ()> + use<>) {
        let Doomed { bus, kill } = self.fixture.doomed().await;
        (bus, kill)
    }

    /// First segment of every topic of this case.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn topic(&self, rest: &str) -> Topic {
        Topic::parse(format!("{}.{rest}", self.id)).expect("the topics of the suite are short")
    }

    pub(super) fn pattern(&self, rest: &str) -> TopicPattern {
        TopicPattern::from(self.topic(rest))
    }

    pub(super) fn name(&self, rest: &str) -> String {
        format!("{}.{rest}", self.id)
    }

    /// A durable subscription of this case.
    pub(super) fn durable(&self, name: &str, pattern: &str, flow: Flow) -> Subscription {
        Subscription::durable(self.name(name), self.pattern(pattern), flow)
    }

    /// A subscription of this case whose queue one consumer has at a time.
    pub(super) fn single_active(&self, name: &str, pattern: &str, flow: Flow) -> Subscription {
        Subscription::single_active(self.name(name), self.pattern(pattern), flow)
    }

    /// A private subscription of this case.
    pub(super) fn private(&self, name: &str, pattern: &str, flow: Flow) -> Subscription {
        Subscription::private(self.name(name), self.pattern(pattern), flow)
    }

    /// A probe that answers at once.
    pub(super) fn answers(
        &self,
        answer: impl Fn(&Delivery) -> Disposition + Send + Sync + 'static,
    ) -> Arc<Probe> {
        self.probe(move |delivery| Act::Answer(answer(delivery)))
    }

    /// A probe that acks at once.
    pub(super) fn acks(&self) -> Arc<Probe> {
        self.answers(|_| Disposition::Ack)
    }

    /// A probe that holds every message until it is opened, and then acks.
    pub(super) fn holds(&self) -> Arc<Probe> {
        self.probe(|_| Act::Hold)
    }

    pub(super) fn probe(
        &self,
        script: impl Fn(&Delivery) -> Act + Send + Sync + 'static,
    ) -> Arc<Probe> {
        Arc::new(Probe::new(script, self.patience()))
    }

    pub(super) async fn subscribe(
        &self,
        bus: &Arc<dyn Bus>,
        subscription: Subscription,
        handler: &Arc<impl Handler>,
    ) -> Consumer {
        let handler = Arc::clone(handler) as Arc<dyn Handler>;
        let name = subscription.name.clone();
        self.within("subscribing", bus.subscribe(subscription, handler))
            .await
            .unwrap_or_else(|error| panic!("subscribing as {name} failed: {error}"))
    }

    /// Makes a durable queue that has no consumer.
    pub(super) async fn make_queue(&self, bus: &Arc<dyn Bus>, name: &str, pattern: &str) {
        let nobody = self.acks();
        let consumer = self.subscribe(bus, self.durable(name, pattern, at_once(1)), &nobody).await;
        self.within("stopping an idle consumer", consumer.stop(self.patience())).await;
    }

    /// Publishes a message that somebody must be there for.
    pub(super) async fn publish(&self, bus: &Arc<dyn Bus>, topic: &Topic, envelope: Envelope) {
        self.within("publishing", bus.publish(topic, envelope))
            .await
            .unwrap_or_else(|error| panic!("publishing to {topic} failed: {error}"));
    }

    /// Publishes messages with the given texts, one after the other.
    pub(super) async fn publish_texts<T: AsRef<str>>(
        &self,
        bus: &Arc<dyn Bus>,
        topic: &Topic,
        texts: impl IntoIterator<Item = T>,
    ) {
        for text in texts {
            self.publish(bus, topic, message(text.as_ref())).await;
        }
    }

    /// Waits until a queue has as many consumers as expected.
    pub(super) async fn consumers(&self, bus: &Arc<dyn Bus>, name: &str, expected: usize) {
        let name = &self.name(name);
        let has_them = || async move { bus.count_consumers(name).await == Some(expected) };
        self.until(&format!("{expected} consumers of {name}"), has_them).await;
    }

    /// Waits until as many messages as expected wait in a queue.
    pub(super) async fn ready(&self, name: &str, expected: usize) {
        let name = self.name(name);
        let mut last = None;
        let wait = async {
            while last != Some(expected) {
                if last.is_some() {
                    // sleeps: looks again, within a limit.
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
                last = Some(self.fixture.ready_count(&name).await);
            }
        };

        let in_time = tokio::time::timeout(self.patience(), wait).await.is_ok();
        assert!(in_time, "expected {expected} messages to wait in {name}, last seen: {last:?}");
    }

    /// Waits until a subscription has at least so many dead letters, and gives all it has.
    pub(super) async fn dead_letters(&self, name: &str, at_least: usize) -> Vec<DeadLetter> {
        let name = self.name(name);
        let mut letters = Vec::new();
        let wait = async {
            loop {
                letters = self.fixture.dead_letters(&name).await;
                if letters.len() >= at_least {
                    break;
                }
                // sleeps: looks again, within a limit.
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };

        let in_time = tokio::time::timeout(self.patience(), wait).await.is_ok();
        assert!(in_time, "expected {at_least} dead letters of {name}, there are {}", letters.len());
        letters
    }

    /// Watches long enough that what should not come would have come.
    pub(super) async fn quiet(&self) {
        // sleeps: nothing else shows that the broker sends nothing more.
        tokio::time::sleep(self.fixture.quiet()).await;
    }

    pub(super) fn patience(&self) -> Duration {
        self.fixture.patience()
    }

    /// Waits for something that must end.
    pub(super) async fn within<T>(&self, what: &str, future: impl Future<Output = T>) -> T {
        let patience = self.patience();
        tokio::time::timeout(patience, future)
            .await
            .unwrap_or_else(|_| panic!("{what} took longer than {patience:?}"))
    }

    /// Asks again until the answer is yes.
    pub(super) async fn until<Fut: Future<Output = bool>>(
        &self,
        what: &str,
        mut ask: impl FnMut() -> Fut,
    ) {
        let wait = async {
            while !ask().await {
                // sleeps: looks again, within a limit.
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        self.within(what, wait).await;
    }
}

/// A message that is known by the text of its body.
pub(super) fn message(text: &str) -> Envelope {
    Envelope::new("Toolbus.Conformance", "conformance", Bytes::copy_from_slice(text.as_bytes()))
}

/// `Flow::Concurrent`, for numbers that are plainly not zero.
pub(super) fn at_once(permits: u16) -> Flow {
    Flow::Concurrent(not_zero(permits))
}

/// `Flow::Ordered`, for numbers that are plainly not zero.
pub(super) fn in_order(prefetch: u16) -> Flow {
    Flow::Ordered { prefetch: not_zero(prefetch) }
}

fn not_zero(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).expect("the cases name no zero")
}

/// The texts `0`, `1`, … below `count`.
pub(super) fn numbers(count: usize) -> Vec<String> {
    (0..count).map(|number| number.to_string()).collect()
}
