//! What the scheduler that has the lease reads and writes. Each write fails where another process
//! has the lease meanwhile.

use std::collections::HashMap;

use futures_util::future::BoxFuture;
use jiff::tz::TimeZone;
use toolbus_store::sqlx::{self, AssertSqlSafe, Row as _};
use toolbus_store::{LazyStore, Lease, Transaction};
use toolbus_wire::name::AgentName;

use crate::Error;
use crate::occurrence::{OCCURRENCE_COLUMNS, OccurrenceState};
use crate::plan::{Firing, Left, MissedRule, PutOff, Recovered, ms};
use crate::rows::{
    self, BUSY, Ending, NOBODY_THERE, OpenRow, PROCESS_ENDED, TASK_CANCELLED, TASK_ROW_COLUMNS,
    TaskRow, Times,
};
use crate::schedules::{NamedZone, Schedules};

/// The tasks and open occurrences of an agent.
#[derive(Clone)]
pub(crate) struct Ledger {
    schedules: Schedules,
    agent: AgentName,
}

/// Most tasks of a [`Page`].
const PAGE_TASKS_MAX: i64 = 1_000;

/// All that there is to do for an agent, at a moment.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) now_ms: i64,
    /// The tasks that are due, and those of which something is open.
    pub(crate) tasks: Vec<TaskRow>,
    /// When the next of the others is due.
    pub(crate) next_ms: Option<i64>,
    pub(crate) open: Vec<OpenRow>,
}

/// A place among the tasks of an agent: what a task is found by.
#[derive(Debug, Clone, Default)]
pub(crate) struct TaskKey {
    owner: String,
    id: String,
}

/// Tasks of an agent that follow each other, due or not.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) tasks: Vec<TaskRow>,
    /// After which one the next page begins. `None`: this is the last.
    pub(crate) next: Option<TaskKey>,
}

impl View {
    /// Whether there is nothing to do now.
    pub(crate) fn is_idle(&self) -> bool {
        self.tasks.is_empty() && self.open.is_empty()
    }

    /// Whether something of this task is open.
    pub(crate) fn is_active(&self, generation: &str) -> bool {
        self.open.iter().any(|open| open.generation == generation)
    }
}

impl Ledger {
    pub(crate) fn new(schedules: Schedules, agent: AgentName) -> Self {
        Self { schedules, agent }
    }

    fn store(&self) -> &LazyStore {
        self.schedules.store()
    }

    pub(crate) async fn view(&self) -> Result<View, Error> {
        let now_ms = self.schedules.now_ms().await?;
        let readers = self.store().open().await?.readers();
        // Each half has an index of its own, however many tasks there are.
        let tasks = format!(
            "SELECT {TASK_ROW_COLUMNS} FROM schedule_tasks WHERE agent = $1 AND next_ms <= $2
             UNION
             SELECT {TASK_ROW_COLUMNS} FROM schedule_tasks WHERE generation IN
                 (SELECT generation FROM schedule_occurrences
                  WHERE agent = $1 AND ended_ms IS NULL)"
        );
        let tasks = sqlx::query(AssertSqlSafe(tasks)).bind(self.agent.as_str()).bind(now_ms);
        let tasks = tasks.fetch_all(readers).await?;
        let next_ms = self.schedules.next_fire(&self.agent, now_ms).await?;
        let open = format!(
            "SELECT {OCCURRENCE_COLUMNS} FROM schedule_occurrences
             WHERE agent = $1 AND ended_ms IS NULL ORDER BY due_ms, id"
        );
        let open = sqlx::query(AssertSqlSafe(open)).bind(self.agent.as_str());
        let open = open.fetch_all(readers).await?;

        let task = |row| TaskRow::read(&self.agent, row).transpose();
        let tasks: Result<_, sqlx::Error> = tasks.iter().filter_map(task).collect();
        let occurrence = |row| OpenRow::read(&self.agent, row).transpose();
        let open: Result<_, sqlx::Error> = open.iter().filter_map(occurrence).collect();
        Ok(View { now_ms, tasks: tasks?, next_ms, open: open? })
    }

    /// The tasks that come after a place.
    pub(crate) async fn page(&self, after: &TaskKey) -> Result<Page, Error> {
        let text = format!(
            "SELECT id, {TASK_ROW_COLUMNS} FROM schedule_tasks
             WHERE agent = $1 AND (owner, id) > ($2, $3) ORDER BY owner, id LIMIT $4"
        );
        let rows = sqlx::query(AssertSqlSafe(text))
            .bind(self.agent.as_str())
            .bind(&after.owner)
            .bind(&after.id)
            .bind(PAGE_TASKS_MAX)
            .fetch_all(self.store().open().await?.readers())
            .await?;

        let is_full = i64::try_from(rows.len()).is_ok_and(|count| count >= PAGE_TASKS_MAX);
        let next = match rows.last().filter(|_| is_full) {
            Some(last) => Some(TaskKey { owner: last.try_get("owner")?, id: last.try_get("id")? }),
            None => None,
        };
        let task = |row| TaskRow::read(&self.agent, row).transpose();
        let tasks: Result<_, sqlx::Error> = rows.iter().filter_map(task).collect();
        Ok(Page { tasks: tasks?, next })
    }

    /// Writes as the holder of the lease.
    async fn write<T, F>(&self, lease: &Lease, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: for<'t> FnOnce(&'t mut Transaction) -> BoxFuture<'t, Result<T, toolbus_store::Error>>
            + Send
            + 'static,
    {
        let lease = lease.clone();
        let store = self.store().open().await?;
        let written = store.write(move |transaction| {
            Box::pin(async move {
                lease.check(transaction).await?;
                work(transaction).await
            })
        });
        Ok(written.await?)
    }

    /// Writes down what fires of a task, before any of it runs.
    pub(crate) async fn fire(
        &self,
        lease: &Lease,
        task: &TaskRow,
        firing: &Firing,
        zone: &NamedZone,
    ) -> Result<(), Error> {
        if let Some(missed) = firing.missed {
            let (task, fires) = (&task.name, missed.fires);
            tracing::warn!(task, fires, "a scheduled task was missed");
        }

        let (task, firing, zone) = (task.clone(), firing.clone(), zone.name.clone());
        let history_max = self.schedules.config().history_max;
        let missed = self
            .write(lease, move |transaction| {
                Box::pin(async move {
                    let missed = rows::fire(transaction, &task, &firing, &zone).await?;
                    rows::forget_oldest(transaction, &task.owner, history_max).await?;
                    Ok(missed)
                })
            })
            .await?;
        self.schedules.metrics().count(OccurrenceState::Missed, missed);
        Ok(())
    }

    /// Has a task fire at another time than it is armed for.
    pub(crate) async fn rearm(
        &self,
        lease: &Lease,
        task: &TaskRow,
        next_ms: Option<i64>,
        zone: &NamedZone,
    ) -> Result<(), Error> {
        tracing::debug!(task = task.name, next_ms, "a scheduled task is armed anew");
        let (task, zone) = (task.clone(), zone.name.clone());
        self.write(lease, move |transaction| {
            Box::pin(async move {
                let times = Times { next_ms, accounted_ms: task.accounted_ms };
                rows::rearm(transaction, &task, times, &zone).await?;
                Ok(())
            })
        })
        .await
    }

    /// Says that a run begins. `false`: it must not, for it was cancelled.
    pub(crate) async fn start(&self, lease: &Lease, open: &OpenRow) -> Result<bool, Error> {
        let id = open.id.clone();
        let started_ms = self
            .write(lease, move |transaction| {
                Box::pin(async move {
                    let now = transaction.now_ms().await?;
                    let started = sqlx::query(
                        "UPDATE schedule_occurrences SET state = $2, started_ms = $3
                         WHERE id = $1 AND state = $4",
                    )
                    .bind(id)
                    .bind(OccurrenceState::Running.as_str())
                    .bind(now)
                    .bind(OccurrenceState::Fired.as_str())
                    .execute(transaction.connection())
                    .await?;
                    Ok((started.rows_affected() > 0).then_some(now))
                })
            })
            .await?;

        let Some(started_ms) = started_ms else { return Ok(false) };
        self.schedules.metrics().record_start(started_ms.saturating_sub(open.due_ms));
        Ok(true)
    }

    /// Ends an occurrence.
    pub(crate) async fn end(&self, lease: &Lease, ending: Ending) -> Result<(), Error> {
        let (agent, state) = (self.agent.clone(), ending.to);
        let ended = self
            .write(lease, move |transaction| {
                Box::pin(async move { rows::end(transaction, &agent, ending).await })
            })
            .await?;

        if let Some(skipped) = ended {
            let metrics = self.schedules.metrics();
            metrics.count(state, 1);
            metrics.count(OccurrenceState::Skipped, skipped);
        }
        Ok(())
    }

    /// Has an occurrence wait for another attempt, or gives it up after too many. One whose task is
    /// gone is over.
    pub(crate) async fn put_off(
        &self,
        lease: &Lease,
        open: &OpenRow,
        from: OccurrenceState,
        zone: &TimeZone,
    ) -> Result<(), Error> {
        let config = self.schedules.config();
        let ending = |to, reason: &str| Ending {
            id: open.id.clone(),
            from,
            to,
            reason: reason.to_owned(),
            goes_on_in: Some(zone.clone()),
        };
        let attempts = match PutOff::after(open.attempts, config.retries_max) {
            PutOff::Retry { attempts } => attempts,
            PutOff::GiveUp => {
                tracing::warn!(task = open.name, "a scheduled task is not run: {BUSY}");
                return self.end(lease, ending(OccurrenceState::Skipped, BUSY)).await;
            }
        };

        let (id, interval_ms) = (open.id.clone(), ms(config.retry_interval));
        let waits = self
            .write(lease, move |transaction| {
                Box::pin(async move {
                    let retry_ms = transaction.now_ms().await?.saturating_add(interval_ms);
                    let waits = sqlx::query(
                        "UPDATE schedule_occurrences
                         SET state = $3, attempts = $4, retry_ms = $5, started_ms = NULL
                         WHERE id = $1 AND state = $2 AND generation IN
                             (SELECT generation FROM schedule_tasks)",
                    )
                    .bind(id)
                    .bind(from.as_str())
                    .bind(OccurrenceState::Fired.as_str())
                    .bind(i64::from(attempts))
                    .bind(retry_ms)
                    .execute(transaction.connection())
                    .await?;
                    Ok(waits.rows_affected() > 0)
                })
            })
            .await?;
        match waits {
            true => Ok(()),
            false => self.end(lease, ending(OccurrenceState::Cancelled, TASK_CANCELLED)).await,
        }
    }

    /// Settles what another process has left that had the lease before.
    pub(crate) async fn recover(&self, lease: &Lease) -> Result<(), Error> {
        let View { now_ms, tasks, open, .. } = self.view().await?;
        let rules: HashMap<_, _> =
            tasks.iter().map(|task| (task.generation.as_str(), task.missed)).collect();
        let newest: HashMap<_, _> =
            open.iter().map(|open| (open.generation.as_str(), open.due_ms)).collect();

        for row in &open {
            let left = Left {
                state: row.state,
                cause: row.cause,
                due_ms: row.due_ms,
                is_retried: row.attempts > 0,
                is_newest: newest.get(row.generation.as_str()) == Some(&row.due_ms),
            };
            let rule = rules.get(row.generation.as_str()).copied().unwrap_or(MissedRule::Skip);
            let (to, reason) = match left.recover(rule, now_ms) {
                Recovered::Keep => continue,
                Recovered::Missed => (OccurrenceState::Missed, NOBODY_THERE),
                Recovered::Lost => (OccurrenceState::Lost, PROCESS_ENDED),
            };
            tracing::warn!(task = row.name, state = to.as_str(), "a scheduled task is not run");
            // What went by since was missed, and not skipped.
            let (id, reason) = (row.id.clone(), reason.to_owned());
            let ending = Ending { id, from: row.state, to, reason, goes_on_in: None };
            self.end(lease, ending).await?;
        }
        Ok(())
    }
}
