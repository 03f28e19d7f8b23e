//! How often something happens that a server decides on.

use parking_lot::Mutex;
use tokio::time::{Duration, Instant, sleep_until};

const SECOND: Duration = Duration::from_secs(1);

/// Counts what happens in the current second.
pub(super) struct Pace {
    since: Instant,
    count: u32,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self { since: Instant::now(), count: 0 }
    }

    /// Whether there is room for one more in this second, of so many.
    pub(super) fn admits(&mut self, most: u32) -> bool {
        if self.since.elapsed() >= SECOND {
            *self = Self::new();
        }
        self.count = self.count.saturating_add(1);
        self.count <= most
    }

    /// When the next second begins.
    fn next(&self) -> Instant {
        self.since + SECOND
    }
}

/// Waits until there is room for one more in a second, of so many.
pub(super) async fn until_admitted(pace: &Mutex<Pace>, most: u32) {
    loop {
        let next = {
            let mut pace = pace.lock();
            if pace.admits(most) {
                return;
            }
            pace.next()
        };
        sleep_until(next).await;
    }
}
