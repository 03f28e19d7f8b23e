//! The rows of subagents: spawning, cancelling, ending, and what is read of them.

use toolbus_policy::SessionOwner;
use toolbus_policy::spawn::Priority;
use toolbus_store::sqlx::any::AnyRow;
use toolbus_store::sqlx::{self, Row as _};
use toolbus_store::{Error as StoreError, JsonColumn, LazyStore, OwnerId, Transaction};
use toolbus_tools::Lineage;
use toolbus_tools::budget::Usage;
use toolbus_wire::name::{AgentName, InstanceId};

use crate::Error;
use crate::slots::{SlotRow, Slots, priority_of};
use crate::tables::CHANGES;

pub(crate) const RUNNING: &str = "running";
pub(crate) const ENDED: &str = "ended";

/// A subagent that is to be written down.
pub(crate) struct NewRow {
    pub(crate) id: String,
    pub(crate) owner: SessionOwner,
    /// What says that it is the same call.
    pub(crate) call: String,
    pub(crate) description: String,
    pub(crate) context: String,
    pub(crate) priority: Priority,
    /// Depth of the subagent's scope.
    pub(crate) depth: u8,
    pub(crate) lineage: Lineage,
    pub(crate) timeout_ms: i64,
    /// Whether this process has room for it.
    pub(crate) has_room: bool,
}

/// What became of a row that is to be written down.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Inserted {
    /// It is there.
    New,
    /// The same call has spawned this one before.
    Same(String),
}

/// What is known of a subagent that this process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    /// It is this process's.
    Held { is_cancelled: bool, is_paused: bool },
    /// Another process has it.
    Lost,
}

/// A subagent that has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveSubagent {
    /// Its id.
    pub id: String,
    /// What it is to do.
    pub description: String,
    /// When it was spawned, in milliseconds of Unix time.
    pub created_ms: i64,
}

/// The subagents of an agent, as one of its processes sees them.
#[derive(Clone)]
pub(crate) struct SubagentRows {
    pub(crate) store: LazyStore,
    pub(crate) agent: AgentName,
    pub(crate) instance: InstanceId,
    pub(crate) lease_ms: i64,
    pub(crate) claim_ms: i64,
    pub(crate) concurrent_max: usize,
    pub(crate) process_max: usize,
    pub(crate) history_max: u64,
}

impl SubagentRows {
    /// Writes a subagent down, unless the same call has done so before or there are too many.
    /// Another may be paused for it.
    pub(crate) async fn insert(&self, new: NewRow) -> Result<Inserted, Error> {
        let this = self.clone();
        let store = self.store.open().await?;
        store
            .write(move |transaction| {
                Box::pin(async move {
                    count_in(transaction, &new.owner).await?;
                    if let Some(id) = this.find_call(transaction, &new.call).await? {
                        return Ok(Ok(Inserted::Same(id)));
                    }

                    let paused = match this.admit(transaction, &new).await? {
                        Ok(paused) => paused,
                        Err(refused) => return Ok(Err(refused)),
                    };
                    if let Some(id) = paused {
                        set_paused(transaction, &id, true).await?;
                    }
                    this.insert_row(transaction, new).await?;
                    Ok(Ok(Inserted::New))
                })
            })
            .await?
    }

    async fn find_call(
        &self,
        transaction: &mut Transaction,
        call: &str,
    ) -> Result<Option<String>, StoreError> {
        let id = sqlx::query_scalar("SELECT id FROM subagents WHERE agent = $1 AND call = $2")
            .bind(self.agent.as_str())
            .bind(call)
            .fetch_optional(transaction.connection())
            .await?;
        Ok(id)
    }

    /// Whether there is room for one more, and who is paused for it.
    async fn admit(
        &self,
        transaction: &mut Transaction,
        new: &NewRow,
    ) -> Result<Result<Option<String>, Error>, StoreError> {
        let count: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM subagents WHERE agent = $1")
            .bind(self.agent.as_str())
            .fetch_one(transaction.connection())
            .await?;
        if count.unsigned_abs() >= self.history_max {
            return Ok(Err(Error::TooManyRemembered));
        }
        if !new.has_room {
            return Ok(Err(Error::NoRoom { max: self.process_max }));
        }

        let rows = slot_rows(transaction, &new.owner).await?;
        let admitted = Slots::new(rows, self.concurrent_max).admit(new.priority);
        Ok(admitted.map_err(|_| Error::TooMany { max: self.concurrent_max }))
    }

    async fn insert_row(
        &self,
        transaction: &mut Transaction,
        new: NewRow,
    ) -> Result<(), StoreError> {
        let now = transaction.now_ms().await?;

        sqlx::query(
            "INSERT INTO subagents
             (id, agent, owner, session, call, description, context, priority, depth, lineage,
              state, is_paused, holder, lease_until_ms, begun, created_ms, deadline_ms,
              spent_calls, spent_turns, spent_tokens, spent_micro_usd, outcome, teller,
              telling_until_ms)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 0, $12, $13, 1, $14, $15,
                     0, 0, 0, 0, '', '', 0)",
        )
        .bind(new.id)
        .bind(self.agent.as_str())
        .bind(OwnerId::new(new.owner.key()))
        .bind(new.owner.session.as_str())
        .bind(new.call)
        .bind(new.description)
        .bind(new.context)
        .bind(new.priority as i64)
        .bind(i64::from(new.depth))
        .bind(JsonColumn(new.lineage))
        .bind(RUNNING)
        .bind(self.instance.as_str())
        .bind(now.saturating_add(self.lease_ms))
        .bind(now)
        .bind(now.saturating_add(new.timeout_ms))
        .execute(transaction.connection())
        .await?;
        Ok(())
    }

    /// Notes that a subagent is to be cancelled. `false`: the owner has none of that id that has
    /// not ended.
    pub(crate) async fn cancel(&self, owner: &SessionOwner, id: &str) -> Result<bool, Error> {
        let (id, owner, agent) = (id.to_owned(), owner.clone(), self.agent.to_string());
        let store = self.store.open().await?;

        let cancelled = store.write(move |transaction| {
            Box::pin(async move {
                let now = transaction.now_ms().await?;
                let rows = sqlx::query(
                    "UPDATE subagents SET cancel_ms = $6
                     WHERE id = $1 AND agent = $2 AND owner = $3 AND session = $4 AND state = $5",
                )
                .bind(id)
                .bind(agent)
                .bind(OwnerId::new(owner.key()))
                .bind(owner.session.as_str())
                .bind(RUNNING)
                .bind(now)
                .execute(transaction.connection())
                .await?;
                transaction.notify(CHANGES);
                Ok(rows.rows_affected() > 0)
            })
        });
        Ok(cancelled.await?)
    }

    /// Keeps a subagent to this process for as long again, writes down what it has spent, and says
    /// what is known of it.
    pub(crate) async fn renew(&self, id: &str, spent: Usage) -> Result<Hold, Error> {
        let (id, this) = (id.to_owned(), self.clone());
        let store = self.store.open().await?;

        let held = store.write(move |transaction| {
            Box::pin(async move {
                let now = transaction.now_ms().await?;
                let number = |spent: u64| i64::try_from(spent).unwrap_or(i64::MAX);
                let row = sqlx::query(
                    "UPDATE subagents SET lease_until_ms = $4, spent_calls = $5, spent_turns = $6,
                            spent_tokens = $7, spent_micro_usd = $8
                     WHERE id = $1 AND holder = $2 AND state = $3 RETURNING cancel_ms, is_paused",
                )
                .bind(id)
                .bind(this.instance.as_str())
                .bind(RUNNING)
                .bind(now.saturating_add(this.lease_ms))
                .bind(number(spent.calls))
                .bind(number(spent.turns.turns))
                .bind(number(spent.turns.tokens))
                .bind(number(spent.turns.cost_micro_usd))
                .fetch_optional(transaction.connection())
                .await?;
                Ok(Hold::read(row.as_ref())?)
            })
        });
        Ok(held.await?)
    }

    /// What is known of a subagent, without keeping it.
    pub(crate) async fn look_at(&self, id: &str) -> Result<Hold, Error> {
        let row = sqlx::query(
            "SELECT cancel_ms, is_paused FROM subagents
             WHERE id = $1 AND holder = $2 AND state = $3",
        )
        .bind(id)
        .bind(self.instance.as_str())
        .bind(RUNNING)
        .fetch_optional(self.store.open().await?.readers())
        .await?;
        Ok(Hold::read(row.as_ref())?)
    }

    /// Writes down how a subagent ended, once, and lets another go on that is paused. It
    /// says how long it took, in milliseconds. `None`: another process has it.
    pub(crate) async fn end(
        &self,
        owner: &SessionOwner,
        id: &str,
        outcome: &str,
    ) -> Result<Option<i64>, Error> {
        let (id, owner, outcome) = (id.to_owned(), owner.clone(), outcome.to_owned());
        let (this, store) = (self.clone(), self.store.open().await?);
        let ended = store.write(move |transaction| {
            Box::pin(async move {
                count_in(transaction, &owner).await?;
                let now = transaction.now_ms().await?;
                let created_ms: Option<i64> = sqlx::query_scalar(
                    "UPDATE subagents SET state = $4, outcome = $5, ended_ms = $6, context = '',
                            is_paused = 0
                     WHERE id = $1 AND holder = $2 AND state = $3
                     RETURNING created_ms",
                )
                .bind(id)
                .bind(this.instance.as_str())
                .bind(RUNNING)
                .bind(ENDED)
                .bind(outcome)
                .bind(now)
                .fetch_optional(transaction.connection())
                .await?;
                let Some(created_ms) = created_ms else { return Ok(None) };

                let rows = slot_rows(transaction, &owner).await?;
                for id in Slots::new(rows, this.concurrent_max).resume() {
                    set_paused(transaction, &id, false).await?;
                }
                transaction.notify(CHANGES);
                Ok(Some(now.saturating_sub(created_ms)))
            })
        });
        Ok(ended.await?)
    }

    /// The subagents of an owner that have not ended, from the oldest on.
    pub(crate) async fn list(&self, owner: &SessionOwner) -> Result<Vec<ActiveSubagent>, Error> {
        let rows = sqlx::query(
            "SELECT id, description, created_ms FROM subagents
             WHERE agent = $1 AND owner = $2 AND session = $3 AND state = $4
             ORDER BY created_ms, id",
        )
        .bind(self.agent.as_str())
        .bind(OwnerId::new(owner.key()))
        .bind(owner.session.as_str())
        .bind(RUNNING)
        .fetch_all(self.store.open().await?.readers())
        .await?;
        let read: Result<Vec<_>, sqlx::Error> = rows.iter().map(ActiveSubagent::read).collect();
        Ok(read?)
    }

    /// Who has spawned a subagent, as long as it is remembered.
    pub(crate) async fn owner_of(&self, id: &str) -> Result<Option<SessionOwner>, Error> {
        let found: Option<(String, String)> =
            sqlx::query_as("SELECT owner, session FROM subagents WHERE id = $1 AND agent = $2")
                .bind(id)
                .bind(self.agent.as_str())
                .fetch_optional(self.store.open().await?.readers())
                .await?;
        Ok(found.and_then(|(owner, session)| SessionOwner::read(&self.agent, &owner, &session)))
    }

    /// What time it is for who reads.
    pub(crate) async fn now_ms(&self) -> Result<i64, Error> {
        let store = self.store.open().await?;
        let now = format!("SELECT {}", store.location().now_ms_sql());
        Ok(sqlx::query_scalar(sqlx::AssertSqlSafe(now)).fetch_one(store.readers()).await?)
    }
}

impl Hold {
    fn read(row: Option<&AnyRow>) -> Result<Self, sqlx::Error> {
        let Some(row) = row else { return Ok(Self::Lost) };
        let cancel_ms: Option<i64> = row.try_get("cancel_ms")?;
        let is_paused: i64 = row.try_get("is_paused")?;
        Ok(Self::Held { is_cancelled: cancel_ms.is_some(), is_paused: is_paused != 0 })
    }
}

impl ActiveSubagent {
    fn read(row: &AnyRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: row.try_get("id")?,
            description: row.try_get("description")?,
            created_ms: row.try_get("created_ms")?,
        })
    }
}

/// Has everybody else wait who counts in this session, until this write is committed.
pub(crate) async fn count_in(
    transaction: &mut Transaction,
    owner: &SessionOwner,
) -> Result<(), StoreError> {
    let now = transaction.now_ms().await?;
    sqlx::query(
        "INSERT INTO subagent_sessions (agent, owner, session, used_ms) VALUES ($1, $2, $3, $4)
         ON CONFLICT (agent, owner, session) DO UPDATE SET used_ms = excluded.used_ms",
    )
    .bind(owner.agent.as_str())
    .bind(OwnerId::new(owner.key()))
    .bind(owner.session.as_str())
    .bind(now)
    .execute(transaction.connection())
    .await?;
    Ok(())
}

/// The subagents of a session that have not ended, from the oldest on.
async fn slot_rows(
    transaction: &mut Transaction,
    owner: &SessionOwner,
) -> Result<Vec<SlotRow>, StoreError> {
    let rows = sqlx::query(
        "SELECT id, priority, is_paused FROM subagents
         WHERE agent = $1 AND owner = $2 AND session = $3 AND state = $4
         ORDER BY created_ms, id",
    )
    .bind(owner.agent.as_str())
    .bind(OwnerId::new(owner.key()))
    .bind(owner.session.as_str())
    .bind(RUNNING)
    .fetch_all(transaction.connection())
    .await?;

    let read = |row: &AnyRow| -> Result<SlotRow, sqlx::Error> {
        let is_paused: i64 = row.try_get("is_paused")?;
        let priority = priority_of(row.try_get("priority")?);
        Ok(SlotRow { id: row.try_get("id")?, priority, is_paused: is_paused != 0 })
    };
    Ok(rows.iter().map(read).collect::<Result<_, _>>()?)
}

async fn set_paused(
    transaction: &mut Transaction,
    id: &str,
    is_paused: bool,
) -> Result<(), StoreError> {
    sqlx::query("UPDATE subagents SET is_paused = $2 WHERE id = $1")
        .bind(id)
        .bind(i64::from(is_paused))
        .execute(transaction.connection())
        .await?;
    transaction.notify(CHANGES);
    Ok(())
}
