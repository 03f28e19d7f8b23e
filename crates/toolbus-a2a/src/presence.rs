//! What makes agents know each other: announcements, heard and made.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolbus_bus::{
    Bus, Consumer, Delivery, Disposition, Envelope, Flow, SubscribeError, Subscription,
    TopicPattern,
};
use toolbus_wire::message::a2a::{AgentCard, AgentDiscoveryRequest};
use toolbus_wire::name::{AgentName, InstanceId};
use toolbus_wire::{message, queue, topic};

use crate::metrics::{self, observe_agents};
use crate::publish::publish_notice;
use crate::{A2aConfig, Directory};

/// Announcements, and requests for them.
const EVERYTHING: &str = "discovery.*";
/// Announcements that are fetched ahead.
pub(crate) const ANNOUNCEMENTS_FLOW: Flow = Flow::Ordered { prefetch: NonZeroU16::MIN };
/// Until an announcement is tried again that could not be made.
const ANNOUNCE_BACKOFF: Duration = Duration::from_secs(5);
/// How long a farewell may take.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(2);

/// Hears announcements, and makes them, until it is closed.
pub struct Presence {
    consumer: Consumer,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// What that takes.
pub struct PresenceDeps {
    /// The bus.
    pub bus: Arc<dyn Bus>,
    /// The name that the agent has on it.
    pub agent: AgentName,
    /// This process.
    pub instance: InstanceId,
    /// What is announced, and how often.
    pub config: Arc<A2aConfig>,
    /// Who is known.
    pub directory: Directory,
}

impl Presence {
    /// Reads the directory, and begins to hear and to announce. It is to be started once there is
    /// somebody who does the tasks that follow.
    ///
    /// # Errors
    /// When the queue cannot be had.
    pub async fn start(deps: PresenceDeps) -> Result<Self, SubscribeError> {
        if let Err(error) = deps.directory.load().await {
            tracing::warn!(error = error.as_dyn(), "could not read the directory of agents");
        }
        observe_agents(deps.directory.counter(), &metrics::meter());

        let name = queue::discovery(&deps.agent, &deps.instance);
        let pattern = TopicPattern::parse(EVERYTHING).expect("a pattern");
        let directory = deps.directory.clone();
        let newcomer = Arc::new(Notify::new());
        let heard = Arc::clone(&newcomer);
        let handler = move |delivery| hear(directory.clone(), Arc::clone(&heard), delivery);
        let private = Subscription::private(name, pattern, ANNOUNCEMENTS_FLOW);
        let consumer = deps.bus.subscribe(private, Arc::new(handler)).await?;
        deps.directory.begin_to_hear();
        let agent_name = deps.agent.to_string();
        let request = Envelope::of(&AgentDiscoveryRequest { agent_name }, deps.agent.as_str());
        publish_notice(&*deps.bus, &topic::DISCOVERY_REQUEST, request).await;

        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        if let Some(card) = deps.config.card.clone() {
            let card = AgentCard { agent_name: deps.agent.to_string(), ..card };
            tasks.spawn(announce(deps, card, newcomer, stop.clone()));
        }
        tasks.close();
        Ok(Self { consumer, stop, tasks })
    }

    /// Says that the agent goes, and hears no more. It is to be closed before the worker is.
    pub async fn close(self) {
        self.stop.cancel();
        self.tasks.wait().await;
        self.consumer.stop(Duration::ZERO).await;
    }
}

async fn hear(directory: Directory, newcomer: Arc<Notify>, delivery: Delivery) -> Disposition {
    if message::is::<AgentDiscoveryRequest>(&delivery.envelope) {
        newcomer.notify_one();
        return Disposition::Ack;
    }
    match directory.hear(&delivery.envelope).await {
        // It may have begun to listen after the last announcement.
        Ok(true) => newcomer.notify_one(),
        Ok(false) => {}
        Err(error) => tracing::warn!(%error, "an announcement of an agent is not taken"),
    }
    Disposition::Ack
}

async fn announce(
    deps: PresenceDeps,
    card: AgentCard,
    newcomer: Arc<Notify>,
    stop: CancellationToken,
) {
    let envelope_of = |is_deregistering| {
        let card = AgentCard { is_deregistering, ..card.clone() };
        Envelope::of(&card, deps.agent.as_str())
    };
    loop {
        let present = envelope_of(false);
        let is_heard = publish_notice(&*deps.bus, &topic::DISCOVERY_ANNOUNCE, present).await;
        let wait = if is_heard { deps.config.announce_interval } else { ANNOUNCE_BACKOFF };
        // However many come, they are told together.
        let told_newcomers = async {
            tokio::time::sleep(deps.config.announce_pace).await;
            newcomer.notified().await;
        };
        // Every arm only waits.
        tokio::select! {
            () = stop.cancelled() => break,
            () = tokio::time::sleep(wait) => {}
            () = told_newcomers => {}
        }
    }

    let topic = topic::DISCOVERY_ANNOUNCE;
    let farewell = publish_notice(&*deps.bus, &topic, envelope_of(true));
    if tokio::time::timeout(FAREWELL_TIMEOUT, farewell).await.is_err() {
        tracing::debug!("could not say that the agent goes");
    }
}
