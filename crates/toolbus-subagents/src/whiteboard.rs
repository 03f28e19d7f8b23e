//! Whiteboards: what a session and its subagents write for each other.
//!
//! The last who writes an entry is right. Whoever writes counts what is there, and of those who do
//! so at once one waits for the other, so a whiteboard never has more than it may.

use toolbus_policy::SessionOwner;
use toolbus_store::sqlx::any::AnyRow;
use toolbus_store::sqlx::{self, Row as _};
use toolbus_store::{Error as StoreError, OwnerId, Transaction};
use toolbus_tools::Scope;

use crate::event::without_zeros;
use crate::rows::count_in;
use crate::subagents::check_length;
use crate::{Error, Subagents, WhiteboardLimits};

/// An entry of a whiteboard, without its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WhiteboardEntry {
    /// Its key.
    pub key: String,
    /// How long its value is, in bytes.
    pub bytes: u64,
    /// The session that has written it.
    pub writer: String,
    /// When, in milliseconds of Unix time.
    pub written_ms: i64,
}

impl Subagents {
    /// Writes an entry of the whiteboard that the calls of a scope see, in place of the one that is
    /// there.
    ///
    /// # Errors
    /// When it is too long, or there is no room.
    pub async fn write_entry(&self, scope: &Scope, key: &str, value: &str) -> Result<(), Error> {
        let limits = self.inner().deps.config.whiteboard;
        let key = check_key(key, &limits)?.to_owned();
        check_length("value", value, 0..=limits.value_bytes_max)?;
        let (owner, value) = (self.whiteboard_owner(scope).await?, without_zeros(value.to_owned()));
        let writer = scope.session.as_ref().map(ToString::to_string).unwrap_or_default();
        let bytes = i64::try_from(key.len() + value.len()).unwrap_or(i64::MAX);

        let store = self.inner().rows.store.open().await?;
        store
            .write(move |transaction| {
                Box::pin(async move {
                    count_in(transaction, &owner).await?;
                    if let Err(full) = check_room(transaction, &owner, &key, bytes, &limits).await?
                    {
                        return Ok(Err(full));
                    }
                    let now = transaction.now_ms().await?;
                    sqlx::query(
                        "INSERT INTO subagent_whiteboard
                         (agent, owner, session, name, value, bytes, writer, written_ms)
                         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
                         ON CONFLICT (agent, owner, session, name) DO UPDATE SET
                             value = excluded.value, bytes = excluded.bytes,
                             writer = excluded.writer, written_ms = excluded.written_ms",
                    )
                    .bind(owner.agent.as_str())
                    .bind(OwnerId::new(owner.key()))
                    .bind(owner.session.as_str())
                    .bind(key)
                    .bind(value)
                    .bind(bytes)
                    .bind(writer)
                    .bind(now)
                    .execute(transaction.connection())
                    .await?;
                    Ok(Ok(()))
                })
            })
            .await?
    }

    /// The value of an entry.
    ///
    /// # Errors
    /// When the key is none, or the state cannot be used.
    pub async fn read_entry(&self, scope: &Scope, key: &str) -> Result<Option<String>, Error> {
        let key = check_key(key, &self.inner().deps.config.whiteboard)?;
        let owner = self.whiteboard_owner(scope).await?;
        let value = sqlx::query_scalar(
            "SELECT value FROM subagent_whiteboard
             WHERE agent = $1 AND owner = $2 AND session = $3 AND name = $4",
        )
        .bind(owner.agent.as_str())
        .bind(OwnerId::new(owner.key()))
        .bind(owner.session.as_str())
        .bind(key)
        .fetch_optional(self.inner().rows.store.open().await?.readers())
        .await?;
        Ok(value)
    }

    /// All entries, by their keys.
    ///
    /// # Errors
    /// When the state cannot be used.
    pub async fn entries(&self, scope: &Scope) -> Result<Vec<WhiteboardEntry>, Error> {
        let owner = self.whiteboard_owner(scope).await?;
        let rows = sqlx::query(
            "SELECT name, bytes, writer, written_ms FROM subagent_whiteboard
             WHERE agent = $1 AND owner = $2 AND session = $3 ORDER BY name",
        )
        .bind(owner.agent.as_str())
        .bind(OwnerId::new(owner.key()))
        .bind(owner.session.as_str())
        .fetch_all(self.inner().rows.store.open().await?.readers())
        .await?;
        let read: Result<Vec<_>, sqlx::Error> = rows.iter().map(WhiteboardEntry::read).collect();
        Ok(read?)
    }

    /// Deletes an entry. `false`: there is none.
    ///
    /// # Errors
    /// When the key is none, or the state cannot be used.
    pub async fn delete_entry(&self, scope: &Scope, key: &str) -> Result<bool, Error> {
        let key = check_key(key, &self.inner().deps.config.whiteboard)?.to_owned();
        let owner = self.whiteboard_owner(scope).await?;
        let store = self.inner().rows.store.open().await?;
        let deleted = store.write(move |transaction| {
            Box::pin(async move {
                let rows = sqlx::query(
                    "DELETE FROM subagent_whiteboard
                     WHERE agent = $1 AND owner = $2 AND session = $3 AND name = $4",
                )
                .bind(owner.agent.as_str())
                .bind(OwnerId::new(owner.key()))
                .bind(owner.session.as_str())
                .bind(key)
                .execute(transaction.connection())
                .await?;
                Ok(rows.rows_affected() > 0)
            })
        });
        Ok(deleted.await?)
    }
}

impl WhiteboardEntry {
    fn read(row: &AnyRow) -> Result<Self, sqlx::Error> {
        let (key, bytes): (String, i64) = (row.try_get("name")?, row.try_get("bytes")?);
        let bytes = bytes.unsigned_abs().saturating_sub(key.len() as u64);
        Ok(Self {
            key,
            bytes,
            writer: row.try_get("writer")?,
            written_ms: row.try_get("written_ms")?,
        })
    }
}

fn check_key<'a>(key: &'a str, limits: &WhiteboardLimits) -> Result<&'a str, Error> {
    let key = key.trim();
    check_length("key", key, 1..=limits.key_bytes_max)?;
    if key.chars().any(char::is_control) {
        return Err(Error::Key);
    }
    Ok(key)
}

/// Whether an entry of this key and so many bytes has a place, beside all others.
async fn check_room(
    transaction: &mut Transaction,
    owner: &SessionOwner,
    key: &str,
    bytes: i64,
    limits: &WhiteboardLimits,
) -> Result<Result<(), Error>, StoreError> {
    let row = sqlx::query(
        "SELECT COUNT(*) AS entries, CAST(COALESCE(SUM(bytes), 0) AS BIGINT) AS bytes
         FROM subagent_whiteboard
         WHERE agent = $1 AND owner = $2 AND session = $3 AND name <> $4",
    )
    .bind(owner.agent.as_str())
    .bind(OwnerId::new(owner.key()))
    .bind(owner.session.as_str())
    .bind(key)
    .fetch_one(transaction.connection())
    .await?;
    let entries: i64 = row.try_get("entries")?;
    let others: i64 = row.try_get("bytes")?;
    let of_agent: i64 = sqlx::query_scalar(
        "SELECT COUNT(*) FROM subagent_whiteboard
             WHERE agent = $1 AND NOT (owner = $2 AND session = $3 AND name = $4)",
    )
    .bind(owner.agent.as_str())
    .bind(OwnerId::new(owner.key()))
    .bind(owner.session.as_str())
    .bind(key)
    .fetch_one(transaction.connection())
    .await?;

    let full = |what, max| Ok(Err(Error::WhiteboardFull { what, max }));
    if entries.unsigned_abs() >= limits.entries_max {
        return full("entries", limits.entries_max);
    }
    if others.saturating_add(bytes).unsigned_abs() > limits.bytes_max {
        return full("bytes", limits.bytes_max);
    }
    if of_agent.unsigned_abs() >= limits.agent_entries_max {
        return full("entries of all sessions", limits.agent_entries_max);
    }
    Ok(Ok(()))
}
