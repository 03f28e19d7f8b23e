//! Saving entries, where there is room for all of them, and the sweep.

use std::collections::HashMap;
use std::time::Duration;

use toolbus_store::Transaction;
use toolbus_store::sqlx::{self, Row as _};

use super::{NewEntry, WorkingMemory};
use crate::namespace::Path;
use crate::{Error, MemoryConfig, MemoryOwner};

/// Entries that are taken away in one transaction: others wait behind it.
const SWEPT_MAX: i64 = 1_000;

/// How many entries there are, and how large they are together.
#[derive(Debug, Clone, Copy)]
struct Size {
    entries: u64,
    bytes: u64,
}

/// What entries may be, those that are saved or those of large results.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// In one namespace.
    namespace: Size,
    /// In all namespaces of one owner.
    owner: Size,
    ttl: Duration,
    ttl_max: Duration,
}

/// Entries of one namespace that are saved together, or not at all.
struct Save {
    owner: String,
    namespace: String,
    entries: Vec<NewEntry>,
    is_result: bool,
    limits: Limits,
}

impl WorkingMemory {
    /// Keeps an entry, in place of the one that is there.
    ///
    /// # Errors
    /// When it is too large, its namespace keeps too much, or it cannot be written. Nothing is
    /// changed then.
    pub async fn save(&self, owner: &MemoryOwner, entry: NewEntry) -> Result<(), Error> {
        let (bytes, max) = (entry.value.len() as u64, self.config().entry_bytes_max);
        if bytes > max && !entry.is_result {
            return Err(Error::TooLarge { what: "value", bytes, max });
        }
        self.save_all(owner, vec![entry]).await
    }

    /// Keeps all of these entries of one namespace, or none. All are parts of results, or none is.
    ///
    /// # Errors
    /// When its namespace would keep too much, or they cannot be written. Nothing is changed then.
    pub async fn save_all(&self, owner: &MemoryOwner, entries: Vec<NewEntry>) -> Result<(), Error> {
        let Some(first) = entries.first() else { return Ok(()) };
        let save = Save {
            owner: owner.as_str().to_owned(),
            namespace: first.path.namespace().to_owned(),
            is_result: first.is_result,
            limits: Limits::new(self.config(), first.is_result),
            entries,
        };

        let store = self.store().open().await?;
        let refused = store
            .write(move |transaction| Box::pin(async move { save.run(transaction).await }))
            .await?;
        refused.map_or(Ok(()), Err)
    }

    /// Keeps these entries no longer than so long from now. Those that are not there, or are kept
    /// for less, stay as they are.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub async fn shorten(
        &self,
        owner: &MemoryOwner,
        paths: Vec<Path>,
        ttl: Duration,
    ) -> Result<(), Error> {
        let owner = owner.as_str().to_owned();
        let ttl = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX);
        let store = self.store().open().await?;

        store
            .write(move |transaction| {
                Box::pin(async move {
                    let until = transaction.now_ms().await?.saturating_add(ttl);
                    for path in &paths {
                        let text = "UPDATE memory_entries SET expires_ms = $3
                             WHERE owner = $1 AND path = $2 AND expires_ms > $3";
                        let shortened =
                            sqlx::query(text).bind(&owner).bind(path.lower()).bind(until);
                        shortened.execute(transaction.connection()).await?;
                    }
                    Ok(())
                })
            })
            .await?;
        Ok(())
    }

    /// Takes away the entries whose time is over, and says how many they were.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub async fn sweep(&self) -> Result<u64, Error> {
        let mut swept = 0;
        loop {
            let store = self.store().open().await?;
            let group = store
                .write(|transaction| Box::pin(async move { sweep_group(transaction).await }))
                .await?;
            swept += group;
            if group < SWEPT_MAX.unsigned_abs() {
                return Ok(swept);
            }
        }
    }
}

impl Limits {
    fn new(config: &MemoryConfig, is_result: bool) -> Self {
        let saved = Size { entries: config.entries_max, bytes: config.entries_bytes_max };
        let results =
            Size { entries: config.result_entries_max, bytes: config.result_entries_bytes_max };
        Self {
            namespace: if is_result { results } else { saved },
            owner: Size { entries: config.owner_entries_max, bytes: config.owner_bytes_max },
            ttl: if is_result { config.result_ttl } else { config.ttl },
            ttl_max: config.ttl_max,
        }
    }
}

impl Size {
    fn of(entries: &HashMap<String, u64>) -> Self {
        Self { entries: entries.len() as u64, bytes: entries.values().sum() }
    }

    fn plus(self, more: Self) -> Self {
        Self { entries: self.entries + more.entries, bytes: self.bytes + more.bytes }
    }

    fn minus(self, less: Self) -> Self {
        Self {
            entries: self.entries.saturating_sub(less.entries),
            bytes: self.bytes.saturating_sub(less.bytes),
        }
    }

    /// Why so much is not kept where there may be so much.
    fn refusal(self, max: Self, what: &str, place: &str) -> Option<Error> {
        let refusal = |kept: u64, max: u64, unit: &str| {
            (kept > max).then(|| Error::Full {
                place: place.to_owned(),
                kept: format!("{kept} {unit} with this"),
                max: format!("{max} {unit}"),
            })
        };
        refusal(self.entries, max.entries, what)
            .or_else(|| refusal(self.bytes, max.bytes, &format!("bytes of {what}")))
    }
}

impl Save {
    /// Saves the entries, or says why not.
    async fn run(
        &self,
        transaction: &mut Transaction,
    ) -> Result<Option<Error>, toolbus_store::Error> {
        let now = transaction.now_ms().await?;
        lock(transaction, &self.owner, &self.namespace, now).await?;
        self.delete_expired(transaction, now).await?;

        let all = self.count_all(transaction, now).await?;
        let mut kept = self.kept(transaction).await?;
        let before = Size::of(&kept);
        for entry in &self.entries {
            kept.insert(entry.path.lower().to_owned(), entry.value.len() as u64);
        }
        let after = Size::of(&kept);
        let all = all.minus(before).plus(after);
        if let Some(refusal) = self.refusal(after).or_else(|| self.refusal_of_all(all)) {
            return Ok(Some(refusal));
        }

        for entry in &self.entries {
            self.insert(transaction, entry, now).await?;
        }
        Ok(None)
    }

    /// What the owner keeps in all namespaces.
    async fn count_all(
        &self,
        transaction: &mut Transaction,
        now: i64,
    ) -> Result<Size, toolbus_store::Error> {
        let row = sqlx::query(
            "SELECT COUNT(*) AS entries, CAST(COALESCE(SUM(bytes), 0) AS BIGINT) AS bytes
             FROM memory_entries WHERE owner = $1 AND expires_ms > $2",
        )
        .bind(&self.owner)
        .bind(now)
        .fetch_one(transaction.connection())
        .await?;
        Ok(Size {
            entries: row.try_get::<i64, _>("entries")?.unsigned_abs(),
            bytes: row.try_get::<i64, _>("bytes")?.unsigned_abs(),
        })
    }

    async fn delete_expired(
        &self,
        transaction: &mut Transaction,
        now: i64,
    ) -> Result<(), toolbus_store::Error> {
        sqlx::query(
            "DELETE FROM memory_entries WHERE owner = $1 AND namespace = $2 AND expires_ms <= $3",
        )
        .bind(&self.owner)
        .bind(&self.namespace)
        .bind(now)
        .execute(transaction.connection())
        .await?;
        Ok(())
    }

    /// The sizes of what is kept of the same kind, by paths.
    async fn kept(
        &self,
        transaction: &mut Transaction,
    ) -> Result<HashMap<String, u64>, toolbus_store::Error> {
        let rows = sqlx::query(
            "SELECT path, bytes FROM memory_entries
             WHERE owner = $1 AND namespace = $2 AND is_result = $3",
        )
        .bind(&self.owner)
        .bind(&self.namespace)
        .bind(i64::from(self.is_result))
        .fetch_all(transaction.connection())
        .await?;

        let mut kept = HashMap::with_capacity(rows.len() + self.entries.len());
        for row in rows {
            kept.insert(row.try_get("path")?, row.try_get::<i64, _>("bytes")?.unsigned_abs());
        }
        Ok(kept)
    }

    /// Why so much is not kept in the namespace.
    fn refusal(&self, after: Size) -> Option<Error> {
        let what = if self.is_result { "parts of large results" } else { "entries" };
        let place = format!("'{}'", self.namespace);
        after.refusal(self.limits.namespace, what, &place)
    }

    /// Why so much is not kept of one owner. Another process may be counting at the same time, so
    /// this limit is kept but for what is written at once.
    fn refusal_of_all(&self, all: Size) -> Option<Error> {
        all.refusal(self.limits.owner, "entries", "all namespaces together")
    }

    async fn insert(
        &self,
        transaction: &mut Transaction,
        entry: &NewEntry,
        now: i64,
    ) -> Result<(), toolbus_store::Error> {
        let ttl = entry.ttl.unwrap_or(self.limits.ttl).min(self.limits.ttl_max);
        let ttl = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX);

        sqlx::query(
            "INSERT INTO memory_entries
             (owner, path, namespace, written_path, value, bytes, category, tags, is_result,
              stored_ms, expires_ms)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
             ON CONFLICT (owner, path) DO UPDATE SET
                 written_path = excluded.written_path, value = excluded.value,
                 bytes = excluded.bytes, category = excluded.category, tags = excluded.tags,
                 is_result = excluded.is_result, stored_ms = excluded.stored_ms,
                 expires_ms = excluded.expires_ms",
        )
        .bind(&self.owner)
        .bind(entry.path.lower())
        .bind(&self.namespace)
        .bind(entry.path.as_str())
        .bind(entry.value.as_bytes())
        .bind(i64::try_from(entry.value.len()).unwrap_or(i64::MAX))
        .bind(entry.category.as_deref().unwrap_or_default())
        .bind(entry.tags.join(","))
        .bind(i64::from(self.is_result))
        .bind(now)
        .bind(now.saturating_add(ttl))
        .execute(transaction.connection())
        .await?;
        Ok(())
    }
}

/// Keeps others from writing to the same place until the transaction is over, so that what is
/// counted is what there is.
pub(crate) async fn lock(
    transaction: &mut Transaction,
    owner: &str,
    place: &str,
    now: i64,
) -> Result<(), toolbus_store::Error> {
    sqlx::query(
        "INSERT INTO memory_namespaces (owner, namespace, written_ms) VALUES ($1, $2, $3)
         ON CONFLICT (owner, namespace) DO UPDATE SET written_ms = excluded.written_ms",
    )
    .bind(owner)
    .bind(place)
    .bind(now)
    .execute(transaction.connection())
    .await?;
    Ok(())
}

async fn sweep_group(transaction: &mut Transaction) -> Result<u64, toolbus_store::Error> {
    let now = transaction.now_ms().await?;
    let connection = transaction.connection();
    let swept = sqlx::query(
        "DELETE FROM memory_entries WHERE (owner, path) IN (
             SELECT owner, path FROM memory_entries WHERE expires_ms <= $1
             ORDER BY expires_ms LIMIT $2)",
    )
    .bind(now)
    .bind(SWEPT_MAX)
    .execute(&mut *connection)
    .await?;
    sqlx::query(
        "DELETE FROM memory_namespaces WHERE NOT EXISTS (
             SELECT 1 FROM memory_entries e WHERE e.owner = memory_namespaces.owner
             AND e.namespace = memory_namespaces.namespace)",
    )
    .execute(connection)
    .await?;
    Ok(swept.rows_affected())
}
