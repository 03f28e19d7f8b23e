//! Prompts and resources of one server.

use serde_json::Map;

use super::*;
use crate::lookup::{Found, Lookup, URI_BYTES_MAX, Wanted};

impl Server {
    /// What it offers beside tools. A server that takes long to tell is connected all the same.
    pub(super) async fn offer_of(&self, connection: &Connection) -> Offer {
        let known = self.listed().map(|listed| listed.offer.clone());
        // Boxed: it is large, and part of every future that connects.
        Box::pin(connection.offer(known, self.shared.options.connect_timeout / 3)).await
    }

    /// Asks for something that only reads: once more when the first attempt was lost.
    pub(crate) async fn look_up(
        &self,
        lookup: Lookup,
        wanted: &Wanted,
    ) -> Result<Found, CallError> {
        if wanted.bytes() > URI_BYTES_MAX {
            let message = format!("a name, address or cursor has at most {URI_BYTES_MAX} bytes");
            return Err(CallError::InvalidArguments { message });
        }
        let Lookup { server, deadline, cancelled, asker } = lookup;
        let call = Call::new(Some(&server), wanted.method(), Map::new(), deadline);
        let call = Call { cancelled, asker, ..call };
        let _counted = self.calls.token();
        let budget = self.budget(&call);
        let _place = self.place(&self.lookups, &call, budget)?;
        let first = self.attempt_lookup(wanted, &call, budget.until).await;
        let found = match first {
            Err(Ended::NotSent(_) | Ended::Lost(_)) => {
                self.attempt_lookup(wanted, &call, budget.until).await
            }
            found => found,
        };
        found.map_err(|ended| self.error(&call, ended, budget))
    }

    async fn attempt_lookup(
        &self,
        wanted: &Wanted,
        call: &Call,
        until: Instant,
    ) -> Result<Found, Ended> {
        let connection = self.connection(&call.cancelled, until).await?;
        let found = connection.look_up(wanted, call, until).await;
        if let Err(Ended::NotSent(failure)) = &found {
            connection.retire(failure);
        }
        found
    }
}
