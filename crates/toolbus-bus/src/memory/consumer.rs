//! One consumer: takes messages from its queue, runs the handler, and does as the handler says.

use std::pin::pin;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Broker;
use super::queue::{CountedConsumer, Queue, QueueHead, QueuedMessage};
use crate::metrics::DeadLetterReason;
use crate::port::{Disposition, Flow, Handler, dispatch};

pub(super) struct MemoryConsumer {
    pub(super) broker: Arc<Broker>,
    pub(super) queue: Arc<Queue>,
    /// Dropped once it takes nothing more.
    pub(super) counted: Option<CountedConsumer>,
    pub(super) handler: Arc<dyn Handler>,
    pub(super) flow: Flow,
    pub(super) stop: CancellationToken,
    pub(super) expire: CancellationToken,
    pub(super) handlers: TaskTracker,
}

impl MemoryConsumer {
    pub(super) async fn run(mut self) {
        let counted = self.counted.take();
        let this = Arc::new(self);
        let turn = this.stop.run_until_cancelled(this.queue.wait_turn()).await;
        match this.flow {
            Flow::Concurrent(permits) => this.run_concurrent(permits.get()).await,
            Flow::Ordered { .. } => this.run_ordered().await,
        }
        drop((counted, turn));
        this.handlers.close();
        this.handlers.wait().await;
        if this.queue.is_private() {
            this.broker.remove(&this.queue);
        }
    }

    async fn run_concurrent(self: &Arc<Self>, permits: u16) {
        let permits = Arc::new(Semaphore::new(usize::from(permits)));
        let mut stopped = pin!(self.stop.cancelled());

        loop {
            let permit = tokio::select! {
                biased;
                () = &mut stopped => return,
                permit = Arc::clone(&permits).acquire_owned() => permit,
            };

            let message = tokio::select! {
                biased;
                () = &mut stopped => return,
                message = self.next() => message,
            };

            let this = Arc::clone(self);
            self.handlers.spawn(async move {
                this.handle(message).await;
                drop(permit);
            });
        }
    }

    async fn run_ordered(&self) {
        let mut stopped = pin!(self.stop.cancelled());
        loop {
            let message = tokio::select! {
                biased;
                () = &mut stopped => return,
                message = self.next() => message,
            };
            self.handle(message).await;
        }
    }

    /// The next message to handle. Safe to drop: a message is taken out and returned in one step.
    async fn next(&self) -> QueuedMessage {
        loop {
            match self.queue.pop() {
                QueueHead::QueuedMessage(message) => return message,
                QueueHead::Expired(message) => {
                    self.count(&message, DeadLetterReason::Expired);
                    self.dead_letter(message, "expired".to_owned());
                }
                QueueHead::Empty => self.queue.next_arrival().await,
            }
        }
    }

    async fn handle(&self, message: QueuedMessage) {
        let delivery = message.delivery();
        let held = UnackedMessage { queue: &self.queue, message: Some(message) };

        // When the consumer's grace is over, no handler starts and those that run are dropped, and
        // `held` puts the message back: that is what the port promises.
        if self.expire.is_cancelled() {
            return;
        }

        let disposition = tokio::select! {
            // Most handlers end at once, and then the end of the grace is not waited for.
            biased;
            disposition = dispatch(&*self.handler, delivery, &self.broker.traffic) => disposition,
            () = self.expire.cancelled() => return,
        };

        let message = held.release();
        match disposition {
            Disposition::Ack => self.queue.forget(&message),
            Disposition::DeadLetter { reason } => self.dead_letter(message, reason.into_owned()),
        }
    }

    /// Counts a dead letter that its handler did not ask for.
    fn count(&self, message: &QueuedMessage, reason: DeadLetterReason) {
        self.broker.traffic.dead_letter(message.topic.template(), reason);
    }

    fn dead_letter(&self, message: QueuedMessage, reason: String) {
        self.queue.forget(&message);
        self.broker.dead_letter(&self.queue, message, reason);
    }
}

/// A message that is out for handling. Dropped unanswered, it goes back to its queue.
struct UnackedMessage<'a> {
    queue: &'a Queue,
    message: Option<QueuedMessage>,
}

impl UnackedMessage<'_> {
    fn release(mut self) -> QueuedMessage {
        self.message.take().expect("a held message is released once")
    }
}

impl Drop for UnackedMessage<'_> {
    fn drop(&mut self) {
        if let Some(mut message) = self.message.take() {
            message.earlier_deliveries = message.earlier_deliveries.saturating_add(1);
            self.queue.give_back(message);
        }
    }
}
