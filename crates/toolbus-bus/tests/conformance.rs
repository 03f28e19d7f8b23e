//! The conformance suite on the in-memory broker.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, ready};
use toolbus_bus::conformance::{DeadLetter, Doomed, Fixture};
use toolbus_bus::{Bus, MemoryBus};

struct Memory {
    broker: MemoryBus,
}

impl Memory {
    fn start() -> Self {
        Self { broker: MemoryBus::new() }
    }
}

impl Fixture for Memory {
    fn bus(&self) -> BoxFuture<'_, Arc<dyn Bus>> {
        let bus: Arc<dyn Bus> = Arc::new(self.broker.connect());
        ready(bus).boxed()
    }

    fn doomed(&self) -> BoxFuture<'_, Doomed> {
        let bus = self.broker.connect();
        let kill = {
            let bus = bus.clone();
            async move { bus.close(Duration::ZERO).await }
        };
        ready(Doomed::new(Arc::new(bus), kill)).boxed()
    }

    fn ready_count<'a>(&'a self, subscription: &'a str) -> BoxFuture<'a, usize> {
        ready(self.broker.ready_count(subscription)).boxed()
    }

    fn dead_letters<'a>(&'a self, subscription: &'a str) -> BoxFuture<'a, Vec<DeadLetter>> {
        let letters = self.broker.dead_letters(subscription).into_iter();
        let letters = letters.map(|letter| DeadLetter {
            topic: letter.topic,
            reason: letter.reason,
            envelope: letter.envelope,
        });
        ready(letters.collect()).boxed()
    }
}

toolbus_bus::conformance_tests!(Memory::start());
