//! Requests to one server that only read: prompts, resources, completions.

use serde_json::Map;
use toolbus_bus::Deadline;

use super::Server;
use super::call_limits::RequestClass;
use crate::call::{Call, CallError};
use crate::connection::CallFailure;
use crate::lookup::{Lookup, ReadRequest, ReadResponse, URI_BYTES_MAX};

impl Server {
    /// Makes a request that only reads: once more when the first attempt was lost.
    pub(crate) async fn read(
        &self,
        lookup: Lookup,
        request: &ReadRequest,
    ) -> Result<ReadResponse, CallError> {
        if request.bytes() > URI_BYTES_MAX {
            let message = format!("a name, address or cursor has at most {URI_BYTES_MAX} bytes");
            return Err(CallError::InvalidArguments { message, server_error: None });
        }

        let Lookup { server, context, .. } = lookup;
        let call = Call::new(Some(&server), request.method(), Map::new(), context.deadline);
        let call = Call { context, ..call };
        let _running = self.limiter.count_call();
        let budget = self.limiter.budget_of(&call);
        let _permit = self.try_admit(RequestClass::Lookup, &call, budget)?;

        let first = self.attempt_read(request, &call, budget.deadline).await;
        let response = match first {
            Err(CallFailure::NotSent(_) | CallFailure::Lost(_)) => {
                self.attempt_read(request, &call, budget.deadline).await
            }
            response => response,
        };
        response.map_err(|failed| self.call_error(&call, failed, budget))
    }

    async fn attempt_read(
        &self,
        request: &ReadRequest,
        call: &Call,
        deadline: Deadline,
    ) -> Result<ReadResponse, CallFailure> {
        let connection = self.acquire_connection(&call.context.cancelled, deadline.at()).await?;
        // Only now: the connection may be new, and what it lists another than before.
        if let Some(name) = request.prompt_name()
            && let Some((item, withheld)) = self.catalogue.find_withheld_prompt(&name)
        {
            let reason = withheld.reason();
            let error = CallError::Withheld { server: self.name(), item, reason };
            return Err(CallFailure::Final(error));
        }

        let response = connection.read(request, call, deadline).await;
        if let Err(CallFailure::NotSent(failure)) = &response {
            connection.retire(failure);
        }
        response
    }
}
