//! Publishing what somebody waits for.

use std::time::Duration;

use futures_util::future::BoxFuture;
use toolbus_bus::{Bus, Envelope, PublishError, Topic};
use toolbus_wire::message::a2a::{AgentMessage, AgentTaskState, AgentTaskStatusUpdate, ROLE_AGENT};
use toolbus_wire::name::AgentName;
use toolbus_wire::topic;

use crate::TaskProgress;

/// Between two attempts.
const PUBLISH_BACKOFF: Duration = Duration::from_secs(1);
/// How often it is attempted. What is in the store is attempted again later.
const ATTEMPTS_MAX: u32 = 5;
/// How long what agents say of themselves and of tasks waits for those who hear it.
const NOTICE_TTL: Duration = Duration::from_secs(10 * 60);

/// Publishes a message, again where an outage may have swallowed it: whoever gets it bears that it
/// comes twice.
pub(crate) async fn publish_again(
    bus: &dyn Bus,
    topic: &Topic,
    envelope: Envelope,
) -> Result<(), PublishError> {
    for attempt in 1.. {
        match bus.publish(topic, envelope.clone()).await {
            Err(PublishError::Unavailable(_) | PublishError::Unconfirmed)
                if attempt < ATTEMPTS_MAX =>
            {
                tokio::time::sleep(PUBLISH_BACKOFF).await;
            }
            published => return published,
        }
    }
    Ok(())
}

/// Publishes what is good to know, and is not missed where nobody hears it.
pub(crate) async fn publish_notice(bus: &dyn Bus, topic: &Topic, envelope: Envelope) -> bool {
    match bus.publish(topic, envelope.with_expiry(NOTICE_TTL)).await {
        Ok(()) | Err(PublishError::Unroutable(_)) => true,
        Err(error) => {
            tracing::debug!(%topic, %error, "could not publish a notice");
            false
        }
    }
}

/// Tells how a task is going to whoever hears it.
pub(crate) struct BusProgress<'a> {
    pub(crate) bus: &'a dyn Bus,
    pub(crate) agent: &'a AgentName,
    pub(crate) task_id: String,
    pub(crate) context_id: Option<String>,
}

impl BusProgress<'_> {
    pub(crate) async fn publish(&self, message: Option<AgentMessage>) {
        let status = AgentTaskStatusUpdate {
            task_id: self.task_id.clone(),
            context_id: self.context_id.clone(),
            state: AgentTaskState::Working,
            message,
        };
        let envelope =
            Envelope::of(&status, self.agent.as_str()).with_correlation_id(&self.task_id);
        publish_notice(self.bus, &topic::AGENT_TASK_STATUS, envelope).await;
    }
}

impl TaskProgress for BusProgress<'_> {
    fn say<'a>(&'a self, text: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(self.publish(Some(AgentMessage::of_text(ROLE_AGENT, text))))
    }
}
