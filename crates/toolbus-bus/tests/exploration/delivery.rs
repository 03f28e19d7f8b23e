//! How the broker hands messages out: those of a shared queue to whichever worker is free, those of
//! a private queue to its owner, in order.

use std::sync::Arc;

use tokio::sync::Notify;
use toolbus_bus::port::DeadLetterBody;
use toolbus_bus::{Delivery, Disposition};

use crate::broker::Broker;
use crate::event::{Kind, Moment, Party};
use crate::link::{ConnectionLost, LinkStatus};
use crate::queue::{Handout, Message, QueueConsumer};

impl Broker {
    /// Hands out what waits in shared queues, as far as workers are free.
    pub(crate) fn dispatch(self: &Arc<Self>) {
        while let Some(handout) = self.next_handout() {
            let broker = Arc::clone(self);
            self.tasks.spawn(async move { broker.deliver_shared(handout).await });
        }
    }

    async fn deliver_shared(self: &Arc<Self>, handout: Handout) {
        let Handout { consumer, queue, number, message } = handout;
        let party = consumer.party;
        let connection = self.link(party).connection();
        if self.link(party).hop(connection).await.is_err() {
            return;
        }

        self.come_to(Moment::Deliver, party);
        if self.link(party).connection() != connection {
            return;
        }

        let disposition = tokio::select! {
            biased;
            // The process is dead, and what it did ends in the middle.
            () = consumer.expire.cancelled() => return,
            disposition = consumer.handler.handle(into_delivery(message)) => disposition,
        };

        assert_eq!(disposition, Disposition::Ack, "no request of these tests is unreadable");
        // A connection that was lost takes no ack, and the message is another's already.
        if self.link(party).connection() == connection {
            self.ack(&queue, number);
            self.dispatch();
        }
    }

    /// Hands the messages of a private queue to its owner, one after the other.
    pub(crate) async fn deliver_in_order(self: &Arc<Self>, name: &str, consumer: &QueueConsumer) {
        let party = consumer.party;
        loop {
            let message = self.next_message(name, &consumer.arrived, party).await;
            let connection = self.link(party).connection();

            if Kind::of(&message.envelope) == Kind::Reply {
                self.come_to(Moment::ReplyArrives, party);
            }
            match self.link(party).hop(connection).await {
                Ok(()) => self.deliver_private(message, consumer).await,
                Err(ConnectionLost) => self.history.add_lost(&message.envelope),
            }
        }
    }

    async fn deliver_private(&self, message: Message, consumer: &QueueConsumer) {
        let party = consumer.party;
        let kind = Kind::of(&message.envelope);
        if kind == Kind::Cancel {
            self.history.add_cancel(party);
        } else if kind != Kind::Loopback {
            self.history.trace(|| format!("{party} takes {kind}"));
        }
        if party == Party::Caller && kind == Kind::Heartbeat {
            self.history.add_heartbeat();
        }
        consumer.handler.handle(into_delivery(message)).await;
    }

    /// The next message of a private queue, once its owner is connected.
    async fn next_message(&self, name: &str, arrived: &Notify, party: Party) -> Message {
        loop {
            if self.status(party) == LinkStatus::Up
                && let Some(message) = self.pop(name)
            {
                return message;
            }
            arrived.notified().await;
        }
    }
}

fn into_delivery(message: Message) -> Delivery {
    let Message { topic, envelope, redelivered, .. } = message;
    let dead_letter_body = DeadLetterBody::default();
    Delivery { topic, envelope, redelivered, earlier_deliveries: 0, dead_letter_body }
}
