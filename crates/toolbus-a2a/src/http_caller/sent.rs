//! The rows of what is sent over HTTP. Each has one process at a time, by a lease.

use toolbus_store::LazyStore;
use toolbus_store::sqlx::any::AnyRow;
use toolbus_store::sqlx::{self, Row as _};
use toolbus_wire::name::{AgentName, InstanceId};

use crate::protocol::{Interface, Version};
use crate::{Error, TaskLineage};

pub(crate) const NEW: &str = "new";
const SENDING: &str = "sending";
const SENT: &str = "sent";

/// What is sent to an agent over HTTP.
#[derive(Debug, Clone)]
pub(super) struct SentRow {
    pub(super) id: String,
    pub(super) state: SentState,
    pub(super) message: String,
    pub(super) lineage: TaskLineage,
}

/// How far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SentState {
    /// It was not sent.
    New,
    /// It may have been sent.
    Sending,
    /// The agent has it.
    Sent {
        /// Where it was sent to.
        interface: Interface,
        /// What the agent calls it.
        remote_id: String,
    },
}

/// What an agent has sent over HTTP.
#[derive(Clone)]
pub(super) struct SentTasks {
    pub(super) store: LazyStore,
    pub(super) agent: AgentName,
    pub(super) instance: InstanceId,
    pub(super) lease_ms: i64,
}

impl SentTasks {
    pub(super) async fn has_any(&self) -> Result<bool, Error> {
        let count: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM a2a_sent WHERE agent = $1")
            .bind(self.agent.as_str())
            .fetch_one(self.store.open().await?.readers())
            .await?;
        Ok(count > 0)
    }

    /// Takes one that no process has.
    pub(super) async fn claim(&self) -> Result<Option<SentRow>, Error> {
        let this = self.clone();
        let store = self.store.open().await?;
        let claimed = store.write(move |transaction| {
            Box::pin(async move {
                let now = transaction.now_ms().await?;
                let row = sqlx::query(
                    "SELECT id, state, message, depth, doors, url, version, remote_id FROM a2a_sent
                     WHERE agent = $1 AND lease_until_ms <= $2 ORDER BY lease_until_ms, id LIMIT 1",
                )
                .bind(this.agent.as_str())
                .bind(now)
                .fetch_optional(transaction.connection())
                .await?;
                let Some(row) = row else { return Ok(None) };
                let row = SentRow::read(&row)?;

                // Two processes of PostgreSQL may have read the same.
                let rows = sqlx::query(
                    "UPDATE a2a_sent SET holder = $2, lease_until_ms = $3
                     WHERE id = $1 AND lease_until_ms <= $4",
                )
                .bind(&row.id)
                .bind(this.instance.as_str())
                .bind(now.saturating_add(this.lease_ms))
                .bind(now)
                .execute(transaction.connection())
                .await?;
                Ok((rows.rows_affected() > 0).then_some(row))
            })
        });
        Ok(claimed.await?)
    }

    /// Keeps one for as long again. `false`: another process has it.
    pub(super) async fn renew(&self, id: &str) -> Result<bool, Error> {
        let (id, this) = (id.to_owned(), self.clone());
        let store = self.store.open().await?;
        let renewed = store.write(move |transaction| {
            Box::pin(async move {
                let now = transaction.now_ms().await?;
                let rows = sqlx::query(
                    "UPDATE a2a_sent SET lease_until_ms = $3 WHERE id = $1 AND holder = $2",
                )
                .bind(id)
                .bind(this.instance.as_str())
                .bind(now.saturating_add(this.lease_ms))
                .execute(transaction.connection())
                .await?;
                Ok(rows.rows_affected() > 0)
            })
        });
        Ok(renewed.await?)
    }

    /// Notes how far one is. `false`: another process has it.
    pub(super) async fn mark(&self, id: &str, state: &SentState) -> Result<bool, Error> {
        let (id, this, state) = (id.to_owned(), self.clone(), state.clone());
        let store = self.store.open().await?;
        let marked = store.write(move |transaction| {
            Box::pin(async move {
                let now = transaction.now_ms().await?;
                let (name, url, version, remote_id) = match state {
                    SentState::New => (NEW, String::new(), "", String::new()),
                    SentState::Sending => (SENDING, String::new(), "", String::new()),
                    SentState::Sent { interface, remote_id } => {
                        (SENT, interface.url, interface.version.as_str(), remote_id)
                    }
                };

                let rows = sqlx::query(
                    "UPDATE a2a_sent SET state = $3, url = $4, version = $5, remote_id = $6,
                            lease_until_ms = $7
                     WHERE id = $1 AND holder = $2",
                )
                .bind(id)
                .bind(this.instance.as_str())
                .bind(name)
                .bind(url)
                .bind(version)
                .bind(remote_id)
                .bind(now.saturating_add(this.lease_ms))
                .execute(transaction.connection())
                .await?;
                Ok(rows.rows_affected() > 0)
            })
        });
        Ok(marked.await?)
    }

    /// Forgets one of this process.
    pub(super) async fn forget(&self, id: &str) -> Result<(), Error> {
        let (id, this) = (id.to_owned(), self.clone());
        let store = self.store.open().await?;
        let forgotten = store.write(move |transaction| {
            Box::pin(async move {
                sqlx::query("DELETE FROM a2a_sent WHERE id = $1 AND holder = $2")
                    .bind(id)
                    .bind(this.instance.as_str())
                    .execute(transaction.connection())
                    .await?;
                Ok(())
            })
        });
        Ok(forgotten.await?)
    }

    /// Lets others take up what this process has, at once.
    pub(super) async fn release(&self) -> Result<(), Error> {
        let this = self.clone();
        let store = self.store.open().await?;
        let released = store.write(move |transaction| {
            Box::pin(async move {
                sqlx::query(
                    "UPDATE a2a_sent SET lease_until_ms = 0 WHERE agent = $1 AND holder = $2",
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
}

impl SentRow {
    fn read(row: &AnyRow) -> Result<Self, sqlx::Error> {
        let (state, version): (String, String) = (row.try_get("state")?, row.try_get("version")?);
        Ok(Self {
            id: row.try_get("id")?,
            state: match (&*state, Version::parse(&version)) {
                (NEW, _) => SentState::New,
                (SENT, Some(version)) => SentState::Sent {
                    interface: Interface { url: row.try_get("url")?, version },
                    remote_id: row.try_get("remote_id")?,
                },
                _ => SentState::Sending,
            },
            message: row.try_get("message")?,
            lineage: TaskLineage::read_row(row)?,
        })
    }
}
