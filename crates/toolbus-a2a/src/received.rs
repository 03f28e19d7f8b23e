//! The rows of tasks that others have sent.

use toolbus_store::sqlx::any::AnyRow;
use toolbus_store::sqlx::{self, Row as _};
use toolbus_store::{JsonColumn, LazyStore, Transaction};
use toolbus_wire::name::{AgentName, InstanceId};

use crate::config::ms;
use crate::http_rows::is_http;
use crate::metrics::{Direction, EndedTask, Outcome, TaskMetrics, Transport};
use crate::tables::{CHANGES, HTTP_CHANGES};
use crate::{A2aConfig, Error, TaskLineage};

pub(crate) const RUNNING: &str = "running";
pub(crate) const ENDED: &str = "ended";

/// Forgets answered tasks beyond so many, the oldest of the clients that have most of them, so that
/// no client flushes the tasks of another. Names on the bus are free, so all callers there together
/// are one client; among them the same holds of each caller.
const FORGET_OF_MOST: &str = "DELETE FROM a2a_tasks WHERE agent = $1 AND (caller, id) IN (
         SELECT caller, id FROM (
             SELECT caller, id, ROW_NUMBER() OVER
                        (ORDER BY place, answered_ms DESC, caller, id) AS standing
             FROM (SELECT caller, id, answered_ms, ROW_NUMBER() OVER
                              (PARTITION BY client
                               ORDER BY caller_place, answered_ms DESC, caller, id) AS place
                   FROM (SELECT caller, id, answered_ms,
                                CASE WHEN substr(caller, 1, 5) = 'http:' THEN caller ELSE '' END
                                    AS client,
                                ROW_NUMBER() OVER
                                    (PARTITION BY caller ORDER BY answered_ms DESC, id)
                                    AS caller_place
                         FROM a2a_tasks WHERE agent = $1 AND answered_ms IS NOT NULL) AS of_callers
                  ) AS of_clients
             ) AS ranked
         WHERE standing > $2)";

/// Whose task it is, and which.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct TaskKey {
    pub(crate) caller: String,
    pub(crate) id: String,
}

/// A task that was received.
#[derive(Debug, Clone)]
pub(crate) struct NewReceived {
    pub(crate) key: TaskKey,
    pub(crate) reply_to: String,
    pub(crate) lineage: TaskLineage,
    pub(crate) context_id: Option<String>,
    pub(crate) timeout_ms: i64,
    /// The body of the request.
    pub(crate) request: String,
}

/// How a task was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) message_type: String,
    pub(crate) body: String,
}

/// What is to be done about a task that was received.
pub(crate) enum Begun {
    /// It is this process's to do.
    Ours,
    /// It is being done, here or elsewhere, or will be taken up.
    UnderWay,
    /// It was answered.
    Answered(Answer),
    /// There are too many.
    Full,
}

/// What is to be done about a wish to cancel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CancelNoted {
    /// Whoever does it stops.
    Stops,
    /// It has ended.
    Ended,
    /// It has not come, and will not be done if it comes.
    NotThere,
}

/// What is known of a task that this process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    /// It goes on.
    Held,
    /// It is to be cancelled.
    Cancelled,
    /// Another process has it.
    Lost,
}

/// A task of a process that was lost.
pub(crate) struct Orphan {
    pub(crate) new: NewReceived,
    /// How often it was begun, this time included.
    pub(crate) begun: i64,
}

/// An answer that was not published.
pub(crate) struct Unanswered {
    pub(crate) key: TaskKey,
    pub(crate) reply_to: String,
    pub(crate) answer: Answer,
}

/// The tasks that others have sent to an agent.
#[derive(Clone)]
pub(crate) struct ReceivedTasks {
    pub(crate) store: LazyStore,
    pub(crate) agent: AgentName,
    pub(crate) instance: InstanceId,
    pub(crate) lease_ms: i64,
    pub(crate) history_max: u64,
    pub(crate) metrics: TaskMetrics,
}

impl ReceivedTasks {
    /// Writes a task down as this process's, unless it is there.
    pub(crate) async fn begin(&self, new: &NewReceived) -> Result<Begun, Error> {
        let (new, this) = (new.clone(), self.clone());
        let store = self.store.open().await?;
        let begun = store.write(move |transaction| {
            Box::pin(async move {
                if let Some(found) = this.find(transaction, &new.key).await? {
                    return Ok(found);
                }
                if this.is_full(transaction).await? {
                    return Ok(Begun::Full);
                }

                let now = transaction.now_ms().await?;
                let inserted = sqlx::query(
                    "INSERT INTO a2a_tasks
                     (agent, caller, id, state, holder, lease_until_ms, begun, received_ms,
                      deadline_ms, reply_to, depth, doors, request, context, answer_type, answer)
                     VALUES ($1, $2, $3, $4, $5, $6, 1, $7, $8, $9, $10, $11, $12, $13, '', '')
                     ON CONFLICT DO NOTHING",
                )
                .bind(this.agent.as_str())
                .bind(new.key.caller)
                .bind(new.key.id)
                .bind(RUNNING)
                .bind(this.instance.as_str())
                .bind(now.saturating_add(this.lease_ms))
                .bind(now)
                .bind(now.saturating_add(new.timeout_ms))
                .bind(new.reply_to)
                .bind(i64::from(new.lineage.depth))
                .bind(JsonColumn(new.lineage.doors))
                .bind(new.request)
                .bind(new.context_id.map(|context| context.replace('\0', "\u{fffd}")))
                .execute(transaction.connection())
                .await?;
                // Another process may have written it in the same moment.
                Ok(match inserted.rows_affected() {
                    0 => Begun::UnderWay,
                    _ => Begun::Ours,
                })
            })
        });
        Ok(begun.await?)
    }

    async fn find(
        &self,
        transaction: &mut Transaction,
        key: &TaskKey,
    ) -> Result<Option<Begun>, toolbus_store::Error> {
        let row = sqlx::query(
            "SELECT state, answer_type, answer FROM a2a_tasks
             WHERE agent = $1 AND caller = $2 AND id = $3",
        )
        .bind(self.agent.as_str())
        .bind(&key.caller)
        .bind(&key.id)
        .fetch_optional(transaction.connection())
        .await?;
        let Some(row) = row else { return Ok(None) };
        let state: String = row.try_get("state")?;
        Ok(Some(match state == ENDED {
            true => Begun::Answered(Answer::read(&row)?),
            false => Begun::UnderWay,
        }))
    }

    pub(crate) async fn is_full(
        &self,
        transaction: &mut Transaction,
    ) -> Result<bool, toolbus_store::Error> {
        let count: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM a2a_tasks WHERE agent = $1")
            .bind(self.agent.as_str())
            .fetch_one(transaction.connection())
            .await?;
        Ok(count.unsigned_abs() >= self.history_max)
    }

    /// Keeps a task to this process for as long again, and says what is known of it.
    pub(crate) async fn renew(&self, key: &TaskKey) -> Result<Hold, Error> {
        let (key, this) = (key.clone(), self.clone());
        let store = self.store.open().await?;
        let held = store.write(move |transaction| {
            Box::pin(async move {
                let now = transaction.now_ms().await?;
                let row = sqlx::query(
                    "UPDATE a2a_tasks SET lease_until_ms = $6
                     WHERE agent = $1 AND caller = $2 AND id = $3 AND state = $4 AND holder = $5
                     RETURNING cancel_ms",
                )
                .bind(this.agent.as_str())
                .bind(key.caller)
                .bind(key.id)
                .bind(RUNNING)
                .bind(this.instance.as_str())
                .bind(now.saturating_add(this.lease_ms))
                .fetch_optional(transaction.connection())
                .await?;

                let Some(row) = row else { return Ok(Hold::Lost) };
                let cancel_ms: Option<i64> = row.try_get("cancel_ms")?;
                Ok(if cancel_ms.is_some() { Hold::Cancelled } else { Hold::Held })
            })
        });
        Ok(held.await?)
    }

    /// Writes down how a task ended, and counts it. `false`: another process has it.
    pub(crate) async fn end(
        &self,
        key: &TaskKey,
        answer: &Answer,
        outcome: Outcome,
    ) -> Result<bool, Error> {
        let is_http = is_http(&key.caller);
        let (key, answer, this) = (key.clone(), answer.clone(), self.clone());
        let store = self.store.open().await?;

        let end_state = answer.end_state();
        let ended = store.write(move |transaction| {
            Box::pin(async move {
                let now = transaction.now_ms().await?;
                if is_http {
                    transaction.notify(HTTP_CHANGES);
                }
                let received_ms: Option<i64> = sqlx::query_scalar(
                    "UPDATE a2a_tasks SET state = $6, answer_type = $7, answer = $8,
                            ended_ms = $9, request = '', lease_until_ms = $10,
                            answered_ms = $11, end_state = $12
                     WHERE agent = $1 AND caller = $2 AND id = $3 AND state = $4 AND holder = $5
                     RETURNING received_ms",
                )
                .bind(this.agent.as_str())
                .bind(key.caller)
                .bind(key.id)
                .bind(RUNNING)
                .bind(this.instance.as_str())
                .bind(ENDED)
                .bind(answer.message_type)
                .bind(answer.body)
                .bind(now)
                .bind(now.saturating_add(this.lease_ms))
                // The row is the answer of those.
                .bind(is_http.then_some(now))
                .bind(end_state)
                .fetch_optional(transaction.connection())
                .await?;
                Ok(received_ms.map(|received_ms| now.saturating_sub(received_ms)))
            })
        });

        let Some(took_ms) = ended.await? else { return Ok(false) };
        self.count_end(Transport::of(is_http), outcome, took_ms);
        Ok(true)
    }

    pub(crate) fn count_end(&self, transport: Transport, outcome: Outcome, took_ms: i64) {
        let direction = Direction::Received;
        self.metrics.record(EndedTask { direction, transport, outcome, took_ms });
    }

    /// Notes that an answer is published.
    pub(crate) async fn mark_answered(&self, key: &TaskKey) -> Result<(), Error> {
        let (key, agent) = (key.clone(), self.agent.to_string());
        let store = self.store.open().await?;

        let marked = store.write(move |transaction| {
            Box::pin(async move {
                let now = transaction.now_ms().await?;
                sqlx::query(
                    "UPDATE a2a_tasks SET answered_ms = $5
                     WHERE agent = $1 AND caller = $2 AND id = $3 AND state = $4",
                )
                .bind(agent)
                .bind(key.caller)
                .bind(key.id)
                .bind(ENDED)
                .bind(now)
                .execute(transaction.connection())
                .await?;
                Ok(())
            })
        });
        Ok(marked.await?)
    }

    /// Notes that a task is to be cancelled, also one that has not come yet: the messages that
    /// bring and cancel it may overtake each other. That one is answered with `cancelled`.
    pub(crate) async fn cancel(
        &self,
        key: &TaskKey,
        cancelled: &Answer,
    ) -> Result<CancelNoted, Error> {
        let (key, cancelled, this) = (key.clone(), cancelled.clone(), self.clone());
        let store = self.store.open().await?;
        let noted = store.write(move |transaction| {
            Box::pin(async move {
                match this.find(transaction, &key).await? {
                    Some(Begun::Answered(_)) => return Ok(CancelNoted::Ended),
                    Some(_) => {
                        this.note_cancel(transaction, &key).await?;
                        return Ok(CancelNoted::Stops);
                    }
                    None => {}
                }

                if this.is_full(transaction).await?
                    || this.insert_cancelled(transaction, &key, cancelled).await?
                {
                    return Ok(CancelNoted::NotThere);
                }
                // It has come in the same moment.
                this.note_cancel(transaction, &key).await?;
                Ok(CancelNoted::Stops)
            })
        });
        Ok(noted.await?)
    }

    pub(crate) async fn note_cancel(
        &self,
        transaction: &mut Transaction,
        key: &TaskKey,
    ) -> Result<(), toolbus_store::Error> {
        let now = transaction.now_ms().await?;
        sqlx::query(
            "UPDATE a2a_tasks SET cancel_ms = $4 WHERE agent = $1 AND caller = $2 AND id = $3",
        )
        .bind(self.agent.as_str())
        .bind(&key.caller)
        .bind(&key.id)
        .bind(now)
        .execute(transaction.connection())
        .await?;
        transaction.notify(CHANGES);
        Ok(())
    }

    async fn insert_cancelled(
        &self,
        transaction: &mut Transaction,
        key: &TaskKey,
        cancelled: Answer,
    ) -> Result<bool, toolbus_store::Error> {
        let now = transaction.now_ms().await?;

        let inserted = sqlx::query(
            "INSERT INTO a2a_tasks
             (agent, caller, id, state, holder, lease_until_ms, begun, received_ms, deadline_ms,
              cancel_ms, ended_ms, answered_ms, reply_to, depth, request, answer_type, answer)
             VALUES ($1, $2, $3, $4, '', 0, 0, $5, $5, $5, $5, $5, '', 0, '', $6, $7)
             ON CONFLICT DO NOTHING",
        )
        .bind(self.agent.as_str())
        .bind(&key.caller)
        .bind(&key.id)
        .bind(ENDED)
        .bind(now)
        .bind(cancelled.message_type)
        .bind(cancelled.body)
        .execute(transaction.connection())
        .await?;
        Ok(inserted.rows_affected() > 0)
    }

    /// Takes up a task that a process has left which was lost, if there is one.
    pub(crate) async fn take_orphan(&self) -> Result<Option<Orphan>, Error> {
        let this = self.clone();
        let store = self.store.open().await?;
        let taken = store.write(move |transaction| {
            Box::pin(async move {
                let now = transaction.now_ms().await?;
                let row = sqlx::query(
                    "SELECT caller, id, context, reply_to, depth, doors, request, deadline_ms, begun
                     FROM a2a_tasks
                     WHERE agent = $1 AND state = $2 AND lease_until_ms <= $3
                     ORDER BY received_ms LIMIT 1",
                )
                .bind(this.agent.as_str())
                .bind(RUNNING)
                .bind(now)
                .fetch_optional(transaction.connection())
                .await?;
                let Some(row) = row else { return Ok(None) };
                let key = TaskKey { caller: row.try_get("caller")?, id: row.try_get("id")? };
                let begun = row.try_get::<i64, _>("begun")?.saturating_add(1);

                // Two processes of PostgreSQL may have read the same.
                let rows = sqlx::query(
                    "UPDATE a2a_tasks SET holder = $5, lease_until_ms = $6, begun = $7
                     WHERE agent = $1 AND caller = $2 AND id = $3 AND lease_until_ms <= $4
                           AND state = $8",
                )
                .bind(this.agent.as_str())
                .bind(&key.caller)
                .bind(&key.id)
                .bind(now)
                .bind(this.instance.as_str())
                .bind(now.saturating_add(this.lease_ms))
                .bind(begun)
                .bind(RUNNING)
                .execute(transaction.connection())
                .await?;
                if rows.rows_affected() == 0 {
                    return Ok(None);
                }
                if is_http(&key.caller) {
                    transaction.notify(HTTP_CHANGES);
                }

                let deadline_ms: i64 = row.try_get("deadline_ms")?;
                let new = NewReceived {
                    context_id: row.try_get("context")?,
                    key,
                    reply_to: row.try_get("reply_to")?,
                    lineage: TaskLineage::read_row(&row)?,
                    timeout_ms: deadline_ms.saturating_sub(now),
                    request: row.try_get("request")?,
                };
                Ok(Some(Orphan { new, begun }))
            })
        });
        Ok(taken.await?)
    }

    /// An answer that was not published by whoever has written it, kept to this process for a
    /// while.
    pub(crate) async fn take_unanswered(&self) -> Result<Option<Unanswered>, Error> {
        let this = self.clone();
        let store = self.store.open().await?;
        let taken = store.write(move |transaction| {
            Box::pin(async move {
                let now = transaction.now_ms().await?;
                let row = sqlx::query(
                    "SELECT caller, id, reply_to, answer_type, answer FROM a2a_tasks
                     WHERE agent = $1 AND state = $2 AND answered_ms IS NULL
                           AND lease_until_ms <= $3
                     ORDER BY ended_ms LIMIT 1",
                )
                .bind(this.agent.as_str())
                .bind(ENDED)
                .bind(now)
                .fetch_optional(transaction.connection())
                .await?;

                let Some(row) = row else { return Ok(None) };
                let key = TaskKey { caller: row.try_get("caller")?, id: row.try_get("id")? };
                let rows = sqlx::query(
                    "UPDATE a2a_tasks SET lease_until_ms = $4
                     WHERE agent = $1 AND caller = $2 AND id = $3 AND lease_until_ms <= $5",
                )
                .bind(this.agent.as_str())
                .bind(&key.caller)
                .bind(&key.id)
                .bind(now.saturating_add(this.lease_ms))
                .bind(now)
                .execute(transaction.connection())
                .await?;
                if rows.rows_affected() == 0 {
                    return Ok(None);
                }

                let (reply_to, answer) = (row.try_get("reply_to")?, Answer::read(&row)?);
                Ok(Some(Unanswered { key, reply_to, answer }))
            })
        });
        Ok(taken.await?)
    }

    /// Whether there is something that is not answered.
    pub(crate) async fn has_open(&self) -> Result<bool, Error> {
        let open: i64 = sqlx::query_scalar(
            "SELECT COUNT(*) FROM a2a_tasks WHERE agent = $1 AND answered_ms IS NULL",
        )
        .bind(self.agent.as_str())
        .fetch_one(self.store.open().await?.readers())
        .await?;
        Ok(open > 0)
    }

    /// Lets others take up what this process has, at once.
    pub(crate) async fn release(&self) -> Result<(), Error> {
        let this = self.clone();
        let store = self.store.open().await?;
        let released = store.write(move |transaction| {
            Box::pin(async move {
                sqlx::query(
                    "UPDATE a2a_tasks SET lease_until_ms = 0
                     WHERE agent = $1 AND holder = $2 AND answered_ms IS NULL",
                )
                .bind(this.agent.as_str())
                .bind(this.instance.as_str())
                .execute(transaction.connection())
                .await?;
                Ok(())
            })
        });
        Ok(released.await?)
    }

    /// Forgets tasks that were answered long ago, and where there are many the oldest of the
    /// clients that have most.
    pub(crate) async fn forget(&self, config: &A2aConfig) -> Result<(), Error> {
        let (this, ttl_ms) = (self.clone(), ms(config.history_ttl));
        // Room for those that come until this is done again.
        let kept = i64::try_from(config.history_max / 10 * 9).unwrap_or(i64::MAX);
        let store = self.store.open().await?;

        let forgotten = store.write(move |transaction| {
            Box::pin(async move {
                let now = transaction.now_ms().await?;
                sqlx::query("DELETE FROM a2a_tasks WHERE agent = $1 AND answered_ms < $2")
                    .bind(this.agent.as_str())
                    .bind(now.saturating_sub(ttl_ms))
                    .execute(transaction.connection())
                    .await?;
                sqlx::query(FORGET_OF_MOST)
                    .bind(this.agent.as_str())
                    .bind(kept)
                    .execute(transaction.connection())
                    .await?;
                Ok(())
            })
        });
        Ok(forgotten.await?)
    }
}

impl Answer {
    pub(crate) fn read(row: &AnyRow) -> Result<Self, sqlx::Error> {
        Ok(Self { message_type: row.try_get("answer_type")?, body: row.try_get("answer")? })
    }
}
