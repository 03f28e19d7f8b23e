//! The sweep: entries of working memory whose time is over are taken away.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::working::WorkingMemory;

/// How often it is swept. Nobody sees what is over in between.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// Sweeps from time to time, while the store is open.
pub struct MemorySweeper {
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl MemorySweeper {
    /// Begins to sweep this memory. Needs a tokio runtime.
    #[must_use]
    pub fn start(memory: WorkingMemory) -> Self {
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let stopped = stop.clone();
        tasks.spawn(async move {
            while stopped.run_until_cancelled(tokio::time::sleep(SWEEP_INTERVAL)).await.is_some() {
                if memory.store().opened().is_none() {
                    continue;
                }
                if let Err(error) = memory.sweep().await {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "could not sweep working memory");
                }
            }
        });
        tasks.close();
        Self { stop, tasks }
    }

    /// Ends it, and waits for the sweep that is under way.
    pub async fn close(&self) {
        self.stop.cancel();
        self.tasks.wait().await;
    }
}
