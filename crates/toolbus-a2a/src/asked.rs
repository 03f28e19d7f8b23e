//! The rows of tasks for other agents.

use std::time::Duration;

use toolbus_policy::SessionOwner;
use toolbus_store::sqlx::any::AnyRow;
use toolbus_store::sqlx::{self, Row as _};
use toolbus_store::{Error as StoreError, JsonColumn, LazyStore, OwnerId, Transaction};
use toolbus_tools::Lineage;
use toolbus_wire::name::{AgentName, InstanceId};

use crate::config::ms;
use crate::event::TaskChange;
use crate::http_caller::SENT_NEW;
use crate::tables::CHANGES;
use crate::{A2aConfig, Error, TaskLineage};

const OPEN: &str = "open";
const ENDED: &str = "ended";

/// How long a process keeps an event to itself that it is telling, without saying so again.
pub(crate) const TELL_TTL_MS: i64 = 30_000;

/// A task that is to be asked for.
pub(crate) struct NewAsked {
    pub(crate) id: String,
    pub(crate) owner: SessionOwner,
    pub(crate) target: String,
    pub(crate) skill: String,
    pub(crate) timeout_ms: i64,
    /// The lineage of turns that are begun to tell of it.
    pub(crate) lineage: Lineage,
    /// What is sent over HTTP.
    pub(crate) over_http: Option<NewSent>,
}

/// What is sent over HTTP, by whichever process has it.
pub(crate) struct NewSent {
    pub(crate) message: String,
    pub(crate) lineage: TaskLineage,
}

/// A task for another agent.
#[derive(Debug, Clone)]
pub(crate) struct AskedRow {
    pub(crate) id: String,
    pub(crate) owner: SessionOwner,
    pub(crate) target: String,
    pub(crate) skill: String,
    pub(crate) holder: String,
    pub(crate) is_open: bool,
    pub(crate) created_ms: i64,
    pub(crate) deadline_ms: i64,
    pub(crate) cancel_ms: Option<i64>,
    pub(crate) ended_ms: Option<i64>,
    pub(crate) has_event: bool,
    pub(crate) telling_until_ms: i64,
    /// `None`: it cannot be read, so no turn is begun to tell of the task.
    pub(crate) lineage: Option<Lineage>,
}

/// What became of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Recorded {
    /// The task has ended. That is written down, and will be told.
    Ended {
        /// The agent that was asked.
        target: String,
        /// How long it took, in milliseconds.
        took_ms: i64,
    },
    /// It goes on. What the agent says is written down, and will be told.
    GoesOn,
    /// No such task is open: it has ended, or nobody asked for it.
    NotOpen,
    /// Another agent was asked.
    OtherAgent,
}

/// An event that this process is to tell.
pub(crate) struct Claim {
    pub(crate) row: AskedRow,
    /// As it is kept.
    pub(crate) event: String,
}

/// The tasks that an agent has asked others for.
#[derive(Clone)]
pub(crate) struct AskedTasks {
    pub(crate) store: LazyStore,
    pub(crate) agent: AgentName,
    pub(crate) instance: InstanceId,
}

const COLUMNS: &str = "id, agent, owner, session, target, skill, holder, state, created_ms, \
     deadline_ms, cancel_ms, ended_ms, telling_until_ms, lineage, \
     CASE WHEN event = '' THEN 0 ELSE 1 END AS has_event";

impl AskedTasks {
    /// Writes a task down, unless there are too many.
    pub(crate) async fn insert(
        &self,
        new: NewAsked,
        config: &A2aConfig,
    ) -> Result<AskedRow, Error> {
        let (agent, holder) = (self.agent.to_string(), self.instance.to_string());
        let (asked_max, agent_asked_max) = (config.asked_max, config.agent_asked_max);
        let store = self.store.open().await?;
        let written = store
            .write(move |transaction| {
                Box::pin(async move {
                    let owner = OwnerId::new(new.owner.key());
                    let row = sqlx::query(
                        "SELECT CAST(COALESCE(SUM(CASE WHEN owner = $2 THEN 1 ELSE 0 END), 0)
                                AS BIGINT) AS of_owner, COUNT(*) AS of_agent
                         FROM a2a_asked WHERE agent = $1",
                    )
                    .bind(&agent)
                    .bind(owner.clone())
                    .fetch_one(transaction.connection())
                    .await?;
                    let of_owner: i64 = row.try_get("of_owner")?;
                    let of_agent: i64 = row.try_get("of_agent")?;
                    if of_owner.unsigned_abs() >= asked_max {
                        return Ok(Err(("you have", asked_max)));
                    }
                    if of_agent.unsigned_abs() >= agent_asked_max {
                        return Ok(Err(("this agent has", agent_asked_max)));
                    }

                    let now = transaction.now_ms().await?;
                    sqlx::query(
                        "INSERT INTO a2a_asked
                         (id, agent, owner, session, target, skill, holder, state, created_ms,
                          deadline_ms, lineage, event, teller, telling_until_ms)
                         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, '', '', 0)",
                    )
                    .bind(&new.id)
                    .bind(&agent)
                    .bind(owner)
                    .bind(new.owner.session.as_str())
                    .bind(&new.target)
                    .bind(&new.skill)
                    .bind(&holder)
                    .bind(OPEN)
                    .bind(now)
                    .bind(now.saturating_add(new.timeout_ms))
                    .bind(JsonColumn(new.lineage.clone()))
                    .execute(transaction.connection())
                    .await?;
                    if let Some(sent) = &new.over_http {
                        insert_sent(transaction, &new, sent, &agent).await?;
                    }
                    Ok(Ok(AskedRow::open(new, holder, now)))
                })
            })
            .await?;
        written.map_err(|(whose, max)| Error::TooMany { whose, max })
    }

    /// Forgets a task that was not sent.
    pub(crate) async fn forget(&self, id: &str) -> Result<(), Error> {
        let (id, store) = (id.to_owned(), self.store.open().await?);
        let forgotten = store.write(move |transaction| {
            Box::pin(async move {
                sqlx::query("DELETE FROM a2a_asked WHERE id = $1 AND state = $2")
                    .bind(id)
                    .bind(OPEN)
                    .execute(transaction.connection())
                    .await?;
                Ok(())
            })
        });
        Ok(forgotten.await?)
    }

    /// Every task of the agent that is open, or of which something is to be told; and what time it
    /// is.
    pub(crate) async fn view(&self) -> Result<(i64, Vec<AskedRow>), Error> {
        let store = self.store.open().await?;
        let now = format!("SELECT {}", self.store.location().now_ms_sql());
        let now_ms: i64 =
            sqlx::query_scalar(sqlx::AssertSqlSafe(now)).fetch_one(store.readers()).await?;
        let rows = format!("SELECT {COLUMNS} FROM a2a_asked WHERE agent = $1");
        let rows = sqlx::query(sqlx::AssertSqlSafe(rows)).bind(self.agent.as_str());
        let rows = rows.fetch_all(store.readers()).await?;
        let read: Result<Vec<_>, sqlx::Error> = rows.iter().map(|row| self.read(row)).collect();
        Ok((now_ms, read?.into_iter().flatten().collect()))
    }

    /// A task that is open, or of which something is to be told.
    pub(crate) async fn find(&self, id: &str) -> Result<Option<AskedRow>, Error> {
        let text = format!("SELECT {COLUMNS} FROM a2a_asked WHERE id = $1 AND agent = $2");
        let row = sqlx::query(sqlx::AssertSqlSafe(text))
            .bind(id)
            .bind(self.agent.as_str())
            .fetch_optional(self.store.open().await?.readers())
            .await?;
        Ok(row.map(|row| self.read(&row)).transpose()?.flatten())
    }

    /// An open task of an owner.
    pub(crate) async fn find_open(
        &self,
        owner: &SessionOwner,
        id: &str,
    ) -> Result<Option<AskedRow>, Error> {
        let text = format!(
            "SELECT {COLUMNS} FROM a2a_asked
             WHERE id = $1 AND agent = $2 AND owner = $3 AND state = $4"
        );
        let row = sqlx::query(sqlx::AssertSqlSafe(text))
            .bind(id)
            .bind(self.agent.as_str())
            .bind(OwnerId::new(owner.key()))
            .bind(OPEN)
            .fetch_optional(self.store.open().await?.readers())
            .await?;
        Ok(row.map(|row| self.read(&row)).transpose()?.flatten())
    }

    fn read(&self, row: &AnyRow) -> Result<Option<AskedRow>, sqlx::Error> {
        let id: String = row.try_get("id")?;
        let (owner, session): (String, String) = (row.try_get("owner")?, row.try_get("session")?);
        let Some(owner) = SessionOwner::read(&self.agent, &owner, &session) else {
            tracing::warn!(id, "a task for another agent cannot be read");
            return Ok(None);
        };

        let state: String = row.try_get("state")?;
        // A number of either database.
        let has_event = row
            .try_get::<i64, _>("has_event")
            .or_else(|_| row.try_get::<i32, _>("has_event").map(i64::from))?;

        let lineage = JsonColumn::read(row, "lineage", &id)?;
        Ok(Some(AskedRow {
            id,
            owner,
            target: row.try_get("target")?,
            skill: row.try_get("skill")?,
            holder: row.try_get("holder")?,
            is_open: state == OPEN,
            created_ms: row.try_get("created_ms")?,
            deadline_ms: row.try_get("deadline_ms")?,
            cancel_ms: row.try_get("cancel_ms")?,
            ended_ms: row.try_get("ended_ms")?,
            has_event: has_event != 0,
            telling_until_ms: row.try_get("telling_until_ms")?,
            lineage,
        }))
    }

    /// Notes that an open task is to be cancelled.
    pub(crate) async fn mark_cancelled(&self, id: &str) -> Result<(), Error> {
        let (id, store) = (id.to_owned(), self.store.open().await?);
        let marked = store.write(move |transaction| {
            Box::pin(async move {
                let now = transaction.now_ms().await?;
                sqlx::query("UPDATE a2a_asked SET cancel_ms = $2 WHERE id = $1 AND state = $3")
                    .bind(id)
                    .bind(now)
                    .bind(OPEN)
                    .execute(transaction.connection())
                    .await?;
                Ok(())
            })
        });
        Ok(marked.await?)
    }

    /// Writes down how a task ended, once, where `source` is the agent that was asked.
    pub(crate) async fn end(
        &self,
        id: &str,
        source: Option<&str>,
        change: &TaskChange,
    ) -> Result<Recorded, Error> {
        self.record(id, source, change, ENDED).await
    }

    /// Writes down that an agent does not cancel a task, which goes on. `NotOpen`: nobody has asked
    /// it to, so that it means something else.
    pub(crate) async fn refuse_cancel(
        &self,
        id: &str,
        source: &str,
        change: &TaskChange,
    ) -> Result<Recorded, Error> {
        self.record(id, Some(source), change, OPEN).await
    }

    async fn record(
        &self,
        id: &str,
        source: Option<&str>,
        change: &TaskChange,
        state: &'static str,
    ) -> Result<Recorded, Error> {
        let event = serde_json::to_string(change).map_err(|_| Error::Damaged(id.to_owned()))?;
        let (id, agent) = (id.to_owned(), self.agent.to_string());
        let source = source.map(str::to_ascii_lowercase);
        let store = self.store.open().await?;

        let recorded = store.write(move |transaction| {
            Box::pin(async move {
                let found: Option<(String, i64, Option<i64>)> = sqlx::query_as(
                    "SELECT target, created_ms, cancel_ms FROM a2a_asked
                     WHERE id = $1 AND agent = $2 AND state = $3",
                )
                .bind(&id)
                .bind(agent)
                .bind(OPEN)
                .fetch_optional(transaction.connection())
                .await?;
                let Some((target, created_ms, cancel_ms)) = found else {
                    return Ok(Recorded::NotOpen);
                };
                if source.is_some_and(|source| source != target.to_ascii_lowercase()) {
                    return Ok(Recorded::OtherAgent);
                }
                if state == OPEN && cancel_ms.is_none() {
                    return Ok(Recorded::NotOpen);
                }
                let Some(now_ms) = write_event(transaction, &id, &event, state).await? else {
                    // Another process may have ended it in the same moment.
                    return Ok(Recorded::NotOpen);
                };
                Ok(match state {
                    ENDED => Recorded::Ended { target, took_ms: now_ms.saturating_sub(created_ms) },
                    _ => Recorded::GoesOn,
                })
            })
        });
        Ok(recorded.await?)
    }

    /// Takes an event, so that no other process tells it meanwhile.
    pub(crate) async fn claim(&self, row: &AskedRow) -> Result<Option<Claim>, Error> {
        let (id, teller) = (row.id.clone(), self.instance.to_string());
        let store = self.store.open().await?;
        let claimed = store.write(move |transaction| {
            Box::pin(async move {
                let now = transaction.now_ms().await?;
                let event: Option<String> = sqlx::query_scalar(
                    "UPDATE a2a_asked SET teller = $2, telling_until_ms = $3
                     WHERE id = $1 AND event <> '' AND telling_until_ms <= $4 RETURNING event",
                )
                .bind(id)
                .bind(teller)
                .bind(now.saturating_add(TELL_TTL_MS))
                .bind(now)
                .fetch_optional(transaction.connection())
                .await?;
                Ok(event)
            })
        });
        Ok(claimed.await?.map(|event| Claim { row: row.clone(), event }))
    }

    /// Keeps an event to this process for as long again. `false`: it is no longer this one's.
    pub(crate) async fn renew_claim(&self, claim: &Claim) -> Result<bool, Error> {
        let (id, teller) = (claim.row.id.clone(), self.instance.to_string());
        let store = self.store.open().await?;
        let renewed = store.write(move |transaction| {
            Box::pin(async move {
                let now = transaction.now_ms().await?;
                let rows = sqlx::query(
                    "UPDATE a2a_asked SET telling_until_ms = $3 WHERE id = $1 AND teller = $2",
                )
                .bind(id)
                .bind(teller)
                .bind(now.saturating_add(TELL_TTL_MS))
                .execute(transaction.connection())
                .await?;
                Ok(rows.rows_affected() > 0)
            })
        });
        Ok(renewed.await?)
    }

    /// Notes that an event was told, or lets it be told again.
    pub(crate) async fn settle(&self, claim: &Claim, is_told: bool) -> Result<(), Error> {
        let (id, event) = (claim.row.id.clone(), claim.event.clone());
        let (teller, store) = (self.instance.to_string(), self.store.open().await?);

        let settled = store.write(move |transaction| {
            Box::pin(async move {
                if is_told {
                    sqlx::query(
                        "DELETE FROM a2a_asked
                         WHERE id = $1 AND teller = $2 AND event = $3 AND state = $4",
                    )
                    .bind(&id)
                    .bind(&teller)
                    .bind(&event)
                    .bind(ENDED)
                    .execute(transaction.connection())
                    .await?;
                    sqlx::query(
                        "UPDATE a2a_asked SET event = '', cancel_ms = NULL
                         WHERE id = $1 AND teller = $2 AND event = $3",
                    )
                    .bind(&id)
                    .bind(&teller)
                    .bind(event)
                    .execute(transaction.connection())
                    .await?;
                }
                sqlx::query(
                    "UPDATE a2a_asked SET telling_until_ms = 0 WHERE id = $1 AND teller = $2",
                )
                .bind(id)
                .bind(teller)
                .execute(transaction.connection())
                .await?;
                Ok(())
            })
        });
        Ok(settled.await?)
    }

    /// Forgets the ends of tasks that nobody took in all that time.
    pub(crate) async fn forget_untold(&self, config: &A2aConfig) -> Result<u64, Error> {
        let (agent, ttl_ms) = (self.agent.to_string(), ms(config.history_ttl));
        let store = self.store.open().await?;
        let forgotten = store.write(move |transaction| {
            Box::pin(async move {
                let now = transaction.now_ms().await?;
                let rows = sqlx::query("DELETE FROM a2a_asked WHERE agent = $1 AND ended_ms < $2")
                    .bind(agent)
                    .bind(now.saturating_sub(ttl_ms))
                    .execute(transaction.connection())
                    .await?;
                Ok(rows.rows_affected())
            })
        });
        Ok(forgotten.await?)
    }
}

impl AskedRow {
    fn open(new: NewAsked, holder: String, now_ms: i64) -> Self {
        Self {
            id: new.id,
            owner: new.owner,
            target: new.target,
            skill: new.skill,
            holder,
            is_open: true,
            created_ms: now_ms,
            deadline_ms: now_ms.saturating_add(new.timeout_ms),
            cancel_ms: None,
            ended_ms: None,
            has_event: false,
            telling_until_ms: 0,
            lineage: Some(new.lineage),
        }
    }

    /// Whether this process may tell what there is to tell. The process that has asked for the
    /// task is left alone with that for the grace.
    pub(crate) fn may_be_told_by(
        &self,
        instance: &InstanceId,
        now_ms: i64,
        handover_grace: Duration,
    ) -> bool {
        let since_ms = self.ended_ms.or(self.cancel_ms).unwrap_or_default();
        let is_ours = self.holder == instance.as_str()
            || now_ms >= since_ms.saturating_add(ms(handover_grace));
        self.has_event && self.telling_until_ms <= now_ms && is_ours
    }
}

async fn insert_sent(
    transaction: &mut Transaction,
    new: &NewAsked,
    sent: &NewSent,
    agent: &str,
) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO a2a_sent
         (id, agent, state, message, depth, doors, url, version, remote_id, holder,
          lease_until_ms)
         VALUES ($1, $2, $3, $4, $5, $6, '', '', '', '', 0)",
    )
    .bind(&new.id)
    .bind(agent)
    .bind(SENT_NEW)
    // Databases do not keep the character zero.
    .bind(sent.message.replace('\0', "\u{fffd}"))
    .bind(i64::from(sent.lineage.depth))
    .bind(JsonColumn(sent.lineage.doors))
    .execute(transaction.connection())
    .await?;

    Ok(())
}

/// Writes an event into an open task, and says at what time. `None`: it is not open.
async fn write_event(
    transaction: &mut Transaction,
    id: &str,
    event: &str,
    state: &str,
) -> Result<Option<i64>, StoreError> {
    let now = transaction.now_ms().await?;
    let ended_ms = (state == ENDED).then_some(now);
    // Whoever tells what came before tells this, too.
    let written = sqlx::query(
        "UPDATE a2a_asked SET state = $2, event = $3, ended_ms = $4 WHERE id = $1 AND state = $5",
    )
    .bind(id)
    .bind(state)
    .bind(event)
    .bind(ended_ms)
    .bind(OPEN)
    .execute(transaction.connection())
    .await?;
    if written.rows_affected() == 0 {
        return Ok(None);
    }

    transaction.notify(CHANGES);
    Ok(Some(now))
}
