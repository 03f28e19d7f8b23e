//! Rate limits on what a server decides: so many a second.

use parking_lot::Mutex;
use tokio::time::{Duration, Instant, sleep_until};

const RATE_INTERVAL: Duration = Duration::from_secs(1);

/// Counts what happened in the current second.
pub(super) struct RateWindow {
    since: Instant,
    count: u32,
}

impl RateWindow {
    pub(super) fn new() -> Self {
        Self { since: Instant::now(), count: 0 }
    }

    /// Counts one more. False when there were `most` in this second already.
    pub(super) fn try_admit(&mut self, most: u32) -> bool {
        if self.since.elapsed() >= RATE_INTERVAL {
            *self = Self::new();
        }

        self.count = self.count.saturating_add(1);
        self.count <= most
    }

    /// When the next second begins.
    fn next_second(&self) -> Instant {
        self.since + RATE_INTERVAL
    }
}

/// Waits until there are fewer than `most` in a second, and counts one more.
pub(super) async fn wait_admitted(window: &Mutex<RateWindow>, most: u32) {
    loop {
        let next = {
            let mut window = window.lock();
            if window.try_admit(most) {
                return;
            }
            window.next_second()
        };
        sleep_until(next).await;
    }
}
