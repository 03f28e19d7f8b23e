//! Jobs, as rows: each has one owner, one state, and one end.
//!
//! A job is queued until some process of its agent claims it. That process holds a lease on it,
//! which it renews; where the lease runs out, its process is gone, and the job has failed. Every
//! change names the state that it changes, so that of two that come at once one is made.
//!
//! The webhook of a job is due from its end on, by the same write. Whoever takes it makes it due
//! again later than a try may take, so that it is taken up by another process where this one ends.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use toolbus_store::sqlx::any::{AnyArguments, AnyRow};
use toolbus_store::sqlx::{self, AssertSqlSafe, Row as _};
use toolbus_store::{Error, LazyStore};
use toolbus_wire::envelope::new_id;
use toolbus_wire::name::AgentName;
use utoipa::ToSchema;

/// The part of the state that tells of jobs.
pub(crate) const CHANGES: &str = "http-jobs";
/// How long a process has a job without a word of it.
pub(crate) const LEASE_TTL: Duration = Duration::from_secs(20);
/// What is told of a job whose process ended.
pub(crate) const PROCESS_ENDED: &str =
    "the process that ran it ended, and nobody knows how far it came";
const COLUMNS: &str = "id, owner, tool, arguments, timeout_ms, state, created_ms, started_ms, \
     ended_ms, outcome, webhook_url, webhook_state, webhook_attempts";
/// A webhook is due when its job has ended, at the moment `$1`.
const DUE_AT_END: &str =
    "webhook_due_ms = CASE WHEN webhook_url IS NULL THEN NULL ELSE $1 END, ended_ms = $1";

type Statement = sqlx::query::Query<'static, sqlx::Any, AnyArguments>;

/// How far a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum JobStatus {
    /// It waits for its turn, and may be cancelled.
    Queued,
    /// It runs.
    Running,
    /// Its tool has answered.
    Completed,
    /// Its tool has failed, or was not started.
    Failed,
    /// It was cancelled while it waited.
    Canceled,
    /// Its tool did not end in time.
    Timeout,
}

/// A job.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) id: String,
    pub(crate) owner: String,
    pub(crate) tool: String,
    pub(crate) arguments: String,
    pub(crate) timeout_ms: i64,
    pub(crate) status: JobStatus,
    pub(crate) created_ms: i64,
    pub(crate) started_ms: Option<i64>,
    pub(crate) ended_ms: Option<i64>,
    /// The data of its call, or the error, as JSON.
    pub(crate) outcome: Option<String>,
    pub(crate) webhook_url: Option<String>,
    pub(crate) webhook_state: Option<String>,
    /// How often its webhook was tried.
    pub(crate) webhook_attempts: i64,
}

/// A job that is to be queued.
#[derive(Debug, Clone)]
pub(crate) struct NewJob {
    pub(crate) owner: String,
    pub(crate) tool: String,
    pub(crate) arguments: String,
    pub(crate) timeout_ms: i64,
    pub(crate) webhook_url: Option<String>,
}

/// How a job ended.
#[derive(Debug, Clone)]
pub(crate) struct JobEnd {
    pub(crate) status: JobStatus,
    pub(crate) outcome: String,
}

/// What became of a wish to cancel a job.
#[derive(Debug, Clone)]
pub(crate) enum Cancelled {
    Yes(Box<Job>),
    /// It is not queued any more.
    TooLate(Box<Job>),
    /// The owner has none of this id.
    NoJob,
}

/// The jobs of an agent in a store.
#[derive(Clone)]
pub(crate) struct JobRows {
    pub(crate) store: LazyStore,
    pub(crate) agent: AgentName,
    /// This process.
    pub(crate) holder: String,
}

impl JobStatus {
    pub(crate) const ALL: [Self; 6] =
        [Self::Queued, Self::Running, Self::Completed, Self::Failed, Self::Canceled, Self::Timeout];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
            Self::Timeout => "timeout",
        }
    }

    /// Whether nothing more happens to it.
    pub(crate) const fn is_end(self) -> bool {
        !matches!(self, Self::Queued | Self::Running)
    }
}

impl Job {
    fn read(row: &AnyRow) -> Result<Self, sqlx::Error> {
        let state: String = row.try_get("state")?;
        let status = JobStatus::ALL.into_iter().find(|status| status.as_str() == state);
        Ok(Self {
            id: row.try_get("id")?,
            owner: row.try_get("owner")?,
            tool: row.try_get("tool")?,
            arguments: row.try_get("arguments")?,
            timeout_ms: row.try_get("timeout_ms")?,
            status: status.unwrap_or(JobStatus::Failed),
            created_ms: row.try_get("created_ms")?,
            started_ms: row.try_get("started_ms")?,
            ended_ms: row.try_get("ended_ms")?,
            outcome: row.try_get("outcome")?,
            webhook_url: row.try_get("webhook_url")?,
            webhook_state: row.try_get("webhook_state")?,
            webhook_attempts: row.try_get("webhook_attempts")?,
        })
    }
}

impl JobRows {
    /// Queues a job. `None`: the owner has too many that have not ended.
    pub(crate) async fn queue(&self, new: NewJob, open_max: i64) -> Result<Option<Job>, Error> {
        let agent = self.agent.to_string();
        let store = self.store.open().await?;

        store
            .write(move |transaction| {
                Box::pin(async move {
                    let now = transaction.now_ms().await?;
                    let open: i64 = sqlx::query_scalar(
                        "SELECT COUNT(*) FROM http_jobs
                         WHERE agent = $1 AND owner = $2 AND ended_ms IS NULL",
                    )
                    .bind(&*agent)
                    .bind(&*new.owner)
                    .fetch_one(transaction.connection())
                    .await?;
                    if open >= open_max {
                        return Ok(None);
                    }

                    let text = format!(
                        "INSERT INTO http_jobs (id, agent, owner, tool, arguments, timeout_ms,
                             state, created_ms, webhook_url)
                         VALUES ($1, $2, $3, $4, $5, $6, 'queued', $7, $8) RETURNING {COLUMNS}"
                    );
                    let row = sqlx::query(AssertSqlSafe(text))
                        .bind(new_id())
                        .bind(agent)
                        .bind(new.owner)
                        .bind(new.tool)
                        .bind(new.arguments)
                        .bind(new.timeout_ms)
                        .bind(now)
                        .bind(new.webhook_url)
                        .fetch_one(transaction.connection())
                        .await?;
                    transaction.notify(CHANGES);
                    Ok(Some(Job::read(&row)?))
                })
            })
            .await
    }

    /// A job of an owner.
    pub(crate) async fn find(&self, owner: &str, id: &str) -> Result<Option<Job>, Error> {
        let store = self.store.open().await?;
        let text =
            format!("SELECT {COLUMNS} FROM http_jobs WHERE id = $1 AND agent = $2 AND owner = $3");
        let row = sqlx::query(AssertSqlSafe(text))
            .bind(id)
            .bind(self.agent.as_str())
            .bind(owner)
            .fetch_optional(store.readers())
            .await?;
        Ok(row.as_ref().map(Job::read).transpose()?)
    }

    /// Cancels a job that waits for its turn.
    pub(crate) async fn cancel(&self, owner: &str, id: &str) -> Result<Cancelled, Error> {
        let (agent, owner_key, job) = (self.agent.to_string(), owner.to_owned(), id.to_owned());
        let text = format!(
            "UPDATE http_jobs SET state = 'canceled', {DUE_AT_END}
             WHERE id = $2 AND agent = $3 AND owner = $4 AND state = 'queued' RETURNING {COLUMNS}"
        );
        let change = move |now| {
            sqlx::query(AssertSqlSafe(text)).bind(now).bind(job).bind(agent).bind(owner_key)
        };

        if let Some(job) = self.change(change).await?.pop() {
            return Ok(Cancelled::Yes(Box::new(job)));
        }
        let found = self.find(owner, id).await?;
        Ok(found.map_or(Cancelled::NoJob, |job| Cancelled::TooLate(Box::new(job))))
    }

    /// Takes the job that has waited longest.
    pub(crate) async fn claim(&self) -> Result<Option<Job>, Error> {
        let (agent, holder) = (self.agent.to_string(), self.holder.clone());
        let text = format!(
            "UPDATE http_jobs SET state = 'running', holder = $2, started_ms = $3, lease_ms = $4
             WHERE state = 'queued' AND id = (
                 SELECT id FROM http_jobs WHERE agent = $1 AND state = 'queued'
                 ORDER BY created_ms, id LIMIT 1)
             RETURNING {COLUMNS}"
        );
        let change = move |now| {
            let lease = later(now, LEASE_TTL);
            sqlx::query(AssertSqlSafe(text)).bind(agent).bind(holder).bind(now).bind(lease)
        };
        Ok(self.change(change).await?.pop())
    }

    /// Says that this process still runs what it has claimed.
    pub(crate) async fn renew(&self) -> Result<(), Error> {
        let holder = self.holder.clone();
        let renew = move |now| {
            sqlx::query(
                "UPDATE http_jobs SET lease_ms = $2 WHERE holder = $1 AND state = 'running'",
            )
            .bind(holder)
            .bind(later(now, LEASE_TTL))
        };
        self.execute(renew).await
    }

    /// Ends a job that this process runs. `None`: it has come to its end without it.
    pub(crate) async fn end(&self, id: &str, end: JobEnd) -> Result<Option<Job>, Error> {
        let (id, holder) = (id.to_owned(), self.holder.clone());
        let text = format!(
            "UPDATE http_jobs SET state = $4, outcome = $5, {DUE_AT_END}
             WHERE id = $2 AND holder = $3 AND state = 'running' RETURNING {COLUMNS}"
        );
        let change = move |now| {
            let change = sqlx::query(AssertSqlSafe(text)).bind(now).bind(id).bind(holder);
            change.bind(end.status.as_str()).bind(end.outcome)
        };
        Ok(self.change(change).await?.pop())
    }

    /// Ends the jobs of processes that are gone, and gives them.
    pub(crate) async fn end_orphaned(&self, outcome: String) -> Result<Vec<Job>, Error> {
        let agent = self.agent.to_string();
        let text = format!(
            "UPDATE http_jobs SET state = 'failed', outcome = $3, {DUE_AT_END}
             WHERE agent = $2 AND state = 'running' AND lease_ms <= $1 RETURNING {COLUMNS}"
        );
        self.change(move |now| sqlx::query(AssertSqlSafe(text)).bind(now).bind(agent).bind(outcome))
            .await
    }

    /// Forgets jobs that ended longer ago than this.
    pub(crate) async fn forget(&self, retention: Duration) -> Result<(), Error> {
        let agent = self.agent.to_string();
        let forget = move |now: i64| {
            sqlx::query("DELETE FROM http_jobs WHERE agent = $1 AND ended_ms < $2")
                .bind(agent)
                .bind(now.saturating_sub(ms_of(retention)))
        };
        self.execute(forget).await
    }

    /// Takes the webhook that is due longest, and counts the try. Nobody else takes it for `lease`.
    pub(crate) async fn claim_webhook(&self, lease: Duration) -> Result<Option<Job>, Error> {
        let agent = self.agent.to_string();
        let text = format!(
            "UPDATE http_jobs
             SET webhook_due_ms = $3, webhook_attempts = webhook_attempts + 1
             WHERE webhook_due_ms <= $2 AND id = (
                 SELECT id FROM http_jobs WHERE agent = $1 AND webhook_due_ms <= $2
                 ORDER BY webhook_due_ms, id LIMIT 1)
             RETURNING {COLUMNS}"
        );
        let change = move |now| {
            sqlx::query(AssertSqlSafe(text)).bind(agent).bind(now).bind(later(now, lease))
        };
        Ok(self.change(change).await?.pop())
    }

    /// Keeps what became of the webhook of a job, unless somebody has taken it since.
    pub(crate) async fn end_webhook(&self, job: &Job, state: &'static str) -> Result<(), Error> {
        let (id, attempts) = (job.id.clone(), job.webhook_attempts);
        let end = move |_| {
            sqlx::query(
                "UPDATE http_jobs SET webhook_state = $3, webhook_due_ms = NULL
                 WHERE id = $1 AND webhook_attempts = $2 AND webhook_due_ms IS NOT NULL",
            )
            .bind(id)
            .bind(attempts)
            .bind(state)
        };
        self.execute(end).await
    }

    /// Has the webhook of a job tried again, unless somebody has taken it since.
    pub(crate) async fn retry_webhook(&self, job: &Job, backoff: Duration) -> Result<(), Error> {
        let (id, attempts) = (job.id.clone(), job.webhook_attempts);
        let retry = move |now| {
            sqlx::query(
                "UPDATE http_jobs SET webhook_due_ms = $3
                 WHERE id = $1 AND webhook_attempts = $2 AND webhook_due_ms IS NOT NULL",
            )
            .bind(id)
            .bind(attempts)
            .bind(later(now, backoff))
        };
        self.execute(retry).await
    }

    /// Changes jobs by the statement that is made for this moment, tells those who wait for
    /// changes, and gives the jobs as they are then.
    async fn change(
        &self,
        statement: impl FnOnce(i64) -> Statement + Send + 'static,
    ) -> Result<Vec<Job>, Error> {
        let store = self.store.open().await?;
        store
            .write(move |transaction| {
                Box::pin(async move {
                    let now = transaction.now_ms().await?;
                    let rows = statement(now).fetch_all(transaction.connection()).await?;
                    if !rows.is_empty() {
                        transaction.notify(CHANGES);
                    }
                    Ok(rows.iter().map(Job::read).collect::<Result<_, _>>()?)
                })
            })
            .await
    }

    /// Makes a change that nobody waits for.
    async fn execute(
        &self,
        statement: impl FnOnce(i64) -> Statement + Send + 'static,
    ) -> Result<(), Error> {
        let store = self.store.open().await?;
        store
            .write(move |transaction| {
                Box::pin(async move {
                    let now = transaction.now_ms().await?;
                    statement(now).execute(transaction.connection()).await?;
                    Ok(())
                })
            })
            .await
    }
}

fn later(now: i64, time: Duration) -> i64 {
    now.saturating_add(ms_of(time))
}

fn ms_of(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
