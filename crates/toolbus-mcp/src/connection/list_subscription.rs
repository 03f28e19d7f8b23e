//! Subscribes to changed lists at servers of the era without sessions, which report them only to
//! subscribers.
//!
//! The request stays open for as long as the connection is used. What arrives on it the intercepted
//! transport takes, as it takes what servers of the older era report unasked.

use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

use rmcp::model::{ErrorCode, ProtocolVersion, SubscriptionFilter};
use rmcp::service::ServiceError;
use tokio::time::{Instant, sleep};

use super::request_sender::RequestSender;

/// How soon a subscription that ended is requested again.
const RESUBSCRIBE_BACKOFF: Duration = Duration::from_secs(1);
/// The longest pause between two. A subscription that lasted longer resets the backoff.
const RESUBSCRIBE_BACKOFF_MAX: Duration = Duration::from_secs(60);

/// Keeps a subscription to changed lists open. Dropped, it ends the subscription.
pub(super) async fn subscribe_to_list_changes(sender: &RequestSender) -> Infallible {
    if !reports_to_subscribers(sender) {
        return pending().await;
    }

    let mut backoff = RESUBSCRIBE_BACKOFF;
    loop {
        let began = Instant::now();
        // Boxed: it is large, and part of the future that keeps a server connected.
        match Box::pin(hold_subscription(sender)).await {
            Ok(()) => {}
            Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => {
                return pending().await;
            }
            Err(error) => tracing::debug!(
                server = sender.server, %error, "subscription to changed lists failed"
            ),
        }

        if began.elapsed() > RESUBSCRIBE_BACKOFF_MAX {
            backoff = RESUBSCRIBE_BACKOFF;
        }
        sleep(backoff).await;
        backoff = (backoff * 2).min(RESUBSCRIBE_BACKOFF_MAX);
        // No one was subscribed to changes in the meantime.
        sender.wire.tools_changed.notify_one();
    }
}

/// Subscribes, and returns when the server ends the subscription.
async fn hold_subscription(sender: &RequestSender) -> Result<(), ServiceError> {
    // The server takes those of these that it has.
    let filter = SubscriptionFilter::builder()
        .tools_list_changed()
        .prompts_list_changed()
        .resources_list_changed()
        .build();

    let mut subscription = sender.peer.listen(filter).await?;
    while subscription.next().await?.is_some() {}
    Ok(())
}

/// Whether the server reports changed lists, and to subscribers only.
fn reports_to_subscribers(sender: &RequestSender) -> bool {
    sender.server_info().is_some_and(|server| {
        let tools = server.capabilities.tools.as_ref().and_then(|has| has.list_changed);
        let prompts = server.capabilities.prompts.as_ref().and_then(|has| has.list_changed);
        let resources = server.capabilities.resources.as_ref().and_then(|has| has.list_changed);

        server.protocol_version >= ProtocolVersion::V_2026_07_28
            && [tools, prompts, resources].contains(&Some(true))
    })
}
