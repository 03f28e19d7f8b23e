//! How much of a bridge one server may take, and how long each of its calls.
//!
//! Each kind of request has permits of its own on each server, fewer than the bridge has; a request
//! that gets none is refused at once as busy. So a server that never answers keeps only its own
//! callers waiting.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit, TryAcquireError};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use toolbus_bus::Deadline;
use toolbus_wire::message::mcp::McpTimeouts;

use crate::call::Call;
use crate::config::Entry;
use crate::server_pool::PoolConfig;

/// Most prompts, resources and completions that are requested of one server at a time.
pub(crate) const LOOKUPS_PER_SERVER_MAX: u16 = 32;
/// Most subscriptions of resources of one server at a time.
pub(crate) const SUBSCRIPTIONS_PER_SERVER_MAX: u16 = 128;

/// How long one call may take.
#[derive(Clone, Copy)]
pub(super) struct CallBudget {
    /// What a text about a timeout names.
    pub(super) requested: Duration,
    /// When it has to end without progress.
    pub(super) until: Instant,
    /// The same, and how far progress can move it.
    pub(super) deadline: Deadline,
}

impl CallBudget {
    pub(super) fn of(deadline: Deadline) -> Self {
        Self { requested: deadline.asked(), until: deadline.at(), deadline }
    }
}

/// The kinds of requests that have limits of their own.
#[derive(Debug, Clone, Copy)]
pub(super) enum RequestClass {
    ToolCall,
    Lookup,
    Subscription,
}

/// Why a request was not admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AdmissionError {
    /// As many requests of its kind as may run are running.
    Busy { running: usize },
    /// The server is closing.
    Closing,
}

/// Admits requests to one server, within its limits.
pub(super) struct CallLimiter {
    entry: Arc<Entry>,
    call_timeout_max: Duration,
    with_progress_max: Duration,
    calls: PermitPool,
    lookups: PermitPool,
    subscriptions: PermitPool,
    /// Counts tool calls and lookups, for an orderly end.
    running: TaskTracker,
}

/// The permits for requests of one kind.
struct PermitPool {
    permits: Semaphore,
    size: usize,
}

impl PermitPool {
    fn new(size: usize) -> Self {
        Self { permits: Semaphore::new(size), size }
    }
}

impl CallLimiter {
    pub(super) fn new(entry: Arc<Entry>, options: &PoolConfig) -> Self {
        Self {
            entry,
            call_timeout_max: options.call_timeout_max,
            with_progress_max: options.call_timeout_with_progress_max,
            calls: PermitPool::new(options.calls_per_server_max),
            lookups: PermitPool::new(LOOKUPS_PER_SERVER_MAX.into()),
            subscriptions: PermitPool::new(SUBSCRIPTIONS_PER_SERVER_MAX.into()),
            running: TaskTracker::new(),
        }
    }

    /// Takes a permit for one request, which gives it back when it is dropped.
    pub(super) fn try_admit(
        &self,
        class: RequestClass,
    ) -> Result<SemaphorePermit<'_>, AdmissionError> {
        let pool = match class {
            RequestClass::ToolCall => &self.calls,
            RequestClass::Lookup => &self.lookups,
            RequestClass::Subscription => &self.subscriptions,
        };

        pool.permits.try_acquire().map_err(|error| match error {
            TryAcquireError::NoPermits => AdmissionError::Busy { running: pool.size },
            TryAcquireError::Closed => AdmissionError::Closing,
        })
    }

    /// Counts a call as running until the token is dropped.
    pub(super) fn count_call(&self) -> TaskTrackerToken {
        self.running.token()
    }

    /// The number of calls and lookups that run.
    pub(super) fn running_calls(&self) -> usize {
        self.running.len()
    }

    /// Waits until no call runs. Returns only after [`CallLimiter::close`].
    pub(super) async fn wait_idle(&self) {
        self.running.wait().await;
    }

    /// Admits no more requests.
    pub(super) fn close(&self) {
        for pool in [&self.calls, &self.lookups, &self.subscriptions] {
            pool.permits.close();
        }
        self.running.close();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.calls.permits.is_closed()
    }

    /// How long a call may take: what the caller asks for, up to what the configuration grants.
    pub(super) fn budget_of(&self, call: &Call) -> CallBudget {
        let granted = self.entry.timeout_of(&call.tool).unwrap_or(self.call_timeout_max);
        CallBudget::of(call.context.deadline.limited_to(granted, self.with_progress_max))
    }

    /// How long calls may take, as agents are told.
    pub(super) fn timeouts(&self) -> McpTimeouts {
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let tools = self.entry.tool_timeouts.iter();
        McpTimeouts {
            call_ms: milliseconds(self.entry.call_timeout.unwrap_or(self.call_timeout_max)),
            tools_ms: tools.map(|(tool, time)| (tool.clone(), milliseconds(*time))).collect(),
            with_progress_ms: Some(milliseconds(self.with_progress_max)),
        }
    }

    /// The longest that any call may take here.
    pub(super) fn longest_call(&self) -> Duration {
        let granted = self.entry.call_timeout.unwrap_or(self.call_timeout_max);
        let granted = granted.max(self.with_progress_max);
        self.entry.tool_timeouts.values().copied().fold(granted, Duration::max)
    }
}
