//! What a bridge hears beside requests: agents that ask which servers there are, and what other
//! bridges have.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolbus_bus::{
    Bus, Consumer, Delivery, Disposition, Envelope, Handler, SubscribeError, Subscription,
    TopicPattern,
};
use toolbus_mcp_agent::{ANNOUNCEMENT_FLOW, AnnouncedServers};
use toolbus_wire::message::mcp::McpMetadataRefreshRequest;
use toolbus_wire::name::{AgentName, InstanceId};
use toolbus_wire::{queue, topic};

use super::REFRESH_FLOW;
use super::announce::Announcer;

/// The queues that are listened to.
pub(super) struct FleetListener {
    consumers: [Consumer; 3],
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl FleetListener {
    /// Starts to listen, and asks the other bridges what they have.
    pub(super) async fn start(
        bus: &Arc<dyn Bus>,
        agent: &AgentName,
        instance: &InstanceId,
        announcer: Arc<Announcer>,
        announced: Arc<AnnouncedServers>,
    ) -> Result<Self, SubscribeError> {
        let refresh = Arc::new(RefreshRequests(announcer));
        let pattern = TopicPattern::from(topic::TOOL_META_MCP_REFRESH);
        // Every bridge answers for what it has. The queue that they share is the C# code's: what is
        // in it has been asked while no bridge was there.
        let shared =
            Subscription::durable(queue::mcp_bridge_refresh(agent), pattern.clone(), REFRESH_FLOW);
        let shared = bus.subscribe(shared, Arc::clone(&refresh) as Arc<dyn Handler>).await?;
        let own = queue::mcp_bridge_refresh_of(agent, instance);
        let own = Subscription::private(own, pattern, REFRESH_FLOW);
        let own = bus.subscribe(own, refresh).await?;

        let resubscribed = Arc::new(Notify::new());
        let others = Subscription::private(
            queue::mcp_bridge_announced(agent, instance),
            TopicPattern::from(topic::tool_meta_mcp(agent)),
            ANNOUNCEMENT_FLOW,
        );
        let announcements = Announcements { announced, resubscribed: Arc::clone(&resubscribed) };
        let others = bus.subscribe(others, Arc::new(announcements)).await?;

        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let names = BridgeNames { agent: agent.clone(), instance: instance.clone() };
        tasks.spawn(ask_others(Arc::clone(bus), names, resubscribed, stop.clone()));
        Ok(Self { consumers: [shared, own, others], stop, tasks })
    }

    pub(super) async fn stop(self) {
        self.stop.cancel();
        for consumer in self.consumers {
            consumer.stop(Duration::ZERO).await;
        }
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Who asks the other bridges.
struct BridgeNames {
    /// The agent that the bridges are named after.
    agent: AgentName,
    instance: InstanceId,
}

/// Asks for what was announced before one could hear it, now and after each outage.
async fn ask_others(
    bus: Arc<dyn Bus>,
    names: BridgeNames,
    resubscribed: Arc<Notify>,
    stop: CancellationToken,
) {
    let BridgeNames { agent, instance } = names;
    loop {
        // As the agent that the bridges are named after: what it is told is heard here too.
        let request =
            McpMetadataRefreshRequest { server_name: None, bridge: Some(instance.to_string()) };
        let envelope = Envelope::of(&request, agent.as_str());
        let topic = topic::TOOL_META_MCP_REFRESH;
        let asking = bus.publish(&topic, envelope);
        if let Some(Err(error)) = stop.run_until_cancelled(asking).await {
            tracing::debug!(%error, "could not ask other bridges for their servers");
        }

        if stop.run_until_cancelled(resubscribed.notified()).await.is_none() {
            return;
        }
    }
}

struct RefreshRequests(Arc<Announcer>);

impl Handler for RefreshRequests {
    fn handle(&self, delivery: Delivery) -> BoxFuture<'_, Disposition> {
        Box::pin(Arc::clone(&self.0).handle_refresh(delivery.envelope))
    }
}

struct Announcements {
    announced: Arc<AnnouncedServers>,
    resubscribed: Arc<Notify>,
}

impl Handler for Announcements {
    fn handle(&self, delivery: Delivery) -> BoxFuture<'_, Disposition> {
        self.announced.take(&delivery.envelope);
        Box::pin(std::future::ready(Disposition::Ack))
    }

    fn on_resubscribed(&self) {
        self.resubscribed.notify_one();
    }
}
