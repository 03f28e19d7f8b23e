//! The rows of tasks that clients over HTTP have sent: the same rows as those of the bus, whose
//! callers have names that no agent on the bus can have.
//!
//! A task that comes over HTTP waits as a row without a holder. Whichever process has room takes it
//! up, as it would one that another process has left. Its answer is its row: nothing is published.

use std::sync::Arc;

use toolbus_policy::{owner_text, parse_owner};
use toolbus_store::sqlx::any::AnyRow;
use toolbus_store::sqlx::{self, Row as _};
use toolbus_store::{Error as StoreError, JsonColumn, Transaction};
use toolbus_tools::Principal;
use toolbus_wire::message::a2a::{AgentTaskError, AgentTaskResult, AgentTaskState};
use toolbus_wire::{Message as _, json};

use crate::metrics::{Outcome, Transport};
use crate::received::{Answer, ENDED, RUNNING, ReceivedTasks, TaskKey};
use crate::tables::HTTP_CHANGES;
use crate::{Error, TaskLineage};

/// What the names of callers over HTTP begin with.
const HTTP_CALLER: &str = "http:";

const COLUMNS: &str = "caller, id, context, state, begun, received_ms, ended_ms, \
     end_state, message_id, answer_type, answer";

/// The caller of a client over HTTP.
pub(crate) fn caller_of(client: &Principal) -> String {
    format!("{HTTP_CALLER}{}", owner_text(client))
}

/// Whether a caller is a client over HTTP.
pub(crate) fn is_http(caller: &str) -> bool {
    caller.starts_with(HTTP_CALLER)
}

/// The client that a caller is.
pub(crate) fn client_of(caller: &str) -> Option<Principal> {
    parse_owner(caller.strip_prefix(HTTP_CALLER)?).ok()
}

/// A task that a client sends.
#[derive(Debug, Clone)]
pub(crate) struct NewEntry {
    pub(crate) key: TaskKey,
    pub(crate) message_id: String,
    /// The context that the client names.
    pub(crate) context_id: Option<String>,
    /// The one that the task has where the client names none.
    pub(crate) new_context_id: String,
    pub(crate) lineage: TaskLineage,
    pub(crate) timeout_ms: i64,
    /// The request as the work is given it.
    pub(crate) request: String,
}

/// How many tasks may be open.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenLimits {
    pub(crate) of_client: u64,
    pub(crate) of_all: u64,
}

/// Why a task is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotEntered {
    /// There are as many as there may be.
    Full,
    /// The client has no such task.
    NotFound,
    /// It is in another context.
    OtherContext,
    /// It is over, or goes on without an answer.
    NotWaiting(AgentTaskState),
}

/// What became of the wish to cancel a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HttpCancel {
    NotFound,
    /// It is over.
    Ended,
    /// It was not begun and is over now, or whoever does it stops.
    Noted,
}

/// A task as its client sees it.
#[derive(Debug, Clone)]
pub(crate) struct TaskView {
    pub(crate) id: String,
    pub(crate) context_id: String,
    pub(crate) state: AgentTaskState,
    pub(crate) updated_ms: i64,
    /// What it said last, where it is done in this process.
    pub(crate) progress: Option<Arc<str>>,
    /// How it ended, once it has.
    pub(crate) answer: Option<Answer>,
    message_id: String,
}

/// Which tasks are listed.
#[derive(Debug, Clone, Default)]
pub(crate) struct ListFilter {
    pub(crate) context_id: Option<String>,
    pub(crate) state: Option<AgentTaskState>,
    /// Changed then or later, in milliseconds of Unix time.
    pub(crate) since_ms: i64,
    pub(crate) offset: i64,
    pub(crate) count: i64,
}

impl ReceivedTasks {
    /// Writes a task down, which waits for whoever has room. One that is there is as it is: the
    /// same message is one task.
    pub(crate) async fn enter(
        &self,
        new: NewEntry,
        limits: OpenLimits,
    ) -> Result<Result<(), NotEntered>, Error> {
        let this = self.clone();
        let store = self.store.open().await?;
        let entered = store.write(move |transaction| {
            Box::pin(async move {
                if this.read_view(transaction, &new.key).await?.is_some() {
                    return Ok(Ok(()));
                }
                if this.is_full(transaction).await?
                    || this.has_too_many_open(transaction, &new.key.caller, limits).await?
                {
                    return Ok(Err(NotEntered::Full));
                }

                let now = transaction.now_ms().await?;
                let context_id = new.context_id.unwrap_or(new.new_context_id);
                sqlx::query(
                    "INSERT INTO a2a_tasks
                     (agent, caller, id, state, holder, lease_until_ms, begun, received_ms,
                      deadline_ms, reply_to, depth, doors, request, context, message_id,
                      answer_type, answer)
                     VALUES ($1, $2, $3, $4, '', 0, 0, $5, $6, '', $7, $8, $9, $10, $11, '', '')
                     ON CONFLICT DO NOTHING",
                )
                .bind(this.agent.as_str())
                .bind(new.key.caller)
                .bind(new.key.id)
                .bind(RUNNING)
                .bind(now)
                .bind(now.saturating_add(new.timeout_ms))
                .bind(i64::from(new.lineage.depth))
                .bind(JsonColumn(new.lineage.doors))
                .bind(new.request)
                .bind(context_id)
                .bind(new.message_id)
                .execute(transaction.connection())
                .await?;
                Ok(Ok(()))
            })
        });
        Ok(entered.await?)
    }

    /// Writes down the answer that a task waits for, and has it go on. The same message again
    /// changes nothing.
    pub(crate) async fn enter_answer(
        &self,
        new: NewEntry,
        limits: OpenLimits,
    ) -> Result<Result<(), NotEntered>, Error> {
        let this = self.clone();
        let store = self.store.open().await?;
        let entered = store.write(move |transaction| {
            Box::pin(async move {
                let Some(view) = this.read_view(transaction, &new.key).await? else {
                    return Ok(Err(NotEntered::NotFound));
                };
                if new.context_id.is_some_and(|context_id| context_id != view.context_id) {
                    return Ok(Err(NotEntered::OtherContext));
                }
                if view.message_id == new.message_id {
                    return Ok(Ok(()));
                }
                if view.state != AgentTaskState::InputRequired {
                    return Ok(Err(NotEntered::NotWaiting(view.state)));
                }
                if this.has_too_many_open(transaction, &new.key.caller, limits).await? {
                    return Ok(Err(NotEntered::Full));
                }

                let now = transaction.now_ms().await?;
                let reopened = sqlx::query(
                    "UPDATE a2a_tasks SET state = $5, holder = '', lease_until_ms = 0, begun = 0,
                            received_ms = $6, deadline_ms = $7, cancel_ms = NULL, ended_ms = NULL,
                            answered_ms = NULL, end_state = NULL, request = $8, depth = $9,
                            doors = $12, message_id = $10, answer_type = '', answer = ''
                     WHERE agent = $1 AND caller = $2 AND id = $3 AND message_id = $4
                           AND state = $11",
                )
                .bind(this.agent.as_str())
                .bind(new.key.caller)
                .bind(new.key.id)
                .bind(view.message_id)
                .bind(RUNNING)
                .bind(now)
                .bind(now.saturating_add(new.timeout_ms))
                .bind(new.request)
                .bind(i64::from(new.lineage.depth))
                .bind(new.message_id)
                .bind(ENDED)
                .bind(JsonColumn(new.lineage.doors))
                .execute(transaction.connection())
                .await?;
                transaction.notify(HTTP_CHANGES);
                // Another answer may have come in the same moment.
                Ok(match reopened.rows_affected() {
                    0 => Err(NotEntered::NotWaiting(AgentTaskState::Working)),
                    _ => Ok(()),
                })
            })
        });
        Ok(entered.await?)
    }

    async fn has_too_many_open(
        &self,
        transaction: &mut Transaction,
        caller: &str,
        limits: OpenLimits,
    ) -> Result<bool, StoreError> {
        let row = sqlx::query(
            "SELECT CAST(COALESCE(SUM(CASE WHEN caller = $3 THEN 1 ELSE 0 END), 0) AS BIGINT)
                    AS of_client, COUNT(*) AS of_all
             FROM a2a_tasks WHERE agent = $1 AND answered_ms IS NULL AND state = $2 AND caller LIKE 'http:%'",
        )
        .bind(self.agent.as_str())
        .bind(RUNNING)
        .bind(caller)
        .fetch_one(transaction.connection())
        .await?;
        let (of_client, of_all): (i64, i64) = (row.try_get("of_client")?, row.try_get("of_all")?);
        Ok(of_client.unsigned_abs() >= limits.of_client || of_all.unsigned_abs() >= limits.of_all)
    }

    async fn read_view(
        &self,
        transaction: &mut Transaction,
        key: &TaskKey,
    ) -> Result<Option<TaskView>, StoreError> {
        let text =
            format!("SELECT {COLUMNS} FROM a2a_tasks WHERE agent = $1 AND caller = $2 AND id = $3");
        let row = sqlx::query(sqlx::AssertSqlSafe(text))
            .bind(self.agent.as_str())
            .bind(&key.caller)
            .bind(&key.id)
            .fetch_optional(transaction.connection())
            .await?;
        Ok(row.map(|row| TaskView::read(&row)).transpose()?)
    }

    /// A task of a client.
    pub(crate) async fn view(&self, key: &TaskKey) -> Result<Option<TaskView>, Error> {
        let text =
            format!("SELECT {COLUMNS} FROM a2a_tasks WHERE agent = $1 AND caller = $2 AND id = $3");
        let row = sqlx::query(sqlx::AssertSqlSafe(text))
            .bind(self.agent.as_str())
            .bind(&key.caller)
            .bind(&key.id)
            .fetch_optional(self.store.open().await?.readers())
            .await?;
        Ok(row.map(|row| TaskView::read(&row)).transpose()?)
    }

    /// The ids of a client's tasks, the ones that changed last first; and how many there are.
    pub(crate) async fn list(
        &self,
        caller: &str,
        filter: &ListFilter,
    ) -> Result<(Vec<String>, i64), Error> {
        let state = match filter.state {
            None => String::new(),
            Some(AgentTaskState::Submitted) => format!("AND state = '{RUNNING}' AND begun = 0"),
            Some(AgentTaskState::Working) => format!("AND state = '{RUNNING}' AND begun > 0"),
            Some(state) => format!("AND state = '{ENDED}' AND end_state = {}", state.number()),
        };
        let matching = format!(
            "FROM a2a_tasks WHERE agent = $1 AND caller = $2
                 AND COALESCE(ended_ms, received_ms) >= $3 AND ($4 = '' OR context = $4) {state}"
        );
        let context_id = filter.context_id.clone().unwrap_or_default();
        let store = self.store.open().await?;

        let count = format!("SELECT COUNT(*) {matching}");
        let count: i64 = sqlx::query_scalar(sqlx::AssertSqlSafe(count))
            .bind(self.agent.as_str())
            .bind(caller)
            .bind(filter.since_ms)
            .bind(&context_id)
            .fetch_one(store.readers())
            .await?;
        let page = format!(
            "SELECT id {matching}
             ORDER BY COALESCE(ended_ms, received_ms) DESC, id LIMIT $5 OFFSET $6"
        );
        let ids: Vec<String> = sqlx::query_scalar(sqlx::AssertSqlSafe(page))
            .bind(self.agent.as_str())
            .bind(caller)
            .bind(filter.since_ms)
            .bind(&context_id)
            .bind(filter.count)
            .bind(filter.offset)
            .fetch_all(store.readers())
            .await?;
        Ok((ids, count))
    }

    /// Notes that a client's task is to be cancelled. One that was not begun ends so.
    pub(crate) async fn cancel_http(
        &self,
        key: &TaskKey,
        cancelled: Answer,
    ) -> Result<HttpCancel, Error> {
        let (key, this) = (key.clone(), self.clone());
        let store = self.store.open().await?;
        let noted = store.write(move |transaction| {
            Box::pin(async move {
                let view = match this.read_view(transaction, &key).await? {
                    None => return Ok((HttpCancel::NotFound, None)),
                    Some(view) if view.is_over() => return Ok((HttpCancel::Ended, None)),
                    Some(view) => view,
                };

                let now = transaction.now_ms().await?;
                let received_ms: Option<i64> = sqlx::query_scalar(
                    "UPDATE a2a_tasks SET state = $5, end_state = $6, answer_type = $7,
                            answer = $8, ended_ms = $9, answered_ms = $9, cancel_ms = $9,
                            request = ''
                     WHERE agent = $1 AND caller = $2 AND id = $3
                           AND ((state = $4 AND begun = 0) OR (state = $5 AND end_state = $10))
                     RETURNING received_ms",
                )
                .bind(this.agent.as_str())
                .bind(&key.caller)
                .bind(&key.id)
                .bind(RUNNING)
                .bind(ENDED)
                .bind(AgentTaskState::Canceled.number())
                .bind(cancelled.message_type)
                .bind(cancelled.body)
                .bind(now)
                .bind(AgentTaskState::InputRequired.number())
                .fetch_optional(transaction.connection())
                .await?;
                if received_ms.is_none() {
                    this.note_cancel(transaction, &key).await?;
                }
                transaction.notify(HTTP_CHANGES);
                // One that waited for an answer had ended before.
                let ended = received_ms.filter(|_| view.is_open());
                Ok((HttpCancel::Noted, ended.map(|received_ms| now.saturating_sub(received_ms))))
            })
        });

        let (noted, took_ms) = noted.await?;
        if let Some(took_ms) = took_ms {
            self.count_end(Transport::Http, Outcome::Canceled, took_ms);
        }
        Ok(noted)
    }
}

impl TaskView {
    fn read(row: &AnyRow) -> Result<Self, sqlx::Error> {
        let state: String = row.try_get("state")?;
        let begun: i64 = row.try_get("begun")?;
        let end_state: Option<i64> = row.try_get("end_state")?;
        let (received_ms, ended_ms): (i64, Option<i64>) =
            (row.try_get("received_ms")?, row.try_get("ended_ms")?);
        let has_ended = state == ENDED;

        Ok(Self {
            id: row.try_get("id")?,
            context_id: row.try_get::<Option<String>, _>("context")?.unwrap_or_default(),
            state: match (has_ended, begun) {
                (true, _) => end_state.map_or(AgentTaskState::Failed, AgentTaskState::from),
                (false, 0) => AgentTaskState::Submitted,
                (false, _) => AgentTaskState::Working,
            },
            updated_ms: ended_ms.unwrap_or(received_ms),
            progress: None,
            answer: if has_ended { Some(Answer::read(row)?) } else { None },
            message_id: row.try_get::<Option<String>, _>("message_id")?.unwrap_or_default(),
        })
    }

    /// Whether nothing more becomes of it.
    pub(crate) fn is_over(&self) -> bool {
        !self.is_open() && self.state != AgentTaskState::InputRequired
    }

    /// Whether it waits to be done, or is being done.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state, AgentTaskState::Submitted | AgentTaskState::Working)
    }
}

impl Answer {
    /// The number of the state that a task of this answer is in.
    pub(crate) fn end_state(&self) -> i64 {
        let failed = AgentTaskState::Failed;
        let state = match self.message_type == AgentTaskError::TYPE {
            true => failed,
            false => json::read::<AgentTaskResult>(self.body.as_bytes())
                .map_or(failed, |result| result.state),
        };
        state.number()
    }
}
