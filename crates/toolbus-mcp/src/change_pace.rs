//! How often what a server changes is followed up: at once where changes are few, and less and less
//! often where they go on.

use std::time::Duration;

use tokio::time::Instant;

/// How many follow-ups there are before pauses grow: a few changes in a row are nothing unusual.
const EVEN_FOLLOW_UPS: u8 = 3;
/// The longest pause.
const CHANGE_BACKOFF_MAX: Duration = Duration::from_secs(60);

/// The pauses between what is done about changes. After the first few, each is twice as long as
/// the one before, and they shrink again while nothing changes. So a server costs some ten
/// follow-ups in its first two minutes of changing without end, and one a minute after.
#[derive(Debug)]
pub(crate) struct ChangePace {
    backoff_min: Duration,
    backoff: Duration,
    /// Follow-ups until pauses grow.
    even_left: u8,
    last: Option<Instant>,
}

impl ChangePace {
    /// A pace whose first pause is this long.
    pub(crate) fn new(backoff: Duration) -> Self {
        Self { backoff_min: backoff, backoff, even_left: EVEN_FOLLOW_UPS, last: None }
    }

    /// When a change that is seen now may be followed up.
    pub(crate) fn due(&mut self, now: Instant) -> Instant {
        let Some(last) = self.last else { return now };

        // The pause that is due is no quiet time; each one's worth beyond it halves the next.
        let mut quiet = now.saturating_duration_since(last).saturating_sub(self.backoff);
        while quiet >= self.backoff && self.backoff > self.backoff_min {
            quiet -= self.backoff;
            self.backoff = (self.backoff / 2).max(self.backoff_min);
        }
        if quiet >= self.backoff {
            self.even_left = EVEN_FOLLOW_UPS;
        }
        now.max(last + self.backoff)
    }

    /// Notes that changes were followed up.
    pub(crate) fn record(&mut self, now: Instant) {
        if self.last.is_some() && self.even_left > 0 {
            self.even_left -= 1;
        } else if self.last.is_some() {
            self.backoff = (self.backoff * 2).min(CHANGE_BACKOFF_MAX);
        }
        self.last = Some(now);
    }
}

#[cfg(test)]
mod tests;
