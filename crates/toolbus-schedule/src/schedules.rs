//! The tasks of a store, for those who schedule, look and cancel.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::tz::TimeZone;
use tokio::sync::Notify;
use toolbus_store::sqlx::{self, AssertSqlSafe, Row as _};
use toolbus_store::{JsonColumn, LazyStore, Transaction};
use toolbus_wire::name::AgentName;
use uuid::Uuid;

use crate::metrics::ScheduleMetrics;
use crate::occurrence::{Cause, OCCURRENCE_COLUMNS, Occurrence, OccurrenceState};
use crate::plan::{MissedRule, Span, next_ms};
use crate::rows::{self, NewOccurrence, TASK_CANCELLED, TASK_REPLACED};
use crate::tables::CHANGES;
use crate::task::{NewTask, TASK_COLUMNS, Task, id_of, parse_description, parse_name};
use crate::{Error, ScheduleConfig, ScheduleOwner, Zones};

/// Most occurrences that are listed.
const HISTORY_LISTED_MAX: u32 = 1_000;

/// The tasks of a store. Clones are the same.
#[derive(Clone)]
pub struct Schedules(Arc<Inner>);

struct Inner {
    store: LazyStore,
    config: ScheduleConfig,
    zones: Arc<dyn Zones>,
    metrics: ScheduleMetrics,
    /// Wakes the scheduler of this process, which may not have opened the store yet.
    nudge: Notify,
    /// Whether somebody may live in another zone since the scheduler has looked at all tasks.
    has_other_zones: AtomicBool,
}

/// What became of a task that was to be scheduled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scheduled {
    /// It fires next at this time, in milliseconds of Unix time.
    Armed {
        /// When.
        next_ms: i64,
    },
    /// There is no time that it would fire at, so nothing was scheduled, nor replaced.
    Never,
}

/// A zone, and its name.
#[derive(Debug, Clone)]
pub(crate) struct NamedZone {
    pub(crate) name: String,
    pub(crate) zone: TimeZone,
}

/// What is to be written of a task.
struct Writing {
    owner: ScheduleOwner,
    id: String,
    name: String,
    principal: String,
    description: String,
    missed: MissedRule,
    task: NewTask,
    zone: NamedZone,
}

impl Schedules {
    /// The tasks of this store, which knows [`MIGRATIONS`](crate::MIGRATIONS).
    #[must_use]
    pub fn new(store: LazyStore, config: ScheduleConfig, zones: Arc<dyn Zones>) -> Self {
        let (metrics, nudge, has_other_zones) =
            (ScheduleMetrics::new(), Notify::new(), AtomicBool::new(false));
        Self(Arc::new(Inner { store, config, zones, metrics, nudge, has_other_zones }))
    }

    pub(crate) fn store(&self) -> &LazyStore {
        &self.0.store
    }

    pub(crate) fn config(&self) -> &ScheduleConfig {
        &self.0.config
    }

    pub(crate) fn metrics(&self) -> &ScheduleMetrics {
        &self.0.metrics
    }

    /// Waits until something was changed through this or a clone.
    pub(crate) async fn nudged(&self) {
        self.0.nudge.notified().await;
    }

    /// Has the scheduler of this process look at all tasks again now, such as when a person has set
    /// another zone. It does so from time to time anyway.
    pub fn wake(&self) {
        self.0.has_other_zones.store(true, Ordering::Relaxed);
        self.nudge();
    }

    /// Has the scheduler of this process look for what is due.
    fn nudge(&self) {
        self.0.nudge.notify_one();
    }

    /// Whether it was [woken](Self::wake) since this was asked last.
    pub(crate) fn take_other_zones(&self) -> bool {
        self.0.has_other_zones.swap(false, Ordering::Relaxed)
    }

    /// The zone whose clocks count for an owner.
    pub(crate) async fn zone(&self, owner: &ScheduleOwner) -> Result<NamedZone, Error> {
        let set = self.0.zones.zone(owner).await?;
        if let Some(name) = set {
            match TimeZone::get(&name) {
                Ok(zone) => return Ok(NamedZone { name, zone }),
                Err(error) => {
                    tracing::warn!(name, %error, "an unknown time zone was set");
                }
            }
        }
        let zone = self.config().zone.clone();
        let name = zone.iana_name().unwrap_or("local time").to_owned();
        Ok(NamedZone { name, zone })
    }

    /// Schedules a task, in place of the one that has its name.
    ///
    /// # Errors
    /// When its name or description is none, there are too many tasks, or it cannot be written.
    pub async fn put(&self, owner: &ScheduleOwner, task: NewTask) -> Result<Scheduled, Error> {
        let name = parse_name(&task.name)?;
        let rule = match task.run_once {
            true => self.config().missed_of_run_once,
            false => self.config().missed,
        };
        let writing = Writing {
            owner: owner.clone(),
            id: id_of(&name),
            name,
            principal: owner.kept_principal()?,
            description: parse_description(&task.description)?,
            missed: task.missed.unwrap_or(rule),
            task,
            zone: self.zone(owner).await?,
        };
        let (tasks_max, agent_tasks_max) = (self.config().tasks_max, self.config().agent_tasks_max);

        let store = self.0.store.open().await?;
        let written = store
            .write(move |transaction| {
                Box::pin(async move {
                    let counted = writing.count_others(transaction).await?;
                    if counted.of_owner >= tasks_max {
                        return Ok(Err(("you have", tasks_max)));
                    }
                    if counted.of_agent >= agent_tasks_max {
                        return Ok(Err(("this agent has", agent_tasks_max)));
                    }
                    writing.write(transaction).await.map(Ok)
                })
            })
            .await?;
        self.nudge();
        written.map_err(|(whose, max)| Error::TooMany { whose, max })
    }

    /// The tasks of an owner, by name.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn list(&self, owner: &ScheduleOwner) -> Result<Vec<Task>, Error> {
        let text = format!(
            "SELECT {TASK_COLUMNS} FROM schedule_tasks WHERE agent = $1 AND owner = $2 ORDER BY id"
        );
        let rows = sqlx::query(AssertSqlSafe(text))
            .bind(owner.agent.as_str())
            .bind(owner.id())
            .fetch_all(self.0.store.open().await?.readers())
            .await?;
        rows.iter().map(|row| Task::read(&owner.agent, row)).collect()
    }

    /// The tasks of everybody with an agent, by name.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn list_all(&self, agent: &AgentName) -> Result<Vec<Task>, Error> {
        let text = format!(
            "SELECT {TASK_COLUMNS} FROM schedule_tasks WHERE agent = $1 ORDER BY id, owner"
        );
        let rows = sqlx::query(AssertSqlSafe(text))
            .bind(agent.as_str())
            .fetch_all(self.0.store.open().await?.readers())
            .await?;
        rows.iter().map(|row| Task::read(agent, row)).collect()
    }

    /// Cancels a task: it does not fire any more, and what is due of it and was not begun is not
    /// run. A run that is under way goes on. Gives its name as it was kept.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn cancel(&self, owner: &ScheduleOwner, name: &str) -> Result<Option<String>, Error> {
        let Ok(name) = parse_name(name) else { return Ok(None) };
        let (agent, key, id) = (owner.agent.to_string(), owner.id(), id_of(&name));

        let store = self.0.store.open().await?;
        let cancelled = store
            .write(move |transaction| {
                Box::pin(async move {
                    let row = sqlx::query(
                        "DELETE FROM schedule_tasks WHERE agent = $1 AND owner = $2 AND id = $3
                         RETURNING name, generation",
                    )
                    .bind(agent)
                    .bind(key)
                    .bind(id)
                    .fetch_optional(transaction.connection())
                    .await?;
                    let Some(row) = row else { return Ok(None) };
                    let generation: String = row.try_get("generation")?;
                    rows::cancel_fired(transaction, &generation, TASK_CANCELLED).await?;
                    transaction.notify(CHANGES);
                    Ok(Some(row.try_get("name")?))
                })
            })
            .await?;
        self.nudge();
        Ok(cancelled)
    }

    /// Has a task run as soon as the agent is free, beside its schedule. `false`: there is none of
    /// this name.
    ///
    /// # Errors
    /// [`Error::AlreadyAsked`] when it waits for such a run already, and when it cannot be written.
    pub async fn run_now(&self, owner: &ScheduleOwner, name: &str) -> Result<bool, Error> {
        let Ok(name) = parse_name(name) else { return Ok(false) };
        let (agent, key, id) = (owner.agent.to_string(), owner.id(), id_of(&name));

        let store = self.0.store.open().await?;
        let asked = store
            .write(move |transaction| {
                Box::pin(async move {
                    let generation: Option<String> = sqlx::query_scalar(
                        "SELECT generation FROM schedule_tasks
                         WHERE agent = $1 AND owner = $2 AND id = $3",
                    )
                    .bind(agent)
                    .bind(key)
                    .bind(id)
                    .fetch_optional(transaction.connection())
                    .await?;
                    match generation {
                        Some(generation) => ask(transaction, &generation).await.map(Some),
                        None => Ok(None),
                    }
                })
            })
            .await?;
        self.nudge();
        match asked {
            Some(false) => Err(Error::AlreadyAsked(name)),
            asked => Ok(asked.is_some()),
        }
    }

    /// What became of the occurrences of an owner's tasks, or of one of them, the latest first.
    /// Those of tasks that are gone are among them.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn history(
        &self,
        owner: &ScheduleOwner,
        name: Option<&str>,
        max: u32,
    ) -> Result<Vec<Occurrence>, Error> {
        let text = format!(
            "SELECT {OCCURRENCE_COLUMNS} FROM schedule_occurrences
             WHERE agent = $1 AND owner = $2 AND ($3 = '' OR task = $3)
             ORDER BY due_ms DESC, id LIMIT $4"
        );
        let rows = sqlx::query(AssertSqlSafe(text))
            .bind(owner.agent.as_str())
            .bind(owner.id())
            .bind(name.map(id_of).unwrap_or_default())
            .bind(i64::from(max.min(HISTORY_LISTED_MAX)))
            .fetch_all(self.0.store.open().await?.readers())
            .await?;
        let read: Result<_, sqlx::Error> = rows.iter().map(Occurrence::read).collect();
        Ok(read?)
    }

    /// The first time after this one, both in milliseconds of Unix time, that a task of an agent is
    /// armed for. `None`: there is none.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn next_fire(&self, agent: &AgentName, after_ms: i64) -> Result<Option<i64>, Error> {
        let next = sqlx::query_scalar(
            "SELECT next_ms FROM schedule_tasks WHERE agent = $1 AND next_ms > $2
             ORDER BY next_ms LIMIT 1",
        )
        .bind(agent.as_str())
        .bind(after_ms);
        Ok(next.fetch_optional(self.0.store.open().await?.readers()).await?)
    }

    /// What time it is for the store, in milliseconds of Unix time.
    ///
    /// # Errors
    /// When the store does not tell.
    pub(crate) async fn now_ms(&self) -> Result<i64, Error> {
        let now = format!("SELECT {}", self.0.store.location().now_ms_sql());
        let store = self.0.store.open().await?;
        Ok(sqlx::query_scalar(AssertSqlSafe(now)).fetch_one(store.readers()).await?)
    }
}

/// How many tasks there are beside one.
struct Counted {
    of_owner: u64,
    of_agent: u64,
}

impl Writing {
    async fn count_others(
        &self,
        transaction: &mut Transaction,
    ) -> Result<Counted, toolbus_store::Error> {
        let row = sqlx::query(
            "SELECT CAST(COALESCE(SUM(CASE WHEN owner = $2 THEN 1 ELSE 0 END), 0) AS BIGINT)
                        AS of_owner,
                    COUNT(*) AS of_agent
             FROM schedule_tasks WHERE agent = $1 AND NOT (owner = $2 AND id = $3)",
        )
        .bind(self.owner.agent.as_str())
        .bind(self.owner.id())
        .bind(&self.id)
        .fetch_one(transaction.connection())
        .await?;
        let (of_owner, of_agent): (i64, i64) = (row.try_get("of_owner")?, row.try_get("of_agent")?);
        Ok(Counted { of_owner: of_owner.unsigned_abs(), of_agent: of_agent.unsigned_abs() })
    }

    async fn write(
        &self,
        transaction: &mut Transaction,
    ) -> Result<Scheduled, toolbus_store::Error> {
        let now = transaction.now_ms().await?;
        let Some(next_ms) = next_ms(&self.task.cron, now, &self.zone.zone) else {
            return Ok(Scheduled::Never);
        };

        let replaced: Option<String> = sqlx::query_scalar(
            "DELETE FROM schedule_tasks WHERE agent = $1 AND owner = $2 AND id = $3
             RETURNING generation",
        )
        .bind(self.owner.agent.as_str())
        .bind(self.owner.id())
        .bind(&self.id)
        .fetch_optional(transaction.connection())
        .await?;
        if let Some(generation) = replaced {
            rows::cancel_fired(transaction, &generation, TASK_REPLACED).await?;
        }

        sqlx::query(
            "INSERT INTO schedule_tasks
             (agent, owner, id, generation, name, principal, cron, zone, run_once, missed,
              missed_max, created_ms, next_ms, description, lineage)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)",
        )
        .bind(self.owner.agent.as_str())
        .bind(self.owner.id())
        .bind(&self.id)
        .bind(Uuid::new_v4().to_string())
        .bind(&self.name)
        .bind(&self.principal)
        .bind(self.task.cron.as_str())
        .bind(&self.zone.name)
        .bind(i64::from(self.task.run_once))
        .bind(self.missed.as_str())
        .bind(i64::from(self.missed.max()))
        .bind(now)
        .bind(next_ms)
        .bind(&self.description)
        .bind(JsonColumn(&self.task.lineage))
        .execute(transaction.connection())
        .await?;
        transaction.notify(CHANGES);
        Ok(Scheduled::Armed { next_ms })
    }
}

/// Has a task run at once. `false`: it waits for such a run already.
async fn ask(
    transaction: &mut Transaction,
    generation: &str,
) -> Result<bool, toolbus_store::Error> {
    let waiting: i64 = sqlx::query_scalar(
        "SELECT COUNT(*) FROM schedule_occurrences
         WHERE generation = $1 AND cause = $2 AND ended_ms IS NULL",
    )
    .bind(generation)
    .bind(Cause::Asked.as_str())
    .fetch_one(transaction.connection())
    .await?;
    if waiting > 0 {
        return Ok(false);
    }

    let now = transaction.now_ms().await?;
    let new = NewOccurrence {
        generation,
        cause: Cause::Asked,
        state: OccurrenceState::Fired,
        reason: "",
        span: Span { first_ms: now, last_ms: now, fires: 1 },
        missed_before: 0,
    };
    transaction.notify(CHANGES);
    new.insert(transaction).await
}
