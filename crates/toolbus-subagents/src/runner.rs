//! Goes on with what processes have left that were lost, and has ends told.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use toolbus_store::until_changed;
use tracing::Span;

use crate::leases::{OpenRow, Orphan};
use crate::metrics::subagent_span;
use crate::run::{Start, failed, timed_out};
use crate::subagents::Inner;
use crate::tables::CHANGES;
use crate::telling::Tellings;
use crate::{Error, SubagentEnd, Subagents};

/// How often a subagent is begun that is lost each time.
const BEGUN_MAX: i64 = 3;
/// The longest sleep while there are no subagents.
const IDLE_INTERVAL: Duration = Duration::from_secs(5);
/// The shortest sleep.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(5);
/// How often what is old is forgotten.
const FORGET_INTERVAL: Duration = Duration::from_secs(60);
/// How long everything has that was dropped.
const CLOSE_GRACE: Duration = Duration::from_secs(5);

/// Goes on with what others have left and has ends told, until it is closed.
pub struct Runner {
    subagents: Subagents,
}

impl Runner {
    /// Begins with it.
    #[must_use]
    pub fn start(subagents: &Subagents) -> Self {
        let inner = subagents.inner();
        let looking = Looking {
            tellings: Tellings::new(inner),
            subagents: Arc::clone(inner),
            changes: None,
            forgotten: None,
        };
        inner.tasks.spawn(looking.run());
        Self { subagents: subagents.clone() }
    }

    /// Begins nothing more, and waits up to `grace` for what is under way. What is left is gone on
    /// with, and told, by another process, at once.
    pub async fn close(self, grace: Duration) {
        let inner = self.subagents.inner();
        inner.stopping.cancel();
        inner.tasks.close();
        if tokio::time::timeout(grace, inner.tasks.wait()).await.is_err() {
            inner.left.cancel();
            if tokio::time::timeout(CLOSE_GRACE, inner.tasks.wait()).await.is_err() {
                tracing::warn!("subagents were under way when the agent was closed");
            }
        }

        if inner.rows.store.opened().is_some()
            && let Err(error) = inner.rows.release().await
        {
            tracing::warn!(
                error = error.as_dyn(),
                "subagents wait until the lease of this process is over"
            );
        }
    }
}

struct Looking {
    subagents: Arc<Inner>,
    tellings: Tellings,
    /// Told when others write, once there is something to wait for.
    changes: Option<watch::Receiver<u64>>,
    forgotten: Option<Instant>,
}

impl Looking {
    async fn run(mut self) {
        let stopping = self.subagents.stopping.clone();
        while !stopping.is_cancelled() {
            let wait = self.round().await.unwrap_or_else(|error| {
                tracing::warn!(error = error.as_dyn(), "could not look after subagents");
                self.subagents.deps.config.look_interval
            });
            let changed = until_changed(self.changes.as_mut());
            // Every arm only waits.
            tokio::select! {
                () = stopping.cancelled() => {}
                () = tokio::time::sleep(wait) => {}
                () = self.subagents.nudge.notified() => {}
                () = changed => {}
            }
        }
    }

    /// Does what is to be done, and says how long to wait.
    async fn round(&mut self) -> Result<Duration, Error> {
        // A file that is not there has no subagents, and is not made for them.
        if !self.subagents.rows.store.may_hold_something() {
            return Ok(IDLE_INTERVAL);
        }
        self.forget().await?;
        let rows = &self.subagents.rows;
        let store = rows.store.open().await?;
        self.changes.get_or_insert_with(|| store.changes(CHANGES)).mark_unchanged();
        let (now_ms, open) = rows.open().await?;
        self.tellings.retain(&open);
        if open.is_empty() {
            // A file of SQLite is looked at four times a second while somebody waits for changes.
            self.changes = None;
            return Ok(IDLE_INTERVAL);
        }

        let config = &self.subagents.deps.config;
        let handover_grace = config.handover_grace;
        let mut wait = config.look_interval;
        for row in &open {
            if row.is_orphan(now_ms) && !self.subagents.runs_here(&row.id) {
                self.take_up(row).await?;
            }
            if row.may_be_told_by(&self.subagents.deps.instance, now_ms, handover_grace) {
                wait = wait.min(self.tellings.tell(row).await?);
            }
        }
        Ok(wait.max(SHORTEST_INTERVAL))
    }

    async fn forget(&mut self) -> Result<(), Error> {
        if self.forgotten.is_some_and(|at| at.elapsed() < FORGET_INTERVAL) {
            return Ok(());
        }
        let untold = self.subagents.rows.forget(&self.subagents.deps.config).await?;
        if untold > 0 {
            tracing::warn!(untold, "forgot ends of subagents that no session has taken");
        }
        self.forgotten = Some(Instant::now());
        Ok(())
    }

    /// Goes on with a subagent whose process was lost, where there is room.
    async fn take_up(&self, row: &OpenRow) -> Result<(), Error> {
        let subagents = &self.subagents;
        let Ok(room) = Arc::clone(&subagents.room).try_acquire_owned() else { return Ok(()) };
        let Some(orphan) = subagents.rows.take_up(&row.id).await? else { return Ok(()) };

        let timeout = Duration::from_millis(orphan.timeout_ms.max(0).unsigned_abs());
        let end = match &orphan {
            Orphan { is_cancelled: true, .. } => {
                Some(SubagentEnd::Cancelled { text: String::new() }.into())
            }
            Orphan { left_ms: ..=0, .. } => Some(timed_out(timeout, None)),
            Orphan { begun, .. } if *begun > BEGUN_MAX => {
                Some(failed(format!("it was begun {BEGUN_MAX} times, and lost each time")).into())
            }
            _ => None,
        };
        let span = match end {
            Some(_) => Span::none(),
            // What has spawned it is another process's.
            None => subagent_span(&orphan.id, &Span::none()),
        };
        let start = Start {
            id: orphan.id,
            owner: orphan.owner,
            description: orphan.description,
            context: orphan.context,
            lineage: orphan.lineage,
            spent: orphan.spent,
            is_paused: orphan.is_paused,
            is_resumed: true,
            timeout: Duration::from_millis(orphan.left_ms.max(0).unsigned_abs()),
            scope: None,
            span,
        };
        let here = subagents.note_running(&start, room);
        let subagents = Arc::clone(subagents);
        let tasks = subagents.tasks.clone();
        match end {
            Some(end) => drop(tasks.spawn(async move {
                subagents.keep_end(&start, end).await;
                drop(here);
            })),
            None => {
                tracing::info!(id = start.id, "a subagent goes on that was interrupted");
                drop(tasks.spawn(subagents.work(start, here)));
            }
        }
        Ok(())
    }
}
