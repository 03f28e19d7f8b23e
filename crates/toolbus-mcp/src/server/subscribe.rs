//! Subscriptions of resources of one server.

use std::convert::Infallible;

use rmcp::service::ServiceError;
use serde_json::Map;
use toolbus_bus::Progress;
use toolbus_wire::message::toolbus::ToolProgress;

use super::call::Budget;
use super::*;
use crate::connection::subscribe::Heard;
use crate::lookup::{Lookup, URI_BYTES_MAX};

/// Most resources of one subscription.
const URIS_MAX: usize = 256;

impl Server {
    /// Tells of changes of resources as progress, until the time is over, nobody wants it any more,
    /// or the connection is lost. The first progress says that it is subscribed to them.
    pub(crate) async fn subscribe(
        &self,
        lookup: Lookup,
        uris: &[String],
        progress: &Progress,
    ) -> Result<Infallible, CallError> {
        if uris.len() > URIS_MAX || uris.iter().any(|uri| uri.len() > URI_BYTES_MAX) {
            let message = format!(
                "a subscription has at most {URIS_MAX} resources, with at most {URI_BYTES_MAX} bytes"
            );
            return Err(CallError::InvalidArguments { message });
        }
        let Lookup { server, deadline, cancelled, .. } = lookup;
        let call = Call::new(Some(&server), "resources/subscribe", Map::new(), deadline);
        let budget = Budget { asked: deadline.asked(), until: deadline.at() };
        let _place = self.place(&self.subscriptions, &call, budget)?;
        let followed = tokio::select! {
            followed = self.follow(uris, progress, &cancelled, budget.until) => followed,
            () = cancelled.cancelled() => Err(Ended::Cancelled),
            () = self.stop.cancelled() => Err(closed()),
            () = sleep_until(budget.until) => Err(Ended::TimedOut),
        };
        followed.map_err(|ended| self.error(&call, ended, budget))
    }

    async fn follow(
        &self,
        uris: &[String],
        progress: &Progress,
        cancelled: &CancellationToken,
        until: Instant,
    ) -> Result<Infallible, Ended> {
        let connection = self.connection(cancelled, until).await?;
        let failed = |error| match error {
            ServiceError::McpError(error) => {
                Ended::With(CallError::Failed { message: connection.told_by(&error) })
            }
            other => Ended::NotSent(Failure::request(&other, connection.eraser())),
        };
        let mut hold = Box::pin(connection.hold(uris)).await.map_err(failed)?;
        progress.send(ToolProgress {
            message: Some("subscribed".to_owned()),
            ..ToolProgress::default()
        });
        let tell = |uri: &str| {
            let resource = Some(uri.to_owned());
            progress.send(ToolProgress { resource, ..ToolProgress::default() });
        };
        loop {
            match hold.next().await.map_err(Ended::Lost)? {
                Heard::Changed(uri) if uris.iter().any(|wanted| **wanted == *uri) => tell(&uri),
                Heard::Changed(_) => {}
                Heard::TooMuch => uris.iter().for_each(|uri| tell(uri)),
            }
        }
    }
}
