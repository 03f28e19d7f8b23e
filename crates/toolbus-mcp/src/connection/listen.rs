//! Hears of changed lists from servers of the era without sessions, which tell those only who ask.
//!
//! The request stays open for as long as the connection is used. What is told on it the tap takes,
//! as it takes what servers of the older era tell unasked.

use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

use rmcp::model::{ErrorCode, ProtocolVersion, SubscriptionFilter};
use rmcp::service::ServiceError;
use tokio::time::{Instant, sleep};

use super::Connection;

/// How soon a subscription that ended is asked for again.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// The longest pause between two. One that held longer starts the pauses anew.
const PAUSE_MAX: Duration = Duration::from_secs(60);

impl Connection {
    /// Asks to be told of changed lists, again and again. Dropped, it asks no more.
    pub(crate) async fn hear_of_tools(&self) -> Infallible {
        if !self.tells_who_asks() {
            return pending().await;
        }
        let mut pause = PAUSE_MIN;
        loop {
            let began = Instant::now();
            // Boxed: it is large, and part of the future that keeps a server.
            match Box::pin(self.subscribe()).await {
                Ok(()) => {}
                Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => {
                    return pending().await;
                }
                Err(error) => tracing::debug!(server = self.server, %error, "no subscription"),
            }
            if began.elapsed() > PAUSE_MAX {
                pause = PAUSE_MIN;
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
            // What changed meanwhile nobody tells.
            self.wire.tools_changed.notify_one();
        }
    }

    async fn subscribe(&self) -> Result<(), ServiceError> {
        // Of these, it takes those that it has.
        let filter = SubscriptionFilter::builder()
            .tools_list_changed()
            .prompts_list_changed()
            .resources_list_changed()
            .build();
        let mut subscription = self.peer.listen(filter).await?;
        while subscription.next().await?.is_some() {}
        Ok(())
    }

    fn tells_who_asks(&self) -> bool {
        self.peer.peer_info().is_some_and(|server| {
            let tools = server.capabilities.tools.as_ref().and_then(|has| has.list_changed);
            let prompts = server.capabilities.prompts.as_ref().and_then(|has| has.list_changed);
            let resources = server.capabilities.resources.as_ref().and_then(|has| has.list_changed);
            server.protocol_version >= ProtocolVersion::V_2026_07_28
                && [tools, prompts, resources].contains(&Some(true))
        })
    }
}
