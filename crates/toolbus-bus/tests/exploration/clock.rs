//! The clock of the machines of these tests. It stands still but for tokio's, so what a request
//! says in Unix time is set right when a worker gets it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;
use toolbus_wire::{Envelope, header};

/// When the request was made, and when its caller stops waiting.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestClock {
    made_at: Instant,
    deadline: Instant,
}

impl RequestClock {
    /// The clock of a request that is made now.
    pub(crate) fn start(budget: Duration) -> Self {
        Self { made_at: Instant::now(), deadline: Instant::now() + budget }
    }

    /// Has the request say what it would say had its time passed on the real clock as well.
    pub(crate) fn set_right(&self, request: &mut Envelope) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let left = self.deadline.saturating_duration_since(Instant::now());
        let until = match left {
            Duration::ZERO => now.saturating_sub(Duration::from_millis(1)),
            // The milliseconds are rounded up: what is left is never more than what was asked for,
            // so an undelayed request has exactly that.
            left => now + left + Duration::from_millis(1),
        };
        request.headers.set(header::DEADLINE_MS, until.as_millis().to_string());
        request.timestamp = now.saturating_sub(self.made_at.elapsed()).as_secs();
    }
}
