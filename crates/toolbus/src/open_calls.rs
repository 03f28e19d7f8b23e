//! The calls that a program makes through its [`Toolbus`](crate::Toolbus): each is counted while it
//! runs, refused once the toolbus closes, and cancelled when the grace for that is over.

use std::pin::pin;
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use toolbus_tools::call::Outcome;
use toolbus_tools::{Call, CallError, Invoker};
use toolbus_wire::{ErrorCode, Execution};

/// Calls that run, and whether there may be more.
#[derive(Default)]
pub(crate) struct OpenCalls {
    running: TaskTracker,
    /// Fires when no more calls are taken.
    closing: CancellationToken,
    /// Fires when the calls that still run are cancelled.
    cancelled: CancellationToken,
}

impl OpenCalls {
    /// Makes a call and waits for its one outcome. Dropping the future drops the tool's work.
    pub(crate) async fn invoke(&self, invoker: &Invoker, call: Call) -> Outcome {
        let Some(_running) = self.admit(|| self.closing.is_cancelled()) else {
            let error =
                CallError::new(ErrorCode::Cancelled, "the agent was closed before the call");
            return Err(error.with_execution(Execution::NotStarted));
        };

        let cancelled = call.cancelled.child_token();
        let call = call.with_cancelled(cancelled.clone());
        let mut work = pin!(invoker.invoke(call));

        // Both arms only wait. A call that is cancelled still has an outcome.
        tokio::select! {
            biased;
            outcome = &mut work => return outcome,
            () = self.cancelled.cancelled() => cancelled.cancel(),
        }
        work.await
    }

    /// Takes no more calls.
    pub(crate) fn refuse_new(&self) {
        self.closing.cancel();
    }

    /// Whether no more calls are taken.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.is_cancelled()
    }

    /// Waits up to `grace` for the calls that run, then cancels the rest and waits for those. Call
    /// [`refuse_new`](OpenCalls::refuse_new) first.
    pub(crate) async fn end_within(&self, grace: Duration) {
        self.running.close();

        if timeout(grace, self.running.wait()).await.is_err() {
            self.cancelled.cancel();
            // The invoker gives a cancelled call a moment and drops it then.
            self.running.wait().await;
        }
    }

    /// Counts a call for as long as the token is kept; `None` when there are to be no more.
    ///
    /// The call is counted before `is_closing` is asked. The other way round, closing might begin
    /// and find nothing to wait for between the two, and the tool would run after it was done.
    fn admit(&self, is_closing: impl FnOnce() -> bool) -> Option<TaskTrackerToken> {
        let running = self.running.token();
        (!is_closing()).then_some(running)
    }
}

#[cfg(test)]
mod tests;
