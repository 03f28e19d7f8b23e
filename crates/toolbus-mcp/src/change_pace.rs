//! How often what a server changes is followed up: at once where changes are few, and less and less
//! often where they go on.

use std::time::Duration;

use tokio::time::Instant;

/// The pause after the first of several changes.
const CHANGE_BACKOFF: Duration = Duration::from_millis(500);
/// The longest pause.
const CHANGE_BACKOFF_MAX: Duration = Duration::from_secs(60);

/// The pauses between what is done about changes. Each is twice as long as the one before, and they
/// shrink again while nothing changes. So a server costs eight follow-ups in its first two minutes
/// of changing without end, and one a minute after.
#[derive(Debug)]
pub(crate) struct ChangePace {
    backoff: Duration,
    last: Option<Instant>,
}

impl ChangePace {
    pub(crate) fn new() -> Self {
        Self { backoff: CHANGE_BACKOFF, last: None }
    }

    /// When a change that is seen now may be followed up.
    pub(crate) fn due(&mut self, now: Instant) -> Instant {
        let Some(last) = self.last else { return now };

        // The pause that is due is no quiet time; each one's worth beyond it halves the next.
        let mut quiet = now.saturating_duration_since(last).saturating_sub(self.backoff);
        while quiet >= self.backoff && self.backoff > CHANGE_BACKOFF {
            quiet -= self.backoff;
            self.backoff = (self.backoff / 2).max(CHANGE_BACKOFF);
        }
        now.max(last + self.backoff)
    }

    /// Notes that changes were followed up.
    pub(crate) fn record(&mut self, now: Instant) {
        if self.last.is_some() {
            self.backoff = (self.backoff * 2).min(CHANGE_BACKOFF_MAX);
        }
        self.last = Some(now);
    }
}

#[cfg(test)]
mod tests;
