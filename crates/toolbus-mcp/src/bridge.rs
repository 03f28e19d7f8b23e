//! The bridge: a set of MCP servers behind the bus.
//!
//! It answers tool calls and management requests, and announces its servers to agents, again when
//! one asks. What it announces are deltas, in order, to the agents that it is
//! configured for and to those that have asked.

mod announce;
mod invoke_service;
mod manage;
mod relay_service;
mod subscribe_service;

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::DropGuard;
use toolbus_bus::responder::{Listen, Responder};
use toolbus_bus::{
    Bus, Consumer, Delivery, Flow, SubscribeError, Subscription, Topic, TopicPattern,
};
use toolbus_tools::{CallError, GrantCheck};
use toolbus_wire::name::{self, AgentName, InstanceId};
use toolbus_wire::{ErrorCode, Execution, queue, topic};

use crate::registration_rules::RegistrationRules;
use crate::server::{LOOKUPS_PER_SERVER_MAX, SUBSCRIPTIONS_PER_SERVER_MAX};
use crate::server_pool::ServerPool;
use announce::Announcer;

/// How refresh requests are read. They are small; a stranger's message may be large.
pub const REFRESH_FLOW: Flow = Flow::Ordered { prefetch: PREFETCH };
const PREFETCH: NonZeroU16 = NonZeroU16::new(2).expect("2 is not zero");
/// How many management requests run at a time. A prompt or a resource may wait for its server, or
/// for a person, so one server has a quarter of them at most.
const MANAGE_CONCURRENCY: NonZeroU16 =
    NonZeroU16::new(4 * LOOKUPS_PER_SERVER_MAX).expect("128 is not zero");
/// How many subscriptions of resources hold at a time; of one server, a quarter of them at most.
const SUBSCRIPTIONS_MAX: NonZeroU16 =
    NonZeroU16::new(4 * SUBSCRIPTIONS_PER_SERVER_MAX).expect("512 is not zero");

/// How many calls each responder of a bridge runs at a time that runs so many calls of tools.
#[must_use]
pub const fn responders(concurrency: NonZeroU16) -> [NonZeroU16; 4] {
    [concurrency, concurrency, MANAGE_CONCURRENCY, SUBSCRIPTIONS_MAX]
}

/// The options of a bridge.
#[derive(Debug, Clone)]
pub struct Options {
    /// The agents that servers are announced to. The first names the bridge's queues.
    pub agents: Vec<AgentName>,
    /// This process.
    pub instance: InstanceId,
    /// How many calls run at a time, over all servers, and how many requests of MCP clients beside
    /// them. More wait in the queue, so it should be well over
    /// [`crate::server_pool::PoolConfig::calls_per_server_max`].
    pub concurrency: NonZeroU16,
    /// What agents may register. Its word on private addresses is to be that of
    /// [`crate::server_pool::PoolConfig::private_registration`].
    pub registration: RegistrationRules,
    /// Which requests need a grant.
    pub grants: GrantCheck,
}

/// A bridge at work. Stop it with [`Bridge::stop`].
pub struct Bridge {
    set: ServerPool,
    invoke: Responder,
    relay: Responder,
    manage: Responder,
    subscribe: Responder,
    refresh: Consumer,
    announcer: Arc<Announcer>,
    /// Whoever drops a bridge instead of stopping it leaves no server running.
    _announcing: DropGuard,
}

impl Bridge {
    /// Starts to serve the servers of a set, and to announce them to its agents.
    ///
    /// # Errors
    /// When a queue cannot be subscribed to.
    pub async fn start(
        bus: &Arc<dyn Bus>,
        set: ServerPool,
        options: Options,
    ) -> Result<Self, SubscribeError> {
        let agent = options.agents.first().cloned().unwrap_or_else(AgentName::standard);
        let source = name::mcp_bridge(&agent);
        let announcer =
            Announcer::new(Arc::clone(bus), set.clone(), source.clone(), options.agents);
        let listen = |topic: Topic, subscription, concurrency| Listen {
            topic,
            subscription,
            instance: options.instance.clone(),
            concurrency,
        };

        let manage = Responder::start(
            Arc::clone(bus),
            listen(topic::MCP_MANAGE, queue::mcp_bridge_manage(&agent), MANAGE_CONCURRENCY),
            manage::ManageService {
                set: set.clone(),
                source: source.clone(),
                registration: options.registration,
                grants: options.grants.clone(),
            },
        )
        .await?;

        let subscribe = Responder::start(
            Arc::clone(bus),
            listen(topic::MCP_SUBSCRIBE, queue::mcp_bridge_subscribe(&agent), SUBSCRIPTIONS_MAX),
            subscribe_service::SubscribeService {
                set: set.clone(),
                source: source.clone(),
                grants: options.grants.clone(),
            },
        )
        .await?;

        let subscription = Subscription::durable(
            queue::mcp_bridge_refresh(&agent),
            TopicPattern::from(topic::TOOL_META_MCP_REFRESH),
            REFRESH_FLOW,
        );
        let refreshed = Arc::clone(&announcer);
        let on_refresh =
            move |delivery: Delivery| Arc::clone(&refreshed).handle_refresh(delivery.envelope);
        let refresh = bus.subscribe(subscription, Arc::new(on_refresh)).await?;

        let relay = Responder::start(
            Arc::clone(bus),
            listen(topic::MCP_RELAY, queue::mcp_bridge_relay(&agent), options.concurrency),
            relay_service::RelayService {
                set: set.clone(),
                source: source.clone(),
                grants: options.grants.clone(),
            },
        )
        .await?;

        let invoke = Responder::start(
            Arc::clone(bus),
            listen(topic::TOOL_INVOKE_MCP, queue::mcp_bridge_invoke(&agent), options.concurrency),
            invoke_service::InvokeService {
                set: set.clone(),
                agent,
                source,
                grants: options.grants,
            },
        )
        .await?;

        // Last: an agent that hears of a server may call it at once.
        announcer.follow_changes();

        let _announcing = announcer.stop_on_drop();
        Ok(Self { set, invoke, relay, manage, subscribe, refresh, announcer, _announcing })
    }

    /// The servers.
    #[must_use]
    pub fn servers(&self) -> &ServerPool {
        &self.set
    }

    /// Takes no more requests, waits up to `grace` for calls that run, and ends every server.
    pub async fn stop(self, grace: Duration) {
        tokio::join!(self.invoke.stop(grace), self.relay.stop(grace));
        tokio::join!(
            self.manage.stop(Duration::ZERO),
            self.subscribe.stop(Duration::ZERO),
            self.refresh.stop(Duration::ZERO),
        );
        self.announcer.stop().await;
        self.set.close(Duration::from_secs(2)).await;
    }
}

/// The code and text by which a response refuses a request that has no valid grant. A response has
/// no member for `execution`: its caller has that from the code.
fn refusal_of(error: CallError) -> (ErrorCode, String) {
    if error.execution == Execution::Unknown {
        let text = format!("another bridge may have started the request, and {}", error.message);
        (ErrorCode::OutcomeUnknown, text)
    } else {
        (error.code, error.message)
    }
}
