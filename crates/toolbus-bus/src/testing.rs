//! What the tests of both ends of a call stand on: a bus whose faults are told by the test, an
//! inbox that keeps what comes, and waits that have a limit.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::watch;
use toolbus_wire::name::{AgentName, InstanceId};
use toolbus_wire::{Envelope, Message, Topic, json};

use crate::{
    Bus, Consumer, Delivery, Disposition, Flow, Handler, Health, MemoryBus, PublishError,
    SubscribeError, Subscription, TopicPattern,
};

/// Longest wait for what must come. The clock of these tests is paused, so it costs nothing.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) fn topic(text: &str) -> Topic {
    Topic::parse(text).unwrap()
}

pub(crate) fn agent(text: &str) -> AgentName {
    AgentName::parse(text).unwrap()
}

pub(crate) fn instance(text: &str) -> InstanceId {
    InstanceId::parse(text).unwrap()
}

pub(crate) fn at_once(permits: u16) -> Flow {
    Flow::Concurrent(NonZeroU16::new(permits).unwrap())
}

/// Waits until the condition holds, now or later.
pub(crate) async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    within(what, wait).await;
}

/// Waits for what must end.
pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("{what}: never"))
}

/// The in-memory broker, with the faults that a test asks for.
pub(crate) struct Faulty {
    pub(crate) inner: MemoryBus,
    health: Mutex<Health>,
    faults: Mutex<VecDeque<Fault>>,
    /// Faults of publishes to one topic.
    faults_to: Mutex<HashMap<String, VecDeque<Fault>>>,
    /// Every message that was published, faults included.
    published: Mutex<Vec<(Topic, Envelope)>>,
}

/// What becomes of one publish.
pub(crate) enum Fault {
    /// It fails, and nobody sees the message.
    Fails(PublishError),
    /// The message arrives, and the publish fails all the same.
    ArrivesBut(PublishError),
    /// The message arrives, and the publish never ends.
    ArrivesAndHangs,
    /// Nobody sees the message, and the publish never ends.
    Hangs,
}

impl Faulty {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            inner: MemoryBus::new(),
            health: Mutex::new(Health::Up),
            faults: Mutex::default(),
            faults_to: Mutex::default(),
            published: Mutex::default(),
        })
    }

    pub(crate) fn set_health(&self, health: Health) {
        *self.health.lock() = health;
    }

    /// What becomes of the next publishes, one each; those after them succeed.
    pub(crate) fn fail(&self, faults: impl IntoIterator<Item = Fault>) {
        self.faults.lock().extend(faults);
    }

    /// What becomes of the next publishes to this topic, before what [`Faulty::fail`] says.
    pub(crate) fn fail_to(&self, topic: &str, faults: impl IntoIterator<Item = Fault>) {
        self.faults_to.lock().entry(topic.to_owned()).or_default().extend(faults);
    }

    /// The next publishes succeed.
    pub(crate) fn clear_faults(&self) {
        self.faults.lock().clear();
    }

    /// Every message that was published to the topic.
    pub(crate) fn published(&self, topic: &Topic) -> Vec<Envelope> {
        let published = self.published.lock();
        published.iter().filter(|(to, _)| to == topic).map(|(_, message)| message.clone()).collect()
    }
}

impl Bus for Faulty {
    fn publish<'a>(
        &'a self,
        topic: &'a Topic,
        envelope: Envelope,
    ) -> BoxFuture<'a, Result<(), PublishError>> {
        Box::pin(async move {
            self.published.lock().push((topic.clone(), envelope.clone()));
            let of_topic =
                self.faults_to.lock().get_mut(topic.as_str()).and_then(VecDeque::pop_front);
            let fault = of_topic.or_else(|| self.faults.lock().pop_front());

            match fault {
                None => self.inner.publish(topic, envelope).await,
                Some(Fault::Fails(error)) => Err(error),
                Some(Fault::ArrivesBut(error)) => {
                    self.inner.publish(topic, envelope).await?;
                    Err(error)
                }
                Some(Fault::Hangs) => std::future::pending().await,
                Some(Fault::ArrivesAndHangs) => {
                    self.inner.publish(topic, envelope).await?;
                    std::future::pending().await
                }
            }
        })
    }

    fn subscribe(
        &self,
        subscription: Subscription,
        handler: Arc<dyn Handler>,
    ) -> BoxFuture<'_, Result<Consumer, SubscribeError>> {
        self.inner.subscribe(subscription, handler)
    }

    fn count_consumers<'a>(&'a self, subscription: &'a str) -> BoxFuture<'a, Option<usize>> {
        self.inner.count_consumers(subscription)
    }

    fn health(&self) -> Health {
        self.health.lock().clone()
    }

    fn close(&self, grace: Duration) -> BoxFuture<'_, ()> {
        self.inner.close(grace)
    }
}

/// Keeps every message that comes to a topic, and acks it at once.
pub(crate) struct Inbox {
    messages: watch::Sender<Vec<Envelope>>,
    consumer: Mutex<Option<Consumer>>,
}

impl Inbox {
    pub(crate) async fn open(bus: &dyn Bus, pattern: &str) -> Arc<Self> {
        let inbox =
            Arc::new(Self { messages: watch::Sender::default(), consumer: Mutex::default() });
        let kept = Arc::downgrade(&inbox);
        let handler = move |delivery: Delivery| {
            if let Some(inbox) = kept.upgrade() {
                inbox.messages.send_modify(|messages| messages.push(delivery.envelope));
            }
            std::future::ready(Disposition::Ack)
        };

        let subscription = Subscription::private(
            format!("inbox of {pattern}"),
            TopicPattern::parse(pattern).unwrap(),
            Flow::Ordered { prefetch: NonZeroU16::MIN },
        );
        let consumer = bus.subscribe(subscription, Arc::new(handler)).await.unwrap();
        *inbox.consumer.lock() = Some(consumer);

        inbox
    }

    /// Ends the inbox and its queue: from now on nobody listens.
    pub(crate) async fn close(&self) {
        let consumer = self.consumer.lock().take();
        consumer.expect("an inbox is closed once").kill().await;
    }

    /// Waits until at least so many messages have come, and gives all that have.
    pub(crate) async fn received(&self, at_least: usize) -> Vec<Envelope> {
        let mut messages = self.messages.subscribe();
        let wait = messages.wait_for(|messages| messages.len() >= at_least);
        within(&format!("{at_least} messages"), wait).await.unwrap().clone()
    }

    /// As [`Inbox::received`], read as what they say.
    pub(crate) async fn read<M: Message>(&self, at_least: usize) -> Vec<M> {
        let messages = self.received(at_least).await;
        messages.iter().map(|message| json::read(&message.body).unwrap()).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.messages.borrow().len()
    }
}
