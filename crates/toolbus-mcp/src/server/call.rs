//! A call of one server: how long it may take, when it is sent once more, and what its end means.

use super::*;

/// How long one call may take.
#[derive(Clone, Copy)]
pub(super) struct Budget {
    /// What a text about a timeout names.
    pub(super) asked: Duration,
    pub(super) until: Instant,
}

impl Server {
    /// Calls a tool.
    pub(crate) async fn call(&self, call: &Call) -> Result<CallResult, CallError> {
        if !self.entry.filter.permits(&call.tool) {
            return Err(CallError::Denied { server: self.name(), tool: call.tool.clone() });
        }
        let _counted = self.calls.token();
        let budget = self.budget(call);
        let _place = self.place(&self.running, call, budget)?;
        let first = match self.attempt_call(call, budget.until).await {
            Ok(result) => return Ok(result),
            Err(ended) => ended,
        };
        let harmless = match &first {
            Ended::NotSent(_) => true,
            Ended::Lost(_) => self.may_repeat(&call.tool),
            _ => false,
        };
        if !harmless {
            return Err(self.error(call, first, budget));
        }
        tracing::debug!(server = %self.entry.name, tool = call.tool, "the call is sent again");
        self.attempt_call(call, budget.until).await.map_err(|second| match second {
            // What became of the first is what the caller has to know.
            Ended::NotSent(_) => self.error(call, first, budget),
            second => self.error(call, second, budget),
        })
    }

    async fn attempt_call(&self, call: &Call, until: Instant) -> Result<CallResult, Ended> {
        let connection = self.connection(&call.cancelled, until).await?;
        if call.cancelled.is_cancelled() {
            return Err(Ended::Cancelled);
        }
        if until <= Instant::now() {
            return Err(Ended::TimedOut);
        }
        // Only now: the connection may be new, and what it lists another than before.
        if let Some(withheld) = self.withheld(&call.tool) {
            let (server, tool, what) = (self.name(), call.tool.clone(), withheld.changed_parts());
            return Err(Ended::With(CallError::Withheld { server, tool, what }));
        }
        let called = connection.call(call, until, || self.lists(&call.tool)).await;
        if let Err(Ended::NotSent(failure)) = &called {
            connection.retire(failure);
        }
        called
    }

    /// How long a call may take: what the caller asks for, up to what the configuration grants.
    pub(super) fn budget(&self, call: &Call) -> Budget {
        let granted = self.entry.timeout_of(&call.tool);
        let granted = granted.unwrap_or(self.shared.options.call_timeout_max);
        Budget {
            asked: call.deadline.asked().min(granted),
            until: call.deadline.at().min(Instant::now() + granted),
        }
    }

    pub(super) fn error(&self, call: &Call, ended: Ended, budget: Budget) -> CallError {
        let (server, tool) = (self.name(), call.tool.clone());
        match ended {
            Ended::NotSent(failure) if failure.needs_login => {
                CallError::NeedsLogin { server, reason: failure.to_string() }
            }
            Ended::NotSent(failure) => {
                // A caller that named the server gets the name back as it gave it.
                let server = call.server.clone().unwrap_or(server);
                CallError::NotConnected { server, reason: Some(failure.to_string()) }
            }
            Ended::Lost(failure) => {
                CallError::OutcomeUnknown { server, reason: failure.to_string() }
            }
            Ended::TimedOut => CallError::Timeout { server, timeout_ms: budget.asked.as_millis() },
            Ended::Cancelled => CallError::Cancelled { server, tool },
            Ended::With(error) => error,
        }
    }
}
