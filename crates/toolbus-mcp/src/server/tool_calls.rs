//! Tool calls of one server: when a call is sent once more, and what its end means.

use std::sync::Arc;

use tokio::sync::SemaphorePermit;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolbus_wire::Execution;
use toolbus_wire::json::RawJson;

use super::Server;
use super::call_limits::{AdmissionError, CallBudget, RequestClass};
use crate::call::{Call, CallError};
use crate::connection::{CallFailure, Connection};
use crate::trust::PinnedItem;

impl Server {
    /// Calls a tool, and returns the result as the server wrote it.
    pub(crate) async fn call_tool(&self, call: &Call) -> Result<RawJson, CallError> {
        if !self.entry.filter.permits(&call.tool) {
            return Err(CallError::Denied { server: self.name(), tool: call.tool.clone() });
        }

        let _running = self.limiter.count_call();
        let budget = self.limiter.budget_of(call);
        let _permit = self.try_admit(RequestClass::ToolCall, call, budget)?;

        let first = match self.attempt_call(call, budget).await {
            Ok(result) => return Ok(result),
            Err(failed) => failed,
        };

        let is_harmless = match &first {
            CallFailure::NotSent(_) => true,
            CallFailure::Lost(_) => self.catalogue.may_repeat(&call.tool),
            _ => false,
        };
        if !is_harmless {
            return Err(self.call_error(call, first, budget));
        }

        tracing::debug!(server = %self.entry.name, tool = call.tool, "retrying tool call");
        self.attempt_call(call, budget).await.map_err(|second| match (first, second) {
            // What became of the first is what the caller has to know.
            (first, CallFailure::NotSent(_))
            | (first @ CallFailure::Lost(_), CallFailure::Unavailable { .. }) => {
                self.call_error(call, first, budget)
            }
            (_, second) => self.call_error(call, second, budget),
        })
    }

    async fn attempt_call(&self, call: &Call, budget: CallBudget) -> Result<RawJson, CallFailure> {
        let CallBudget { until, deadline, .. } = budget;
        let connection = self.acquire_connection(&call.context.cancelled, until).await?;

        // Connecting takes time: look again before anything is sent.
        if call.context.cancelled.is_cancelled() {
            return Err(CallFailure::CancelledUnsent);
        }
        if until <= Instant::now() {
            return Err(CallFailure::TimedOutUnsent);
        }
        // Only now: the connection may be new, and what it lists another than before.
        if let Some(withheld) = self.catalogue.find_withheld(&call.tool) {
            return Err(CallFailure::Final(CallError::Withheld {
                server: self.name(),
                item: PinnedItem::Tool(call.tool.clone()),
                reason: withheld.reason(),
            }));
        }

        let is_listed = || self.catalogue.lists_tool(&call.tool);
        // A server that reads names loosely would take another spelling of a tool that is denied.
        if !is_listed() {
            return Err(CallFailure::Final(CallError::ToolUnknown {
                server: self.name(),
                tool: call.tool.clone(),
                message: "it lists no such tool".to_owned(),
                server_error: None,
            }));
        }

        let called = connection.call_tool(call, deadline, is_listed).await;
        if let Err(CallFailure::NotSent(failure)) = &called {
            connection.retire(failure);
        }
        called
    }

    pub(super) async fn acquire_connection(
        &self,
        cancelled: &CancellationToken,
        until: Instant,
    ) -> Result<Arc<Connection>, CallFailure> {
        self.connector.acquire(cancelled, until).await
    }

    /// Takes a permit of the limiter, or says as a [`CallError`] why there is none.
    pub(super) fn try_admit(
        &self,
        class: RequestClass,
        call: &Call,
        budget: CallBudget,
    ) -> Result<SemaphorePermit<'_>, CallError> {
        self.limiter.try_admit(class).map_err(|error| match error {
            AdmissionError::Busy { running } => CallError::Busy { server: self.name(), running },
            AdmissionError::Closing => self.call_error(call, CallFailure::closed(), budget),
        })
    }

    /// The error that the caller of a failed call gets.
    pub(super) fn call_error(
        &self,
        call: &Call,
        failed: CallFailure,
        budget: CallBudget,
    ) -> CallError {
        let server = self.name();
        let tool = call.tool.clone();

        match failed {
            CallFailure::NotSent(failure) if failure.needs_login => {
                CallError::NeedsLogin { server, reason: failure.to_string() }
            }
            CallFailure::NotSent(failure) if failure.needs_credential => {
                CallError::NoCredential { server, reason: failure.to_string() }
            }
            CallFailure::NotSent(failure) => {
                // A caller that named the server gets the name back as it gave it.
                let server = call.server.clone().unwrap_or(server);
                let reason = Some(failure.to_string());
                CallError::NotConnected { server, reason, retry_after: None }
            }
            CallFailure::Unavailable { failure, retry_after } => CallError::NotConnected {
                server: call.server.clone().unwrap_or(server),
                reason: Some(failure.to_string()),
                retry_after: Some(retry_after),
            },
            CallFailure::Lost(failure) => {
                CallError::OutcomeUnknown { server, reason: failure.to_string() }
            }
            CallFailure::TimedOut => self.timeout(call, budget, Execution::Started),
            CallFailure::TimedOutUnsent => self.timeout(call, budget, Execution::NotStarted),
            CallFailure::Cancelled => {
                CallError::Cancelled { server, tool, execution: Execution::Started }
            }
            CallFailure::CancelledUnsent => {
                CallError::Cancelled { server, tool, execution: Execution::NotStarted }
            }
            CallFailure::Final(error) => error,
        }
    }

    fn timeout(&self, call: &Call, budget: CallBudget, execution: Execution) -> CallError {
        CallError::Timeout {
            server: self.name(),
            timeout_ms: budget.requested.as_millis(),
            execution,
            may_repeat: self.catalogue.may_repeat(&call.tool),
        }
    }
}
