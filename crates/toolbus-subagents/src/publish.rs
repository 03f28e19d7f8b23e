//! Publishing what is good to know of subagents, and is not missed where nobody hears it.

use std::time::Duration;

use jiff::Timestamp;
use toolbus_bus::{Bus, Envelope, PublishError, Topic};
use toolbus_wire::message::subagent::{SubagentProgressMessage, SubagentResultMessage};
use toolbus_wire::{Message, topic};

use crate::scope::subagent_session;
use crate::{SubagentChange, SubagentEvent};

/// How long it waits for those who hear it.
const NOTICE_TTL: Duration = Duration::from_secs(10 * 60);
/// How long publishing it may take.
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(1);

/// Publishes an event for whoever listens.
pub(crate) async fn publish_event(bus: &dyn Bus, event: &SubagentEvent) {
    let SubagentEvent { id, owner, what, .. } = event;
    let (task_id, primary_session_id) = (id.clone(), owner.session.to_string());
    let session = subagent_session(id);
    let subagent_session_id = session.map(|session| session.to_string()).unwrap_or_default();
    let timestamp = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6f+00:00").to_string();

    match what.clone() {
        SubagentChange::Progress { message } => {
            let message = SubagentProgressMessage {
                task_id,
                subagent_session_id,
                primary_session_id,
                message,
                timestamp,
            };
            publish(bus, event, &topic::SUBAGENT_PROGRESS, &message).await;
        }
        SubagentChange::Ended { text, is_success, error } => {
            let message = SubagentResultMessage {
                task_id,
                subagent_session_id,
                primary_session_id,
                output: text,
                is_success,
                error,
                timestamp,
            };
            publish(bus, event, &topic::SUBAGENT_RESULT, &message).await;
        }
    }
}

async fn publish<T: Message>(bus: &dyn Bus, event: &SubagentEvent, topic: &Topic, message: &T) {
    let envelope = Envelope::of(message, event.owner.agent.as_str())
        .with_correlation_id(&event.id)
        .with_expiry(NOTICE_TTL);
    match tokio::time::timeout(PUBLISH_TIMEOUT, bus.publish(topic, envelope)).await {
        Ok(Ok(()) | Err(PublishError::Unroutable(_))) => {}
        Ok(Err(error)) => {
            tracing::debug!(%topic, %error, "could not publish what became of a subagent");
        }
        Err(_) => tracing::debug!(%topic, "could not publish what became of a subagent in time"),
    }
}
