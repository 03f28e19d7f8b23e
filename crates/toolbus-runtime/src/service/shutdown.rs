//! What the work is told about stopping.

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The two steps of a stop, and the tasks that are waited for. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    requested: CancellationToken,
    overdue: CancellationToken,
    tasks: TaskTracker,
}

impl Shutdown {
    /// A shutdown that nobody asked for yet. A program gets its own from its context; tests make
    /// them.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Fires when a stop is asked for: take no new work, finish what runs.
    #[must_use]
    pub fn requested(&self) -> &CancellationToken {
        &self.requested
    }

    /// Fires when the grace is over: end what runs now and give the rest back. It never fires
    /// before `requested`.
    #[must_use]
    pub fn overdue(&self) -> &CancellationToken {
        &self.overdue
    }

    /// Where tasks that must end before the process does are spawned.
    #[must_use]
    pub fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }
}
