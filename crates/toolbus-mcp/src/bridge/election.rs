//! Which bridge has which server: one at a time, elected by the broker.
//!
//! For each server there are two queues that hand messages to one consumer at a time. In the first
//! lies a message that says who has the server. Every bridge that has the server in its list
//! consumes that queue, and the one that is handed the message has the server: it puts its own in
//! the place of the last, runs the server, and takes its requests from the second queue. When it
//! dies, the broker hands the message to the next one.
//!
//! A bridge that loses its connection to the broker cannot know whether it still has the server. It
//! takes no more requests, and reads the message again when the broker is back. Where that names
//! itself, nobody had the server meanwhile, and its session goes on. Else the session is ended, so
//! that no caller meets one that others have gone past.

use std::collections::HashMap;
use std::num::NonZeroU16;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use toolbus_bus::responder::MultiQueueResponder;
use toolbus_bus::{
    Bus, Consumer, Delivery, Disposition, Envelope, Flow, Handler, PublishError, SubscribeError,
    Subscription, TopicPattern,
};
use toolbus_wire::message::mcp::McpServerOwner;
use toolbus_wire::name::{AgentName, InstanceId, McpServerSegment};
use toolbus_wire::{Topic, json, topic};

use crate::server_name::ServerName;
use crate::server_pool::ServerPool;

/// One message at a time says who has the server.
const ONE: NonZeroU16 = NonZeroU16::new(1).expect("1 is not zero");
/// The pause before a queue that was refused is tried again.
const RETRY_BACKOFF: Duration = Duration::from_secs(1);
/// The pause before a queue that was lost is tried again: requests wait in it.
const LOST_BACKOFF: Duration = Duration::from_millis(50);
/// How long a bridge that is back at the broker waits for the message before it takes the server
/// for another's.
const REELECTION_GRACE: Duration = Duration::from_secs(5);
/// How often the message is replaced while its bridge has the server: a broker closes the channel
/// of a consumer that holds one for half an hour.
const RENEW_INTERVAL: Duration = Duration::from_secs(600);

/// What a bridge stands for servers with.
#[derive(Clone)]
pub(super) struct ElectionDeps {
    pub(super) bus: Arc<dyn Bus>,
    pub(super) pool: ServerPool,
    pub(super) responder: Arc<MultiQueueResponder>,
    /// The agent that the bridges are named after.
    pub(super) agent: AgentName,
    pub(super) instance: InstanceId,
    /// The sender's name on messages.
    pub(super) source: String,
    /// How many requests of one server are handled at a time.
    pub(super) concurrency: NonZeroU16,
}

/// The elections that a bridge takes part in: one for each of its servers.
pub(super) struct Elections {
    stop: CancellationToken,
    /// How long requests that run may take once this has been stopped.
    grace: Arc<OnceLock<Duration>>,
    tasks: TaskTracker,
}

/// One bridge in the election for one server.
struct Candidate {
    deps: ElectionDeps,
    name: ServerName,
    owner_topic: Topic,
    request_topic: Topic,
    stop: CancellationToken,
    grace: Arc<OnceLock<Duration>>,
}

/// A message that says who has the server, for as long as it is held.
struct HeldMessage {
    id: String,
    instance: Option<String>,
    /// Acks the message.
    done: oneshot::Sender<()>,
}

/// Where an election stands, as one consumer of its queue sees it.
#[derive(Default)]
struct Standing {
    /// The id of the message that says that this bridge has the server, once it is published.
    own: Option<String>,
    /// Whether that message was handed to this bridge.
    is_elected: bool,
    held: Option<HeldMessage>,
    requests: Option<Consumer>,
}

impl Elections {
    /// Stands for every server of the pool, those that come later included.
    pub(super) fn start(deps: ElectionDeps) -> Self {
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let grace = Arc::new(OnceLock::new());
        let follower = ServerFollower {
            deps,
            stop: stop.clone(),
            grace: Arc::clone(&grace),
            standing: HashMap::new(),
        };
        tasks.spawn(follower.follow(tasks.clone()));
        Self { stop, grace, tasks }
    }

    /// Ends them, at the latest, when the guard is dropped.
    pub(super) fn stop_on_drop(&self) -> DropGuard {
        self.stop.clone().drop_guard()
    }

    /// Hands every server on, and waits up to `grace` for requests that run.
    pub(super) async fn stop(&self, grace: Duration) {
        // It stops once.
        let _ = self.grace.set(grace);
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Begins and ends elections as servers come and go.
struct ServerFollower {
    deps: ElectionDeps,
    stop: CancellationToken,
    grace: Arc<OnceLock<Duration>>,
    /// Each ends with its guard.
    standing: HashMap<ServerName, DropGuard>,
}

impl ServerFollower {
    async fn follow(mut self, tasks: TaskTracker) {
        let mut changed = self.deps.pool.change_signal();
        loop {
            changed.borrow_and_update();
            self.begin_and_end(&tasks);

            let changed = self.stop.run_until_cancelled(changed.changed()).await;
            if !matches!(changed, Some(Ok(()))) {
                return;
            }
        }
    }

    fn begin_and_end(&mut self, tasks: &TaskTracker) {
        let names = self.deps.pool.enabled_names();
        let pool = &self.deps.pool;
        self.standing.retain(|name, _| {
            let stays = names.contains(name);
            if !stays {
                pool.forget_ownership(name);
            }
            stays
        });

        for name in names {
            if self.standing.contains_key(&name) {
                continue;
            }
            let stop = self.stop.child_token();
            self.standing.insert(name.clone(), stop.clone().drop_guard());
            let segment = McpServerSegment::of(name.as_str());
            let candidate = Candidate {
                owner_topic: topic::mcp_owner(&self.deps.agent, &segment),
                request_topic: topic::mcp_server(&self.deps.agent, &segment),
                deps: self.deps.clone(),
                name,
                stop,
                grace: Arc::clone(&self.grace),
            };
            tasks.spawn(candidate.run());
        }
    }
}

impl Candidate {
    /// Stands again and again, until it is stopped.
    async fn run(self) {
        while !self.stop.is_cancelled() {
            let pause = match self.stand().await {
                Ok(()) => LOST_BACKOFF,
                Err(error) => {
                    tracing::debug!(server = %self.name, %error, "cannot stand for an MCP server");
                    RETRY_BACKOFF
                }
            };
            self.stop.run_until_cancelled(sleep(pause)).await;
        }
    }

    /// Stands once, until the queue is lost or this is stopped.
    async fn stand(&self) -> Result<(), SubscribeError> {
        if !self.deps.pool.elects_owners() {
            let requests = self.take_requests().await?;
            self.wait_lost(&requests).await;
            self.end(Some(requests)).await;
            return Ok(());
        }

        let (sender, mut messages) = mpsc::channel(1);
        let subscription = Subscription::single_active(
            self.owner_topic.as_str(),
            TopicPattern::from(self.owner_topic.clone()),
            Flow::Concurrent(ONE),
        );
        let subscribing = self.deps.bus.subscribe(subscription, Arc::new(OwnerMessages(sender)));
        let Some(consumer) = self.stop.run_until_cancelled(subscribing).await else {
            return Ok(());
        };
        let consumer = consumer?;

        let mut standing = Standing::default();
        self.hold_election(&consumer, &mut messages, &mut standing).await;
        // The next bridge is handed what this one holds; requests go to it once they are no longer
        // taken here.
        tokio::join!(self.end(standing.requests), consumer.kill());
        Ok(())
    }

    /// Takes part until the queue is lost or this is stopped.
    async fn hold_election(
        &self,
        consumer: &Consumer,
        messages: &mut mpsc::Receiver<HeldMessage>,
        standing: &mut Standing,
    ) {
        let reelected_by = Instant::now() + REELECTION_GRACE;
        let mut renew_at = Instant::now() + RENEW_INTERVAL;
        // Where nobody has had the server yet, there is no message in the queue without it.
        let mut standing_up = pin!(self.publish_owner(None));
        let mut stands = false;

        loop {
            let is_elected = standing.is_elected;
            let is_former = !is_elected && self.deps.pool.owns(&self.name);
            let requests_lost = async {
                match &standing.requests {
                    Some(requests) => requests.wait_stopped().await,
                    None if is_elected => sleep(RETRY_BACKOFF).await,
                    None => std::future::pending().await,
                }
            };

            // Every arm only waits.
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                () = consumer.wait_stopped() => return,
                published = &mut standing_up, if !stands => match published {
                    Ok(_) => stands = true,
                    Err(_) => return,
                },
                message = messages.recv() => {
                    let Some(message) = message else { return };
                    if !self.take_message(message, standing).await {
                        return;
                    }
                }
                () = sleep_until(reelected_by), if is_former => {
                    self.deps.pool.release(&self.name).await;
                }
                () = sleep_until(renew_at), if is_elected => {
                    renew_at = Instant::now() + RENEW_INTERVAL;
                    if !self.renew(standing).await {
                        return;
                    }
                }
                () = requests_lost => standing.requests = self.take_requests_or_warn().await,
            }
        }
    }

    /// Takes in a message of the queue, which nobody is handed but the one bridge that has the
    /// server. False when the broker is away.
    async fn take_message(&self, message: HeldMessage, standing: &mut Standing) -> bool {
        let is_own = |own: &String| *own == message.id;
        // Also of an earlier consumer: then nobody has had the server since, and there is nothing
        // to publish to a broker that may take no messages for now.
        let is_of_this_bridge = message.instance.as_deref() == Some(self.deps.instance.as_str());
        if standing.own.as_ref().map_or(is_of_this_bridge, is_own) {
            // Only now is it certain that the one before it is gone.
            standing.own = Some(message.id.clone());
            standing.held = Some(message);
            if !std::mem::replace(&mut standing.is_elected, true) {
                self.deps.pool.own(&self.name);
                standing.requests = self.take_requests_or_warn().await;
            }
            return true;
        }

        if standing.own.is_none() {
            if self.deps.pool.owns(&self.name) {
                // Others may have had it since: its session is not the one that callers know.
                self.deps.pool.release(&self.name).await;
            }
            let Ok(id) = self.publish_owner(Some(&self.deps.instance)).await else { return false };
            standing.own = Some(id);
        }

        // What it said is replaced. Whoever sent it may be gone.
        let _ = message.done.send(());
        true
    }

    /// Replaces the message that is held by a new one. False when the broker is away.
    async fn renew(&self, standing: &mut Standing) -> bool {
        let Ok(id) = self.publish_owner(Some(&self.deps.instance)).await else { return false };
        standing.own = Some(id);
        if let Some(held) = standing.held.take() {
            let _ = held.done.send(());
        }
        true
    }

    /// Puts a message into the queue that says who has the server, or, of nobody, that somebody
    /// stands for it; then there is one at least. Returns its id.
    async fn publish_owner(&self, instance: Option<&InstanceId>) -> Result<String, PublishError> {
        let owner = McpServerOwner { instance: instance.map(ToString::to_string) };
        let envelope = Envelope::of(&owner, self.deps.source.as_str());
        let id = envelope.message_id.clone();
        let publishing = self.deps.bus.publish(&self.owner_topic, envelope);
        match self.stop.run_until_cancelled(publishing).await {
            // A full queue has enough of them, of others that stand.
            Some(Err(PublishError::Refused(_))) if instance.is_none() => Ok(id),
            Some(published) => published.map(|()| id),
            None => Err(PublishError::Closed),
        }
    }

    async fn take_requests(&self) -> Result<Consumer, SubscribeError> {
        let subscription = Subscription::single_active(
            self.request_topic.as_str(),
            TopicPattern::from(self.request_topic.clone()),
            Flow::Concurrent(self.deps.concurrency),
        );
        self.deps.responder.take_requests(subscription).await
    }

    async fn take_requests_or_warn(&self) -> Option<Consumer> {
        match self.stop.run_until_cancelled(self.take_requests()).await? {
            Ok(requests) => Some(requests),
            Err(error) => {
                let server = &self.name;
                tracing::warn!(%server, %error, "cannot take the requests to an MCP server");
                None
            }
        }
    }

    async fn wait_lost(&self, requests: &Consumer) {
        self.stop.run_until_cancelled(requests.wait_stopped()).await;
    }

    /// Takes no more requests. Those that run go on, also those to a server that was removed; a
    /// stop of the bridge waits for them for its grace.
    async fn end(&self, requests: Option<Consumer>) {
        if let (Some(requests), Some(grace)) = (requests, self.grace.get()) {
            requests.stop(*grace).await;
        }
    }
}

/// Hands the messages of an election's queue on, and holds each until it is done with.
struct OwnerMessages(mpsc::Sender<HeldMessage>);

impl Handler for OwnerMessages {
    fn handle(&self, delivery: Delivery) -> BoxFuture<'_, Disposition> {
        Box::pin(async move {
            let id = delivery.envelope.message_id;
            let Ok(owner) = json::read::<McpServerOwner>(&delivery.envelope.body) else {
                tracing::warn!("dropped a malformed message on who has an MCP server");
                return Disposition::Ack;
            };

            let (done, is_done) = oneshot::channel();
            let message = HeldMessage { id, instance: owner.instance, done };
            if self.0.send(message).await.is_ok() && is_done.await.is_ok() {
                return Disposition::Ack;
            }
            // It is given back when the consumer ends, which it is about to.
            std::future::pending().await
        })
    }
}
