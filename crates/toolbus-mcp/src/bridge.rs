//! The bridge: a set of MCP servers behind the bus.
//!
//! It answers tool calls and management requests, and announces its servers to agents, again when
//! one asks. What it announces are deltas, in order, to the agents that it is
//! configured for and to those that have asked.

mod announce;
mod election;
mod elsewhere;
mod fleet_listener;
mod invoke_service;
mod manage;
mod relay_service;
mod server_requests;
mod subscribe_service;

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::DropGuard;
use toolbus_bus::responder::{LARGE_REQUESTS_BYTES, Listen, MultiQueueResponder, Responder};
use toolbus_bus::{Bus, Flow, SubscribeError, Topic};
use toolbus_mcp_agent::AnnouncedServers;
use toolbus_tools::{CallError, GrantCheck};
use toolbus_wire::name::{self, AgentName, InstanceId, McpServerSegment};
use toolbus_wire::{ErrorCode, Execution, queue, topic};

use crate::registration_rules::RegistrationRules;
use crate::server::{LOOKUPS_PER_SERVER_MAX, SUBSCRIPTIONS_PER_SERVER_MAX};
use crate::server_pool::ServerPool;
use announce::Announcer;
use election::{ElectionDeps, Elections};
use elsewhere::Elsewhere;
use fleet_listener::FleetListener;
use server_requests::ServerRequests;

/// How refresh requests are read. They are small; a stranger's message may be large.
pub const REFRESH_FLOW: Flow = Flow::Ordered { prefetch: PREFETCH };
const PREFETCH: NonZeroU16 = NonZeroU16::new(2).expect("2 is not zero");
/// How many management requests run at a time. A prompt or a resource may wait for its server, or
/// for a person, so one server has a quarter of them at most.
const MANAGE_CONCURRENCY: NonZeroU16 =
    NonZeroU16::new(4 * LOOKUPS_PER_SERVER_MAX).expect("128 is not zero");
/// How many requests of all servers run at a time that are no calls of tools, for each call that
/// may: lookups, and subscriptions that hold.
const fn of_servers(concurrency: NonZeroU16) -> NonZeroU16 {
    let others = 4 * (LOOKUPS_PER_SERVER_MAX + SUBSCRIPTIONS_PER_SERVER_MAX);
    concurrency.saturating_add(others)
}

/// How many calls each responder of a bridge runs at a time that runs so many calls of tools.
#[must_use]
pub const fn responders(concurrency: NonZeroU16) -> [NonZeroU16; 3] {
    [concurrency, of_servers(concurrency), MANAGE_CONCURRENCY]
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
    manage: Responder,
    servers: Arc<MultiQueueResponder>,
    elections: Elections,
    listener: FleetListener,
    announcer: Arc<Announcer>,
    /// Whoever drops a bridge instead of stopping it leaves no server running.
    _working: [DropGuard; 2],
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
        let Options { agents, instance, concurrency, registration, grants } = options;
        let announced = Arc::new(AnnouncedServers::new(instance.clone()));
        let elsewhere = Elsewhere { agent: agent.clone(), announced: Arc::clone(&announced) };
        let announcer = Announcer::new(
            Arc::clone(bus),
            set.clone(),
            announce::AnnouncerNames {
                source: source.clone(),
                agent: agent.clone(),
                instance: instance.clone(),
                agents,
            },
        );

        let listen = |topic: Topic, subscription, concurrency| Listen {
            topic,
            subscription,
            instance: instance.clone(),
            concurrency,
            large_requests_bytes: LARGE_REQUESTS_BYTES,
        };
        let services = ServerRequests::new(&set, &elsewhere, &source, registration, &grants);

        let manage = Responder::start(
            Arc::clone(bus),
            listen(topic::MCP_MANAGE, queue::mcp_bridge_manage(&agent), MANAGE_CONCURRENCY),
            services.manage.clone(),
        )
        .await?;

        let listener =
            FleetListener::start(bus, &agent, &instance, Arc::clone(&announcer), announced).await?;

        let invoke = Responder::start(
            Arc::clone(bus),
            listen(topic::TOOL_INVOKE_MCP, queue::mcp_bridge_invoke(&agent), concurrency),
            services.invoke.clone(),
        )
        .await?;

        let of_any_server = topic::mcp_server(&agent, &McpServerSegment::of("any"));
        let servers = MultiQueueResponder::start(
            Arc::clone(bus),
            listen(of_any_server, queue::mcp_bridge_servers(&agent), of_servers(concurrency)),
            services,
        )
        .await?;
        let servers = Arc::new(servers);
        let elections = Elections::start(ElectionDeps {
            bus: Arc::clone(bus),
            pool: set.clone(),
            responder: Arc::clone(&servers),
            agent,
            instance,
            source,
            concurrency: set.requests_per_server_max(),
        });

        // Last: an agent that hears of a server may call it at once.
        announcer.follow_changes();

        let _working = [announcer.stop_on_drop(), elections.stop_on_drop()];
        Ok(Self { set, invoke, manage, servers, elections, listener, announcer, _working })
    }

    /// The servers.
    #[must_use]
    pub fn servers(&self) -> &ServerPool {
        &self.set
    }

    /// Takes no more requests, waits up to `grace` for calls that run, and ends every server.
    pub async fn stop(self, grace: Duration) {
        // The announcer is first, and ends at once: an agent that learns of a server calls it, and
        // no consumer might take the call.
        tokio::join!(
            self.announcer.stop(),
            self.listener.stop(),
            self.invoke.stop(grace),
            self.elections.stop(grace),
        );
        self.manage.stop(Duration::ZERO).await;
        // The elections had the others.
        if let Ok(servers) = Arc::try_unwrap(self.servers) {
            servers.stop().await;
        }
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
