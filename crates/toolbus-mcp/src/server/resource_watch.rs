//! Subscriptions of resources of one server, as a caller holds them.

use std::convert::Infallible;

use rmcp::service::ServiceError;
use serde_json::Map;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use toolbus_bus::{CallContext, Progress};
use toolbus_wire::message::toolbus::ToolProgress;

use super::Server;
use super::call_limits::{CallBudget, RequestClass};
use crate::call::{Call, CallError};
use crate::connection::CallFailure;
use crate::connection::resource_subscription::ResourceChange;
use crate::failure::Failure;
use crate::lookup::{Lookup, URI_BYTES_MAX};

/// Most resources of one subscription.
const URIS_MAX: usize = 256;

impl Server {
    /// Reports changes of resources as progress, until the time is over, the caller cancels, or the
    /// connection is lost. The first progress says that they are subscribed to.
    pub(crate) async fn watch_resources(
        &self,
        lookup: Lookup,
        uris: &[String],
        progress: &Progress,
    ) -> Result<Infallible, CallError> {
        if uris.len() > URIS_MAX || uris.iter().any(|uri| uri.len() > URI_BYTES_MAX) {
            let message = format!(
                "a subscription has at most {URIS_MAX} resources, with at most {URI_BYTES_MAX} bytes"
            );
            return Err(CallError::InvalidArguments { message, server_error: None });
        }

        let Lookup { server, context, .. } = lookup;
        let CallContext { deadline, cancelled, .. } = context;
        let call = Call::new(Some(&server), "resources/subscribe", Map::new(), deadline);
        let budget = CallBudget::of(deadline);
        let _permit = self.try_admit(RequestClass::Subscription, &call, budget)?;

        let ended = tokio::select! {
            ended = self.forward_changes(uris, progress, &cancelled, budget.until) => ended,
            () = cancelled.cancelled() => Err(CallFailure::Cancelled),
            () = self.stop.cancelled() => Err(CallFailure::closed()),
            () = sleep_until(budget.until) => Err(CallFailure::TimedOut),
        };
        ended.map_err(|failed| self.call_error(&call, failed, budget))
    }

    async fn forward_changes(
        &self,
        uris: &[String],
        progress: &Progress,
        cancelled: &CancellationToken,
        until: Instant,
    ) -> Result<Infallible, CallFailure> {
        let connection = self.acquire_connection(cancelled, until).await?;
        let failed = |error| match error {
            ServiceError::McpError(error) => connection.json_rpc_failure(&error),
            other => CallFailure::NotSent(Failure::request(&other, connection.eraser())),
        };

        let subscribing = Box::pin(connection.subscribe_to_resources(uris));
        let mut subscription = subscribing.await.map_err(failed)?;
        progress.send(ToolProgress {
            message: Some("subscribed".to_owned()),
            ..ToolProgress::default()
        });

        let report = |uri: &str| {
            let resource = Some(uri.to_owned());
            progress.send(ToolProgress { resource, ..ToolProgress::default() });
        };
        loop {
            match subscription.next_change().await.map_err(CallFailure::Lost)? {
                ResourceChange::Updated(uri) if uris.iter().any(|wanted| **wanted == *uri) => {
                    report(&uri);
                }
                // Another caller's: servers of the older era report on one connection for all.
                ResourceChange::Updated(_) => {}
                ResourceChange::Missed => uris.iter().for_each(|uri| report(uri)),
            }
        }
    }
}
