//! Rows of tasks and occurrences, and what is done to them within a transaction.

use jiff::tz::TimeZone;
use toolbus_store::sqlx::any::AnyRow;
use toolbus_store::sqlx::{self, AssertSqlSafe, Row as _};
use toolbus_store::{Error, JsonColumn, Transaction};
use toolbus_tools::Lineage;
use toolbus_wire::name::AgentName;
use uuid::Uuid;

use crate::occurrence::{Cause, OccurrenceState};
use crate::plan::{Armed, Decision, Firing, MissedRule, Overrun, Span};
use crate::schedules::NamedZone;
use crate::task::read_missed;
use crate::{CronExpression, ScheduleOwner};

/// Why an occurrence did not run, or not to its end.
pub(crate) const NOBODY_THERE: &str = "nobody was there to run it";
pub(crate) const OVERRUN: &str = "the run before it was not over";
pub(crate) const BUSY: &str = "the agent was busy for too long";
pub(crate) const PROCESS_ENDED: &str = "its process ended, and nobody knows how far it came";
pub(crate) const TASK_CANCELLED: &str = "the task was cancelled";
pub(crate) const TASK_REPLACED: &str = "the task was replaced";

/// The columns of a [`TaskRow`].
pub(crate) const TASK_ROW_COLUMNS: &str = "generation, name, owner, cron, zone, run_once, \
     missed, missed_max, next_ms, accounted_ms";

/// Longest reason that is kept, in characters.
const REASON_CHARS_MAX: usize = 500;

/// A task as the scheduler sees it.
#[derive(Debug, Clone)]
pub(crate) struct TaskRow {
    pub(crate) owner: ScheduleOwner,
    pub(crate) name: String,
    pub(crate) generation: String,
    pub(crate) cron: CronExpression,
    pub(crate) run_once: bool,
    pub(crate) missed: MissedRule,
    /// The zone that it was armed in.
    pub(crate) zone: String,
    pub(crate) next_ms: Option<i64>,
    pub(crate) accounted_ms: Option<i64>,
}

/// An occurrence that has not come to an end.
#[derive(Debug, Clone)]
pub(crate) struct OpenRow {
    pub(crate) id: String,
    pub(crate) owner: ScheduleOwner,
    pub(crate) generation: String,
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) cause: Cause,
    pub(crate) state: OccurrenceState,
    pub(crate) due_ms: i64,
    pub(crate) missed_before: u64,
    pub(crate) attempts: u32,
    pub(crate) retry_ms: i64,
    /// `None`: it cannot be read, so the occurrence fails.
    pub(crate) lineage: Option<Lineage>,
}

/// How far a task is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// The first time that is not accounted for.
    pub(crate) next_ms: Option<i64>,
    /// The last one that is.
    pub(crate) accounted_ms: Option<i64>,
}

/// How an occurrence ends.
pub(crate) struct Ending {
    pub(crate) id: String,
    /// The state that it is in. In any other it stays as it is.
    pub(crate) from: OccurrenceState,
    pub(crate) to: OccurrenceState,
    pub(crate) reason: String,
    /// By which clocks its task goes on, where what went by meanwhile is skipped.
    pub(crate) goes_on_in: Option<TimeZone>,
}

impl TaskRow {
    /// `None` where what is kept cannot be read: such a task does not fire, and can be cancelled.
    pub(crate) fn read(agent: &AgentName, row: &AnyRow) -> Result<Option<Self>, sqlx::Error> {
        let (name, cron): (String, String) = (row.try_get("name")?, row.try_get("cron")?);
        let owner = ScheduleOwner::read(agent, &row.try_get("owner")?);
        let (Some(owner), Ok(cron)) = (owner, cron.parse()) else {
            tracing::debug!(name, cron, "a scheduled task cannot be read");
            return Ok(None);
        };
        Ok(Some(Self {
            owner,
            name,
            generation: row.try_get("generation")?,
            cron,
            run_once: row.try_get::<i64, _>("run_once")? != 0,
            missed: read_missed(row)?,
            zone: row.try_get("zone")?,
            next_ms: row.try_get("next_ms")?,
            accounted_ms: row.try_get("accounted_ms")?,
        }))
    }

    /// What is to be done about it, where nothing of it is open.
    pub(crate) fn decide(&self, zone: &NamedZone, now_ms: i64) -> Decision {
        match self.armed(&zone.zone).decide(now_ms) {
            // The clocks of both may show the same.
            Decision::Nothing if self.zone != zone.name => {
                Decision::Rearm { next_ms: self.next_ms }
            }
            decision => decision,
        }
    }

    fn armed<'a>(&'a self, zone: &'a TimeZone) -> Armed<'a> {
        Armed {
            cron: &self.cron,
            zone,
            run_once: self.run_once,
            missed: self.missed,
            next_ms: self.next_ms,
            accounted_ms: self.accounted_ms,
        }
    }
}

impl OpenRow {
    pub(crate) fn read(agent: &AgentName, row: &AnyRow) -> Result<Option<Self>, sqlx::Error> {
        let Some(owner) = ScheduleOwner::read(agent, &row.try_get("owner")?) else {
            return Ok(None);
        };
        let attempts: i64 = row.try_get("attempts")?;
        let id: String = row.try_get("id")?;
        Ok(Some(Self {
            lineage: JsonColumn::read(row, "lineage", &id)?,
            id,
            owner,
            generation: row.try_get("generation")?,
            name: row.try_get("name")?,
            description: row.try_get("description")?,
            cause: Cause::of(row.try_get("cause")?),
            state: OccurrenceState::of(row.try_get("state")?),
            due_ms: row.try_get("due_ms")?,
            missed_before: row.try_get::<i64, _>("missed_before")?.unsigned_abs(),
            attempts: u32::try_from(attempts).unwrap_or(u32::MAX),
            retry_ms: row.try_get("retry_ms")?,
        }))
    }
}

/// A new row of a task's occurrences.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewOccurrence<'a> {
    pub(crate) generation: &'a str,
    pub(crate) cause: Cause,
    pub(crate) state: OccurrenceState,
    pub(crate) reason: &'a str,
    pub(crate) span: Span,
    pub(crate) missed_before: u64,
}

impl NewOccurrence<'_> {
    /// Writes it, and says whether there was none of it yet.
    pub(crate) async fn insert(self, transaction: &mut Transaction) -> Result<bool, Error> {
        let now = transaction.now_ms().await?;
        let is_open = matches!(self.state, OccurrenceState::Fired);

        let inserted = sqlx::query(
            "INSERT INTO schedule_occurrences
             (id, agent, owner, task, generation, name, principal, cause, state, reason, due_ms,
              until_ms, fires, missed_before, attempts, retry_ms, fired_ms, ended_ms, description,
              lineage)
             SELECT $1, agent, owner, id, generation, name, principal, $2, $3, $4, $5,
                    $6, $7, $8, 0, 0, $9, $10, description, lineage
             FROM schedule_tasks WHERE generation = $11
             ON CONFLICT (generation, due_ms, cause) DO NOTHING",
        )
        .bind(Uuid::new_v4().to_string())
        .bind(self.cause.as_str())
        .bind(self.state.as_str())
        .bind(self.reason)
        .bind(self.span.first_ms)
        .bind(self.span.last_ms)
        .bind(count(self.span.fires))
        .bind(count(self.missed_before))
        .bind(now)
        .bind((!is_open).then_some(now))
        .bind(self.generation)
        .execute(transaction.connection())
        .await?;
        Ok(inserted.rows_affected() > 0)
    }
}

/// Writes what fires of a task and moves its next time on, unless it is another task meanwhile, or
/// none. It says how many missed times are written.
pub(crate) async fn fire(
    transaction: &mut Transaction,
    task: &TaskRow,
    firing: &Firing,
    zone: &str,
) -> Result<u64, Error> {
    let times = Times { next_ms: firing.next_ms, accounted_ms: Some(firing.accounted_ms) };
    if !rearm(transaction, task, times, zone).await? {
        return Ok(0);
    }

    let new = NewOccurrence {
        generation: &task.generation,
        cause: Cause::Schedule,
        state: OccurrenceState::Fired,
        reason: "",
        span: Span { first_ms: 0, last_ms: 0, fires: 1 },
        missed_before: 0,
    };
    if let Some(span) = firing.missed {
        let state = OccurrenceState::Missed;
        NewOccurrence { state, reason: NOBODY_THERE, span, ..new }.insert(transaction).await?;
    }
    let missed = firing.missed.map_or(0, |span| span.fires);
    let mut missed_before = missed;
    for due_ms in &firing.runs {
        let span = Span { first_ms: *due_ms, last_ms: *due_ms, fires: 1 };
        NewOccurrence { span, missed_before, ..new }.insert(transaction).await?;
        missed_before = 0;
    }
    if firing.ends_task {
        delete_task(transaction, &task.generation).await?;
    }
    Ok(missed)
}

/// Moves a task on to its next time.
pub(crate) async fn rearm(
    transaction: &mut Transaction,
    task: &TaskRow,
    times: Times,
    zone: &str,
) -> Result<bool, Error> {
    let moved = sqlx::query(
        "UPDATE schedule_tasks SET next_ms = $3, accounted_ms = $4, zone = $5
         WHERE generation = $1 AND COALESCE(next_ms, -1) = $2",
    )
    .bind(&task.generation)
    .bind(task.next_ms.unwrap_or(-1))
    .bind(times.next_ms)
    .bind(times.accounted_ms)
    .bind(zone)
    .execute(transaction.connection())
    .await?;
    Ok(moved.rows_affected() > 0)
}

async fn delete_task(transaction: &mut Transaction, generation: &str) -> Result<(), Error> {
    sqlx::query("DELETE FROM schedule_tasks WHERE generation = $1")
        .bind(generation)
        .execute(transaction.connection())
        .await?;
    Ok(())
}

/// Ends an occurrence, has its task go on or be over, and says how many times of that were skipped
/// meanwhile. `None`: it was not in that state.
pub(crate) async fn end(
    transaction: &mut Transaction,
    agent: &AgentName,
    ending: Ending,
) -> Result<Option<u64>, Error> {
    let now = transaction.now_ms().await?;
    let Ending { id, from, to, reason, goes_on_in } = ending;
    let reason: String = reason.replace('\0', "").chars().take(REASON_CHARS_MAX).collect();
    let ended = sqlx::query(
        "UPDATE schedule_occurrences SET state = $3, reason = $4, ended_ms = $5
         WHERE id = $1 AND state = $2 RETURNING generation, started_ms",
    )
    .bind(id)
    .bind(from.as_str())
    .bind(to.as_str())
    .bind(reason)
    .bind(now)
    .fetch_optional(transaction.connection())
    .await?;
    let Some(ended) = ended else { return Ok(None) };
    let generation: String = ended.try_get("generation")?;
    let started_ms: Option<i64> = ended.try_get("started_ms")?;

    if matches!(to, OccurrenceState::Done | OccurrenceState::Failed) {
        sqlx::query("UPDATE schedule_tasks SET last_fired_ms = $2 WHERE generation = $1")
            .bind(&generation)
            .bind(started_ms)
            .execute(transaction.connection())
            .await?;
    }
    let open: i64 = sqlx::query_scalar(
        "SELECT COUNT(*) FROM schedule_occurrences WHERE generation = $1 AND ended_ms IS NULL",
    )
    .bind(&generation)
    .fetch_one(transaction.connection())
    .await?;
    if open > 0 {
        return Ok(Some(0));
    }
    go_on(transaction, agent, &generation, goes_on_in.as_ref()).await.map(Some)
}

/// Removes a task that has run once, or skips what went by while it ran, and says how much.
async fn go_on(
    transaction: &mut Transaction,
    agent: &AgentName,
    generation: &str,
    zone: Option<&TimeZone>,
) -> Result<u64, Error> {
    let text = format!("SELECT {TASK_ROW_COLUMNS} FROM schedule_tasks WHERE generation = $1");
    let row = sqlx::query(AssertSqlSafe(text)).bind(generation);
    let row = row.fetch_optional(transaction.connection()).await?;
    let Some(row) = row else { return Ok(0) };
    let Some(task) = TaskRow::read(agent, &row)? else { return Ok(0) };
    if task.run_once && task.next_ms.is_none() {
        delete_task(transaction, generation).await?;
        return Ok(0);
    }

    let now = transaction.now_ms().await?;
    let Some(zone) = zone else { return Ok(0) };
    let Some(Overrun { skipped, next_ms }) = task.armed(zone).overrun(now) else { return Ok(0) };
    let new = NewOccurrence {
        generation,
        cause: Cause::Schedule,
        state: OccurrenceState::Skipped,
        reason: OVERRUN,
        span: skipped,
        missed_before: 0,
    };
    let is_new = new.insert(transaction).await?;
    let times = Times { next_ms, accounted_ms: Some(skipped.last_ms) };
    rearm(transaction, &task, times, &task.zone).await?;
    Ok(if is_new { skipped.fires } else { 0 })
}

/// Takes back what is due of a task and was not begun.
pub(crate) async fn cancel_fired(
    transaction: &mut Transaction,
    generation: &str,
    reason: &str,
) -> Result<(), Error> {
    let now = transaction.now_ms().await?;
    sqlx::query(
        "UPDATE schedule_occurrences SET state = $2, reason = $3, ended_ms = $4
         WHERE generation = $1 AND state = $5",
    )
    .bind(generation)
    .bind(OccurrenceState::Cancelled.as_str())
    .bind(reason)
    .bind(now)
    .bind(OccurrenceState::Fired.as_str())
    .execute(transaction.connection())
    .await?;
    Ok(())
}

/// Forgets the oldest occurrences that have ended, of an owner.
pub(crate) async fn forget_oldest(
    transaction: &mut Transaction,
    owner: &ScheduleOwner,
    history_max: u64,
) -> Result<(), Error> {
    sqlx::query(
        "DELETE FROM schedule_occurrences WHERE id IN (
             SELECT id FROM schedule_occurrences
             WHERE agent = $1 AND owner = $2 AND ended_ms IS NOT NULL
             ORDER BY due_ms DESC, id LIMIT 1000 OFFSET $3)",
    )
    .bind(owner.agent.as_str())
    .bind(owner.id())
    .bind(count(history_max))
    .execute(transaction.connection())
    .await?;
    Ok(())
}

fn count(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
