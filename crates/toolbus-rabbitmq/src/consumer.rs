//! One subscription: its channel and consumer at the broker, opened again as often as they are
//! lost.
//!
//! The broker hands out no more messages than [handlers are free](crate::prefetch). A stop has it
//! hand out none. What it has handed out by then is still handled, since a message that goes back
//! to its queue looks as if its handling had begun. What handlers leave undone goes back as the
//! channel closes.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join, join_all};
use futures_util::{FutureExt as _, StreamExt as _};
use lapin::Channel;
use lapin::options::{
    BasicCancelOptions, BasicConsumeOptions, BasicNackOptions, BasicQosOptions, QueueDeleteOptions,
};
use lapin::protocol::{AMQPErrorKind, AMQPSoftError};
use lapin::types::FieldTable;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolbus_bus::port::{Flow, Handler, Lifetime, Subscription};
use toolbus_wire::queue;

use crate::backoff::Backoff;
use crate::delivery::{IncomingMessage, SubscriptionChannel};
use crate::error::{is_queue_away, protocol_error, reason};
use crate::frame::short_string;
use crate::prefetch::{ChannelConsumers, LOOK_INTERVAL};
use crate::shared::{ConnectionState, Session, Shared};

/// How long the broker may take to answer while a consumer is stopped.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// A subscription at work.
pub(crate) struct RunningSubscription {
    shared: Arc<Shared>,
    subscription: Subscription,
    handler: Arc<dyn Handler>,
    stop: CancellationToken,
    expire: CancellationToken,
    handlers: TaskTracker,
    /// As many as handlers may run, those of lost channels included.
    permits: Arc<Semaphore>,
    established: Option<oneshot::Sender<Result<(), String>>>,
}

/// Tells whether the queue is there and bound.
pub(crate) struct Established(oneshot::Receiver<Result<(), String>>);

impl Established {
    /// Waits for the first time; the error is what the broker refused for good. `None` when the
    /// subscription has ended before.
    pub(crate) async fn wait(self) -> Option<Result<(), String>> {
        self.0.await.ok()
    }
}

/// How the consuming on one channel ended.
enum ConsumeEnd {
    Stopped,
    Lost(String),
}

impl RunningSubscription {
    pub(crate) fn new(
        shared: Arc<Shared>,
        subscription: Subscription,
        handler: Arc<dyn Handler>,
        stop: CancellationToken,
        expire: CancellationToken,
    ) -> (Self, Established) {
        let (sender, established) = oneshot::channel();
        let permits = match subscription.flow {
            Flow::Concurrent(permits) => permits.get(),
            Flow::Ordered { .. } => 1,
        };

        let running = Self {
            shared,
            subscription,
            handler,
            stop,
            expire,
            handlers: TaskTracker::new(),
            permits: Arc::new(Semaphore::new(usize::from(permits))),
            established: Some(sender),
        };

        (running, Established(established))
    }

    /// Consumes until the subscription is stopped or refused for good.
    pub(crate) async fn run(mut self) {
        let mut backoff = Backoff::default();
        let mut last_logged = String::new();

        while let Some(session) = self.wait_for_session().await {
            let began = Instant::now();
            let interruption = match self.consume(&session).await {
                Ok(ConsumeEnd::Stopped) => break,
                Ok(ConsumeEnd::Lost(reason)) => reason,
                Err(error) if is_queue_away(&error) => {
                    self.report_durable_queue_away(reason(&error))
                }
                Err(error) if self.report_if_refused(&error) => break,
                Err(error) => reason(&error),
            };

            backoff.note_uptime(began.elapsed());
            // The end of the connection is logged once, by its supervisor.
            if session.link.is_connected() && interruption != last_logged {
                let name = &self.subscription.name;
                tracing::warn!(subscription = name, reason = interruption, "lost the queue");
                last_logged.clone_from(&interruption);
            }

            if self.ends_when_lost() {
                self.stop.cancel();
                break;
            }

            self.shared.set_interruption(&self.subscription, Some(interruption));
            // Either arm only waits.
            tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                () = tokio::time::sleep(backoff.next()) => {}
            }
        }

        self.handlers.close();
        self.handlers.wait().await;
        self.shared.set_interruption(&self.subscription, None);
    }

    /// The connection, once messages flow on it; `None` when the subscription is stopped.
    async fn wait_for_session(&self) -> Option<Arc<Session>> {
        let mut state = self.shared.state.subscribe();
        // Either arm only waits.
        tokio::select! {
            biased;
            () = self.stop.cancelled() => None,
            state = state.wait_for(ConnectionState::is_up) => state.ok()?.session(),
        }
    }

    /// Reports a final refusal to the subscriber that waits, if there is one: trying again would
    /// not help.
    fn report_if_refused(&mut self, error: &lapin::Error) -> bool {
        let is_final = match protocol_error(error) {
            Some(AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED)) => true,
            // A queue of that name is there and is not ours. While it is locked, the connection
            // that had it may be our own last one, which the broker has not given up yet.
            Some(AMQPErrorKind::Soft(AMQPSoftError::PRECONDITIONFAILED)) => true,
            _ => false,
        };

        match self.established.take_if(|_| is_final) {
            Some(established) => established.send(Err(reason(error))).is_ok(),
            None => false,
        }
    }

    /// Lets the subscriber of a durable queue go on that waits: the queue is there, and comes up
    /// with the node that it lives on. Until then the health of the bus says so.
    fn report_durable_queue_away(&mut self, reason: String) -> String {
        if self.subscription.lifetime == Lifetime::Durable {
            self.shared.set_interruption(&self.subscription, Some(reason.clone()));
            if let Some(established) = self.established.take() {
                // The subscriber may have given up waiting.
                drop(established.send(Ok(())));
            }
        }

        reason
    }

    /// Declares, consumes, and ends the channel.
    async fn consume(&mut self, session: &Session) -> lapin::Result<ConsumeEnd> {
        // A broker that hangs must not hold up a stop. What is half declared closes as it drops.
        let (channel, mut consumers) = tokio::select! {
            biased;
            () = self.stop.cancelled() => return Ok(ConsumeEnd::Stopped),
            established = self.establish_consumer(session) => established?,
        };

        self.shared.set_interruption(&self.subscription, None);
        match self.established.take() {
            // The subscriber may have given up waiting.
            Some(established) => drop(established.send(Ok(()))),
            None => self.handler.on_resubscribed(),
        }

        let source = Arc::new(SubscriptionChannel::new(
            Arc::clone(&self.shared),
            self.subscription.clone(),
            channel.clone(),
        ));
        let end = match self.subscription.flow {
            Flow::Concurrent(_) => self.take_concurrently(&source, &mut consumers).await,
            Flow::Ordered { .. } => self.take_in_order(&source, &mut consumers).await,
        };

        if let ConsumeEnd::Stopped = end {
            self.handlers.close();
            self.handlers.wait().await;
            // What is not acked goes back to the queue.
            self.say_goodbye(async {
                let _ = channel.close(200, "stopped".into()).await;
            })
            .await;
        }

        // A lost channel that is still open lives until the last handler has answered on it.
        Ok(end)
    }

    async fn establish_consumer(
        &self,
        session: &Session,
    ) -> lapin::Result<(Channel, ChannelConsumers)> {
        let Self { shared, subscription, .. } = self;
        let prefetch = self.first_prefetch();
        let channel = shared.topology.subscribe(&session.link, subscription, prefetch).await?;
        let consumer = self.start_consumer(&channel).await?;
        if self.is_private() {
            shared.topology.bind(&channel, subscription).await?;
        }
        Ok((channel, ChannelConsumers::new(consumer, prefetch)))
    }

    /// How many messages the first consumer of a channel is handed: a handler may be at work for a
    /// channel that was lost.
    fn first_prefetch(&self) -> u16 {
        let prefetch = self.subscription.flow.prefetch().get();
        match self.subscription.flow {
            // A private queue has one consumer.
            Flow::Concurrent(_) if !self.is_private() => {
                let at_work = u16::try_from(self.handlers.len()).unwrap_or(u16::MAX);
                // A queue without any consumer would look as if nobody served it.
                prefetch.saturating_sub(at_work).max(1)
            }
            _ => prefetch,
        }
    }

    /// Has the broker hand out more, where handlers of lost channels have ended.
    async fn grow_prefetch(
        &self,
        source: &SubscriptionChannel,
        consumers: &mut ChannelConsumers,
    ) -> lapin::Result<()> {
        let handlers = self.subscription.flow.prefetch().get();
        let elsewhere = self.handlers.len().saturating_sub(source.at_work().get());
        if let Some(prefetch) = consumers.missing(handlers, elsewhere) {
            let channel = source.channel();
            channel.basic_qos(prefetch, BasicQosOptions::default()).await?;
            consumers.add(self.start_consumer(channel).await?, prefetch);
        }
        Ok(())
    }

    /// Whether it does not go on, now that it was there and was lost.
    fn ends_when_lost(&self) -> bool {
        let is_single = self.subscription.lifetime == Lifetime::SingleActive;
        is_single && self.established.is_none()
    }

    fn is_private(&self) -> bool {
        self.subscription.lifetime == Lifetime::Private
    }

    async fn start_consumer(&self, channel: &Channel) -> lapin::Result<lapin::Consumer> {
        let name = short_string(&queue::queue(&self.subscription.name));
        let options = BasicConsumeOptions { exclusive: self.is_private(), ..Default::default() };
        channel.basic_consume(name, short_string(""), options, FieldTable::default()).await
    }

    async fn take_concurrently(
        &self,
        source: &Arc<SubscriptionChannel>,
        consumers: &mut ChannelConsumers,
    ) -> ConsumeEnd {
        let mut stopped = pin!(self.stop.cancelled());
        let mut look = tokio::time::interval(LOOK_INTERVAL);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);

        loop {
            // Dropping any wait loses nothing: a message stays in its consumer until it is taken
            // out. A consumer that is half started closes with the channel.
            let next = tokio::select! {
                biased;
                () = &mut stopped => break,
                next = consumers.next() => next,
                _ = look.tick(), if !self.is_private() => {
                    let grown = tokio::select! {
                        biased;
                        () = &mut stopped => break,
                        grown = self.grow_prefetch(source, consumers) => grown,
                    };
                    match grown {
                        Ok(()) => continue,
                        Err(error) => return ConsumeEnd::Lost(reason(&error)),
                    }
                }
            };

            let delivery = match next {
                Some(Ok(delivery)) => delivery,
                Some(Err(error)) => return ConsumeEnd::Lost(reason(&error)),
                None => return ConsumeEnd::Lost(CANCELLED.to_owned()),
            };

            // A handler is free, unless all of them are at work for channels that were lost.
            let permit = tokio::select! {
                biased;
                permit = Arc::clone(&self.permits).acquire_owned() => permit,
                () = &mut stopped => {
                    source.requeue(delivery.delivery_tag);
                    break;
                }
                () = wait_lost(source.channel()) => return ConsumeEnd::Lost(LOST.to_owned()),
            };
            // Nothing closes them.
            let Ok(permit) = permit else { break };
            self.spawn_handler(source, delivery, permit);
        }

        self.finish_prefetched(source, consumers).await;
        ConsumeEnd::Stopped
    }

    fn spawn_handler(
        &self,
        source: &Arc<SubscriptionChannel>,
        delivery: lapin::message::Delivery,
        permit: OwnedSemaphorePermit,
    ) {
        let counted = source.at_work().count_one();
        let work = IncomingMessage::new(Arc::clone(source), delivery);
        let handler = Arc::clone(&self.handler);
        let expire = self.expire.clone();
        // Boxed: a task's beginning moves its future several times.
        self.handlers.spawn(Box::pin(async move {
            work.run(&*handler, &expire).await;
            drop((counted, permit));
        }));
    }

    async fn take_in_order(
        &self,
        source: &Arc<SubscriptionChannel>,
        consumers: &mut ChannelConsumers,
    ) -> ConsumeEnd {
        let mut stopped = pin!(self.stop.cancelled());
        loop {
            // Dropping the wait loses nothing: a message stays in the consumer until it is taken.
            let next = tokio::select! {
                biased;
                () = &mut stopped => break,
                next = consumers.next() => next,
            };

            let work = match next {
                Some(Ok(delivery)) => IncomingMessage::new(Arc::clone(source), delivery),
                Some(Err(error)) => return ConsumeEnd::Lost(reason(&error)),
                None => return ConsumeEnd::Lost(CANCELLED.to_owned()),
            };

            let mut work = pin!(work.run(&*self.handler, &self.expire));
            // The work is not dropped when the stop comes first: it goes on below.
            let is_stopped = tokio::select! {
                biased;
                () = &mut work => false,
                () = &mut stopped => true,
            };

            if is_stopped {
                self.return_prefetched(source, consumers).await;
                work.await;
                return ConsumeEnd::Stopped;
            }
        }

        self.return_prefetched(source, consumers).await;
        ConsumeEnd::Stopped
    }

    /// Cancels the consumers and handles what was handed out before. Of a channel that was lost,
    /// handlers may still have places; what finds none goes back to the queue.
    async fn finish_prefetched(
        &self,
        source: &Arc<SubscriptionChannel>,
        consumers: &mut ChannelConsumers,
    ) {
        let channel = source.channel();
        let finish = consumers.iter_mut().map(|consumer| async move {
            let cancel = channel.basic_cancel(consumer.tag(), BasicCancelOptions::default());
            let finish = async {
                while let Some(Ok(delivery)) = consumer.next().await {
                    match Arc::clone(&self.permits).try_acquire_owned() {
                        Ok(permit) => self.spawn_handler(source, delivery, permit),
                        Err(_) => return_to_queue(channel, delivery.delivery_tag).await,
                    }
                }
            };
            let _ = join(cancel, finish).await;
        });

        self.say_goodbye(join_all(finish).map(drop)).await;
    }

    /// Cancels the consumer and returns prefetched messages to the queue.
    async fn return_prefetched(
        &self,
        source: &SubscriptionChannel,
        consumers: &mut ChannelConsumers,
    ) {
        let channel = source.channel();
        let name = short_string(&queue::queue(&self.subscription.name));
        self.say_goodbye(async {
            if self.is_private() {
                // It would go with its consumer anyway; so it is gone for sure when this returns.
                let _ = channel.queue_delete(name, QueueDeleteOptions::default()).await;
            }

            for consumer in consumers.iter_mut() {
                let cancel = BasicCancelOptions::default();
                let _ = channel.basic_cancel(consumer.tag(), cancel).await;
                while let Some(Ok(delivery)) = consumer.next().await {
                    return_to_queue(channel, delivery.delivery_tag).await;
                }
            }
        })
        .await;
    }

    /// Tells the broker of a stop, for as long as it can be told anything: on a connection that is
    /// blocked, nothing is sent at all.
    async fn say_goodbye(&self, goodbye: impl Future<Output = ()>) {
        let mut state = self.shared.state.subscribe();
        // Every arm only waits; what is dropped is made good as the connection ends.
        tokio::select! {
            biased;
            () = goodbye => {}
            _ = state.wait_for(|state| !state.is_up()) => {}
            () = tokio::time::sleep(CLOSE_TIMEOUT) => {}
        }
    }
}

async fn return_to_queue(channel: &Channel, tag: u64) {
    let back = BasicNackOptions { multiple: false, requeue: true };
    let _ = channel.basic_nack(tag, back).await;
}

/// Waits until a channel is lost, for somebody who cannot listen to it.
async fn wait_lost(channel: &Channel) {
    while channel.status().connected() {
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

/// Why a channel is taken for lost that is not connected any more.
const LOST: &str = "the channel was closed";
/// The broker ends a consumer without an error when its queue is deleted.
const CANCELLED: &str = "the broker cancelled the consumer";
