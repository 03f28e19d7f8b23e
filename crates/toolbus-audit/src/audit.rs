//! The log of one process: takes a row for each call, and never makes a call wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolbus_store::LazyStore;
use toolbus_tools::observe::{CallEvent, CallEventKind, Observe};

use crate::row::AuditRow;
use crate::writer::Writer;

/// Rows that may wait for the store: what a busy process writes in a second.
const QUEUED_MAX: usize = 65_536;
/// How long the log waits for the store when it is closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditConfig {
    /// How long a row is kept.
    pub keep_for: Duration,
    /// Most rows that are kept; the oldest go first.
    pub rows_max: u64,
}

impl Default for AuditConfig {
    fn default() -> Self {
        Self { keep_for: Duration::from_secs(30 * 24 * 60 * 60), rows_max: 1_000_000 }
    }
}

/// The audit log of one process. Clones are the same. Close it before the store.
#[derive(Clone)]
pub struct Audit {
    inner: Arc<Inner>,
}

struct Inner {
    rows: mpsc::Sender<AuditRow>,
    dropped: Arc<AtomicU64>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Audit {
    /// The log in this store, which knows [`MIGRATIONS`](crate::MIGRATIONS). It is opened with the
    /// first row. Needs a tokio runtime.
    #[must_use]
    pub fn start(store: LazyStore, config: AuditConfig) -> Self {
        let (rows, queue) = mpsc::channel(QUEUED_MAX);
        let (dropped, stop) = (Arc::new(AtomicU64::new(0)), CancellationToken::new());
        let tasks = TaskTracker::new();
        let writer =
            Writer { store, config, queue, dropped: Arc::clone(&dropped), stop: stop.clone() };
        tasks.spawn(writer.run());
        Self { inner: Arc::new(Inner { rows, dropped, stop, tasks }) }
    }

    /// What hears of calls.
    #[must_use]
    pub fn observer(&self) -> Arc<dyn Observe> {
        Arc::new(self.clone())
    }

    /// How many rows were dropped because the store did not take them.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.inner.dropped.load(Ordering::Relaxed)
    }

    /// Writes what waits, and takes no more rows.
    pub async fn close(&self) {
        self.inner.stop.cancel();
        self.inner.tasks.close();
        if tokio::time::timeout(CLOSE_TIMEOUT, self.inner.tasks.wait()).await.is_err() {
            tracing::error!("the audit log was closed with rows that are not written");
        }
    }
}

impl Observe for Audit {
    fn on_event(&self, event: &CallEvent<'_>) {
        let CallEventKind::Ended(record) = &event.kind else { return };
        if self.inner.rows.try_send(AuditRow::of(event, record)).is_err() {
            self.inner.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}
