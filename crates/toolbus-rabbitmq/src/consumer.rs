//! One subscription: its channel and consumer at the broker, opened again as often as they are
//! lost.
//!
//! Messages are taken only while a handler is free for them, and handed out in
//! [windows](crate::window). A stop has the broker hand out no more. What it has handed out by then
//! is still handled, since a message that goes back to its queue looks as if its handling had
//! begun. What handlers leave undone goes back as the channel closes.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::join;
use lapin::Channel;
use lapin::options::{
    BasicCancelOptions, BasicConsumeOptions, BasicNackOptions, BasicQosOptions, QueueDeleteOptions,
};
use lapin::protocol::{AMQPErrorKind, AMQPSoftError};
use lapin::types::FieldTable;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolbus_bus::port::{Flow, Handler, Lifetime, Subscription, WINDOW_MAX};
use toolbus_wire::queue;

use crate::backoff::Backoff;
use crate::delivery::{IncomingMessage, SubscriptionChannel};
use crate::error::{is_queue_away, protocol_error, reason};
use crate::frame::short_string;
use crate::shared::{ConnectionState, Session, Shared};
use crate::window::{CountedMessage, HeldBytes, Window};

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
    held: Arc<HeldBytes>,
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
            held: Arc::default(),
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
                tracing::warn!(
                    subscription = name,
                    reason = interruption,
                    "lost the queue; subscribing again"
                );
                last_logged.clone_from(&interruption);
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
        let (channel, mut window) = tokio::select! {
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
            Flow::Concurrent(_) => self.take_concurrently(&source, window).await,
            Flow::Ordered { .. } => self.take_in_order(&source, &mut window.consumer).await,
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

    async fn establish_consumer(&self, session: &Session) -> lapin::Result<(Channel, Window)> {
        let Self { shared, subscription, .. } = self;
        // Of a channel that was lost, handlers may hold too much yet.
        self.held.wait_for_room().await;
        let size = self.window_size();
        let channel = shared.topology.subscribe(&session.link, subscription, size).await?;
        let consumer = self.start_consumer(&channel).await?;
        if self.is_private() {
            shared.topology.bind(&channel, subscription).await?;
        }
        Ok((channel, Window::new(consumer, size)))
    }

    /// Has the broker hand out as many messages as there are handlers for, and no more at once than
    /// a window's.
    async fn open_window(&self, channel: &Channel, former: &Window) -> lapin::Result<Window> {
        self.held.wait_for_room().await;
        let size = self.window_size();
        if !former.usage.is_of_size(size) {
            channel.basic_qos(size, BasicQosOptions::default()).await?;
        }

        let consumer = self.start_consumer(channel).await?;
        Ok(Window::new(consumer, size))
    }

    fn window_size(&self) -> u16 {
        match self.subscription.flow {
            // A private queue goes with its consumer, which therefore stays the same.
            Flow::Concurrent(permits) if !self.is_private() => {
                let free = u16::try_from(self.permits.available_permits()).unwrap_or(u16::MAX);
                // A queue without any consumer would look as if nobody served it.
                free.min(permits.get()).clamp(1, WINDOW_MAX)
            }
            flow => flow.prefetch().get(),
        }
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
        mut window: Window,
    ) -> ConsumeEnd {
        let channel = source.channel();
        let mut stopped = pin!(self.stop.cancelled());
        loop {
            // Dropping either wait loses nothing: a permit goes back, and a message stays in the
            // consumer until it is taken out.
            let permit = tokio::select! {
                biased;
                () = &mut stopped => break,
                permit = Arc::clone(&self.permits).acquire_owned() => permit,
            };
            // Nothing closes them.
            let Ok(permit) = permit else { break };

            let next = tokio::select! {
                biased;
                () = &mut stopped => break,
                next = window.consumer.next() => next,
                () = window.usage.wait_used_up(&self.held), if !window.is_closing() => {
                    window.close(channel);
                    continue;
                }
            };

            match next {
                Some(Ok(delivery)) => {
                    let work = IncomingMessage::new(Arc::clone(source), delivery);
                    let counted = window.usage.count(permit, work.body_bytes(), &self.held);
                    self.spawn_handler(work, counted);
                }
                Some(Err(error)) => return ConsumeEnd::Lost(reason(&error)),
                None if window.is_closing() => {
                    drop(permit);
                    // A window that is half open closes with the channel.
                    let opened = tokio::select! {
                        biased;
                        () = &mut stopped => break,
                        opened = self.open_window(channel, &window) => opened,
                    };
                    match opened {
                        Ok(next) => window = next,
                        Err(error) => return ConsumeEnd::Lost(reason(&error)),
                    }
                }
                None => return ConsumeEnd::Lost(CANCELLED.to_owned()),
            }
        }

        self.finish_prefetched(source, &mut window).await;
        ConsumeEnd::Stopped
    }

    fn spawn_handler(&self, work: IncomingMessage, counted: CountedMessage) {
        let handler = Arc::clone(&self.handler);
        let expire = self.expire.clone();
        // Boxed: a task's beginning moves its future several times.
        self.handlers.spawn(Box::pin(async move {
            work.run(&*handler, &expire).await;
            drop(counted);
        }));
    }

    async fn take_in_order(
        &self,
        source: &Arc<SubscriptionChannel>,
        consumer: &mut lapin::Consumer,
    ) -> ConsumeEnd {
        let mut stopped = pin!(self.stop.cancelled());
        loop {
            // Dropping the wait loses nothing: a message stays in the consumer until it is taken.
            let next = tokio::select! {
                biased;
                () = &mut stopped => break,
                next = consumer.next() => next,
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
                self.return_prefetched(source, consumer).await;
                work.await;
                return ConsumeEnd::Stopped;
            }
        }

        self.return_prefetched(source, consumer).await;
        ConsumeEnd::Stopped
    }

    /// Cancels the consumer and handles what was handed out before. Of a channel that was lost,
    /// handlers may still have places; what finds none goes back to the queue.
    async fn finish_prefetched(&self, source: &Arc<SubscriptionChannel>, window: &mut Window) {
        let channel = source.channel();
        let cancel = channel.basic_cancel(window.consumer.tag(), BasicCancelOptions::default());
        let finish = async {
            while let Some(Ok(delivery)) = window.consumer.next().await {
                match Arc::clone(&self.permits).try_acquire_owned() {
                    Ok(permit) => {
                        let work = IncomingMessage::new(Arc::clone(source), delivery);
                        let counted = window.usage.count(permit, work.body_bytes(), &self.held);
                        self.spawn_handler(work, counted);
                    }
                    Err(_) => return_to_queue(channel, delivery.delivery_tag).await,
                }
            }
        };

        self.say_goodbye(async {
            let _ = join(cancel, finish).await;
        })
        .await;
    }

    /// Cancels the consumer and returns prefetched messages to the queue.
    async fn return_prefetched(
        &self,
        source: &SubscriptionChannel,
        consumer: &mut lapin::Consumer,
    ) {
        let channel = source.channel();
        let name = short_string(&queue::queue(&self.subscription.name));
        self.say_goodbye(async {
            if self.is_private() {
                // It would go with its consumer anyway; so it is gone for sure when this returns.
                let _ = channel.queue_delete(name, QueueDeleteOptions::default()).await;
            }

            let _ = channel.basic_cancel(consumer.tag(), BasicCancelOptions::default()).await;
            while let Some(Ok(delivery)) = consumer.next().await {
                return_to_queue(channel, delivery.delivery_tag).await;
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

/// The broker ends a consumer without an error when its queue is deleted.
const CANCELLED: &str = "the broker cancelled the consumer";
