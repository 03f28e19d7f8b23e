//! The runs that are under way in this process.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::rows::OpenRow;
use crate::{Fire, RunEnd, RunTask, ScheduleConfig};

/// Runs, by the ids of their occurrences.
#[derive(Default)]
pub(crate) struct Runs {
    tasks: JoinSet<Ended>,
    under_way: HashMap<String, CancellationToken>,
    ended: Vec<Ended>,
}

/// A run that came to an end, and is to be written down.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) row: OpenRow,
    pub(crate) end: RunEnd,
}

impl Runs {
    pub(crate) fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.under_way.len()
    }

    pub(crate) fn has(&self, id: &str) -> bool {
        self.under_way.contains_key(id)
    }

    /// Begins to run an occurrence whose row says so.
    pub(crate) fn start(&mut self, run: Arc<dyn RunTask>, row: OpenRow, config: &ScheduleConfig) {
        let stop = CancellationToken::new();
        self.under_way.insert(row.id.clone(), stop.clone());
        let (limit, grace) = (config.run_timeout, config.stop_grace);
        self.tasks.spawn(async move {
            let fire = fire_of(&row);
            let end = run_within(run.run(fire, stop.clone()), &stop, limit, grace).await;
            Ended { row, end }
        });
    }

    /// Waits until a run ends.
    pub(crate) async fn wait(&mut self) {
        match self.tasks.join_next().await {
            Some(Ok(ended)) => self.ended.push(ended),
            // A run that panics is caught, and none is aborted.
            Some(Err(error)) => tracing::error!(%error, "a run of a scheduled task was lost"),
            None => std::future::pending().await,
        }
    }

    /// The runs that ended and are not written down.
    pub(crate) fn ended(&self) -> &[Ended] {
        &self.ended
    }

    /// Forgets a run that is written down.
    pub(crate) fn forget(&mut self, id: &str) {
        self.ended.retain(|ended| ended.row.id != id);
        self.under_way.remove(id);
    }

    /// Has every run end, and waits until it has for as long as it may take.
    pub(crate) async fn stop(&mut self, grace: Duration) {
        self.under_way.values().for_each(CancellationToken::cancel);
        let ending = async {
            while let Some(joined) = self.tasks.join_next().await {
                self.ended.extend(joined.ok());
            }
        };
        if timeout(grace, ending).await.is_err() {
            tracing::warn!("runs of scheduled tasks did not end in time");
        }
        self.tasks.shutdown().await;
    }
}

pub(crate) fn fire_of(row: &OpenRow) -> Fire {
    Fire {
        id: row.id.clone(),
        owner: row.owner.clone(),
        name: row.name.clone(),
        description: row.description.clone(),
        cause: row.cause,
        due_ms: row.due_ms,
        missed: row.missed_before,
        attempts: row.attempts,
        lineage: row.lineage.clone(),
    }
}

async fn run_within(
    run: impl Future<Output = RunEnd>,
    stop: &CancellationToken,
    limit: Duration,
    grace: Duration,
) -> RunEnd {
    let mut run = pin!(AssertUnwindSafe(run).catch_unwind());
    let ended = match timeout(limit, &mut run).await {
        Ok(ended) => ended,
        Err(_) => {
            stop.cancel();
            // However it ends now, it was stopped.
            let _ = timeout(grace, &mut run).await;
            return RunEnd::Failed(format!("it took longer than {} s", limit.as_secs()));
        }
    };
    ended.unwrap_or_else(|_| RunEnd::Failed("it panicked".to_owned()))
}
