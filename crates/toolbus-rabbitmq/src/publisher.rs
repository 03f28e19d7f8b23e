//! Publishing on one connection: one channel, many messages in flight, each with its own answer.
//!
//! One task owns the channel, for two reasons. The AMQP library numbers a message and queues it in
//! two steps, so two tasks that publish on one channel can swap numbers, and with them the
//! broker's answers. And the library hands a returned message to whichever confirm it settles
//! next. Where half of the messages have no queue, that is another message's for one in a thousand;
//! [`Returns`] puts that right.
//!
//! Nothing here retries. A message that was not sent goes back to its caller, a message whose
//! answer is lost is [`PublishOutcome::Unconfirmed`].
//!
//! After a refusal the channel is replaced. A channel of RabbitMQ 3 keeps who led a quorum queue
//! when it first published there, and refuses everything for as long as that node is down, though
//! the queue has another leader by then. What is in flight ends on the old channel.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use lapin::message::BasicReturnMessage;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::protocol::AMQPErrorKind;
use lapin::types::ShortString;
use lapin::{BasicProperties, Channel};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::error::{protocol_error, reason};
use crate::link::Link;
use crate::metrics::Metrics;
use crate::topology::Topology;

/// Most messages that wait to be sent or confirmed on one connection.
pub(crate) const IN_FLIGHT_MAX: usize = 4_096;
/// How many commands are taken up before the next look at the confirms.
const COMMANDS_AT_ONCE_MAX: usize = 64;

/// A message to be published.
pub(crate) struct Outgoing {
    pub(crate) exchange: ShortString,
    pub(crate) routing_key: ShortString,
    pub(crate) properties: BasicProperties,
    pub(crate) body: Bytes,
    /// Its share of what may be in flight.
    pub(crate) share: OwnedSemaphorePermit,
}

/// What became of a message.
pub(crate) enum PublishOutcome {
    /// The broker has it.
    Confirmed,
    /// No queue takes it.
    Unroutable,
    /// The broker does not want it.
    Refused(String),
    /// The broker's answer is lost.
    Unconfirmed,
    /// It was not sent, for sure.
    NotSent(Box<Outgoing>),
}

/// A message and who waits for its outcome.
pub(crate) struct PublishCommand {
    pub(crate) outgoing: Outgoing,
    pub(crate) outcome: oneshot::Sender<PublishOutcome>,
}

/// Publishes what comes in until the channel cannot be had any more, which ends in the reason, or
/// until `drain` is cancelled and everything is answered.
pub(crate) struct Publisher {
    link: Arc<Link>,
    topology: Arc<Topology>,
    commands: mpsc::Receiver<PublishCommand>,
    metrics: Metrics,
    drain: CancellationToken,
}

impl Publisher {
    pub(crate) fn new(
        link: Arc<Link>,
        topology: Arc<Topology>,
        metrics: Metrics,
        drain: CancellationToken,
    ) -> (Self, mpsc::Sender<PublishCommand>) {
        let (sender, commands) = mpsc::channel(IN_FLIGHT_MAX);
        (Self { link, topology, commands, metrics, drain }, sender)
    }

    /// Opens a channel to publish on, with the exchanges declared.
    pub(crate) fn open(&self) -> BoxFuture<'static, lapin::Result<Channel>> {
        let (link, topology) = (Arc::clone(&self.link), Arc::clone(&self.topology));
        Box::pin(async move {
            let channel = topology.open_channel(&link).await?;
            channel.confirm_select(ConfirmSelectOptions::default()).await?;
            Ok(channel)
        })
    }

    /// Publishes on `channel`, and on another when the broker has closed it.
    pub(crate) async fn run(mut self, mut channel: Channel) -> Result<(), lapin::Error> {
        let end = loop {
            match self.publish_on(channel).await {
                ChannelEnd::Drained => break Ok(()),
                ChannelEnd::ChannelLost => {}
            }

            match self.open().await {
                Ok(next) => channel = next,
                Err(error) => break Err(error),
            }
        };

        self.commands.close();
        while let Some(command) = self.commands.recv().await {
            let _ = command.outcome.send(PublishOutcome::NotSent(Box::new(command.outgoing)));
        }

        end
    }

    async fn publish_on(&mut self, mut channel: Channel) -> ChannelEnd {
        let mut replacement = Replacement::default();
        let mut in_flight = FuturesUnordered::new();
        let mut returns = Returns::default();
        let mut taken = Vec::new();
        let mut settled = Vec::new();
        let drain = self.drain.clone();
        let mut drained = std::pin::pin!(drain.cancelled());
        let mut is_open = true;

        loop {
            let is_connected = channel.status().connected();
            match (in_flight.is_empty(), is_open, is_connected) {
                (true, false, _) => return ChannelEnd::Drained,
                (true, true, false) => return ChannelEnd::ChannelLost,
                _ => {}
            }

            // Every arm only waits: `collect_settled` fills its vector in the same poll that ends
            // it, and `recv_many` takes nothing without ending.
            tokio::select! {
                biased;
                () = collect_settled(&mut in_flight, &mut settled), if !in_flight.is_empty() => {
                    let alone = in_flight.is_empty() && settled.len() == 1;
                    returns.collect_settled(&mut settled);
                    if settled.iter().any(SettledMessage::is_refused) {
                        replacement.request(|| self.open());
                    }

                    for sent in settled.drain(..) {
                        sent.report_outcome(&mut returns, alone, &self.metrics);
                    }

                    if in_flight.is_empty() {
                        returns.clear();
                    }
                }
                count = self.commands.recv_many(&mut taken, COMMANDS_AT_ONCE_MAX),
                    if is_open && is_connected =>
                {
                    is_open = count > 0;
                    // A caller that gave up before its message was sent does not want it sent.
                    let wanted = taken.drain(..).filter(|command| !command.outcome.is_closed());
                    in_flight.extend(wanted.map(|command| publish_command(channel.clone(), command)));
                }
                opened = replacement.opened(), if replacement.is_opening() => {
                    // Where it fails, the old one goes on or its end is noticed.
                    channel = opened.unwrap_or(channel);
                }
                () = &mut drained, if !self.commands.is_closed() => self.commands.close(),
            }
        }
    }
}

enum ChannelEnd {
    Drained,
    ChannelLost,
}

/// A channel that is being opened to take the place of one that refused.
#[derive(Default)]
struct Replacement {
    opening: Option<BoxFuture<'static, lapin::Result<Channel>>>,
    /// A queue that is full refuses on any channel.
    backoff: Backoff,
    last: Option<Instant>,
    not_before: Option<Instant>,
}

impl Replacement {
    /// Opens another channel, unless that was done a moment ago.
    fn request(&mut self, open: impl FnOnce() -> BoxFuture<'static, lapin::Result<Channel>>) {
        let now = Instant::now();
        if self.is_opening() || self.not_before.is_some_and(|moment| now < moment) {
            return;
        }

        if let Some(last) = self.last.replace(now) {
            self.backoff.note_uptime(now - last);
        }
        self.not_before = Some(now + self.backoff.next());
        self.opening = Some(open());
    }

    fn is_opening(&self) -> bool {
        self.opening.is_some()
    }

    /// Waits for the other channel. Dropping the wait loses nothing.
    async fn opened(&mut self) -> lapin::Result<Channel> {
        let Some(opening) = &mut self.opening else { return std::future::pending().await };
        let opened = opening.await;
        self.opening = None;
        opened
    }
}

/// A message that went through the library, and what came of it.
struct SettledMessage {
    key: MessageKey,
    answer: ConfirmResult,
    /// The returned message that came with the answer: this one, or another.
    returned: Option<MessageKey>,
    outcome: oneshot::Sender<PublishOutcome>,
    /// Its share of what may be in flight: the caller may be gone, the message is not.
    _share: Option<OwnedSemaphorePermit>,
}

enum ConfirmResult {
    Acked,
    Nacked,
    NotSent(Box<Outgoing>),
    Failed(lapin::Error),
}

async fn publish_command(channel: Channel, command: PublishCommand) -> SettledMessage {
    let PublishCommand { outgoing, outcome } = command;
    let key = MessageKey::of(&outgoing);

    if !channel.status().connected() {
        let answer = ConfirmResult::NotSent(Box::new(outgoing));
        return SettledMessage { key, answer, returned: None, outcome, _share: None };
    }

    let Outgoing { exchange, routing_key, properties, body, share } = outgoing;
    let options = BasicPublishOptions { mandatory: true, immediate: false };
    let published = channel.basic_publish(exchange, routing_key, options, &body, properties).await;
    let confirmation = match published {
        // Never dropped unresolved: the library would keep it for ever.
        Ok(confirm) => confirm.await,
        Err(error) => Err(error),
    };

    let (answer, returned) = match confirmation {
        Ok(confirmation) => {
            let answer =
                if confirmation.is_ack() { ConfirmResult::Acked } else { ConfirmResult::Nacked };
            (answer, confirmation.take_message().as_ref().map(MessageKey::of_returned))
        }
        Err(error) => (ConfirmResult::Failed(error), None),
    };

    SettledMessage { key, answer, returned, outcome, _share: Some(share) }
}

/// Waits until a message is settled, and takes every other that is settled by then.
///
/// This is what [`Returns`] rests on. The library settles one message after the other, each waking
/// its future, and futures are polled in the order in which they were woken. So once a poll finds
/// none ready, every message that was settled before the last one taken has been taken too.
async fn collect_settled<F: Future<Output = SettledMessage>>(
    in_flight: &mut FuturesUnordered<F>,
    settled: &mut Vec<SettledMessage>,
) {
    poll_fn(|context| {
        while let Poll::Ready(Some(sent)) = in_flight.poll_next_unpin(context) {
            settled.push(sent);
        }
        if settled.is_empty() { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
}

/// Messages that the broker returned, until each is found.
///
/// The broker returns a message before it confirms it. The library gives a returned message to the
/// confirm that it settles next, at random where one answer of the broker settles many. Whichever
/// that is, it is settled no later than the returned message itself.
#[derive(Default)]
struct Returns(Vec<MessageKey>);

/// What tells a returned message from others: two of the same id and topic share their fate.
#[derive(PartialEq, Eq)]
struct MessageKey {
    message_id: Option<ShortString>,
    exchange: ShortString,
    routing_key: ShortString,
}

impl MessageKey {
    fn of(outgoing: &Outgoing) -> Self {
        Self {
            message_id: outgoing.properties.message_id().clone(),
            exchange: outgoing.exchange.clone(),
            routing_key: outgoing.routing_key.clone(),
        }
    }

    fn of_returned(message: &BasicReturnMessage) -> Self {
        Self {
            message_id: message.properties.message_id().clone(),
            exchange: message.exchange.clone(),
            routing_key: message.routing_key.clone(),
        }
    }
}

impl Returns {
    fn collect_settled(&mut self, settled: &mut [SettledMessage]) {
        self.0.extend(settled.iter_mut().filter_map(|sent| sent.returned.take()));
    }

    fn take(&mut self, key: &MessageKey) -> bool {
        let found = self.0.iter().position(|returned| returned == key);
        found.map(|index| self.0.swap_remove(index)).is_some()
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

impl SettledMessage {
    fn is_refused(&self) -> bool {
        matches!(self.answer, ConfirmResult::Nacked)
    }

    /// Tells the caller what became of its message; `alone` is whether no other could have been
    /// what closed the channel.
    fn report_outcome(self, returns: &mut Returns, alone: bool, metrics: &Metrics) {
        let outcome = match self.answer {
            _ if returns.take(&self.key) => PublishOutcome::Unroutable,
            ConfirmResult::Acked => PublishOutcome::Confirmed,
            ConfirmResult::Nacked => PublishOutcome::Refused("no queue had room for it".to_owned()),
            ConfirmResult::NotSent(outgoing) => PublishOutcome::NotSent(outgoing),
            ConfirmResult::Failed(error) => match protocol_error(&error) {
                Some(AMQPErrorKind::Soft(_)) if alone => PublishOutcome::Refused(reason(&error)),
                _ => PublishOutcome::Unconfirmed,
            },
        };

        metrics.record_settled(&outcome);
        // The caller may have given up waiting.
        let _ = self.outcome.send(outcome);
    }
}
