//! Working memory: what a session keeps for a while, by keys.
//!
//! What does not fit is refused; nothing that was kept makes room for it.

mod entry;
mod search;
mod write;

use std::sync::Arc;

use futures_util::TryStreamExt as _;
use toolbus_store::sqlx::{self, AssertSqlSafe, Row as _};
use toolbus_store::{LazyStore, Location};

pub use entry::{Entry, EntryInfo, NewEntry};
pub use search::{Filter, Found};
pub(crate) use write::lock;

use crate::namespace::Path;
use crate::{Error, MemoryConfig, MemoryOwner};

/// Most entries of one list.
pub const LIST_MAX: usize = 500;

/// The working memory of one store. Clones are the same.
#[derive(Clone)]
pub struct WorkingMemory(Arc<Inner>);

struct Inner {
    store: LazyStore,
    config: MemoryConfig,
}

/// Entries, and what time it is where they are kept.
#[derive(Debug, Clone)]
pub struct List {
    /// The entries, by their paths.
    pub entries: Vec<EntryInfo>,
    /// How many there are beside those.
    pub more: usize,
    /// The time, in milliseconds of Unix time.
    pub now_ms: i64,
}

impl WorkingMemory {
    /// Working memory in this store, which knows [`MIGRATIONS`](crate::MIGRATIONS).
    #[must_use]
    pub fn new(store: LazyStore, config: MemoryConfig) -> Self {
        Self(Arc::new(Inner { store, config }))
    }

    /// What it may keep.
    #[must_use]
    pub fn config(&self) -> &MemoryConfig {
        &self.0.config
    }

    pub(crate) fn store(&self) -> &LazyStore {
        &self.0.store
    }

    /// The entry at a path, where there is one.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn find(&self, owner: &MemoryOwner, path: &Path) -> Result<Option<Entry>, Error> {
        let now = self.0.store.location().now_ms_sql();
        let text = format!(
            "SELECT {}, value FROM memory_entries
             WHERE owner = $1 AND path = $2 AND expires_ms > {now}",
            columns(self.0.store.location())
        );
        let found = sqlx::query(AssertSqlSafe(text))
            .bind(owner.as_str())
            .bind(path.lower())
            .fetch_optional(self.0.store.open().await?.readers())
            .await?;
        found.map(|row| Entry::read(&row)).transpose()
    }

    /// The entries at a path and below it.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn list(&self, owner: &MemoryOwner, below: &Path) -> Result<List, Error> {
        let select = select_below(self.0.store.location(), below, "");
        let text = format!("{select} ORDER BY path");
        let store = self.0.store.open().await?;
        let query = bind_below(sqlx::query(AssertSqlSafe(text)), owner, below);
        let mut rows = query.fetch(store.readers());

        let mut list = List { entries: Vec::new(), more: 0, now_ms: 0 };
        while let Some(row) = rows.try_next().await? {
            if list.entries.len() == LIST_MAX {
                list.more += 1;
                continue;
            }
            list.entries.push(EntryInfo::read(&row)?);
            list.now_ms = row.try_get("now_ms")?;
        }
        Ok(list)
    }

    /// Forgets an entry, and says whether there was one.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub async fn delete(&self, owner: &MemoryOwner, path: &Path) -> Result<bool, Error> {
        let (owner, path) = (owner.as_str().to_owned(), path.lower().to_owned());
        let store = self.0.store.open().await?;
        let deleted = store
            .write(move |transaction| {
                Box::pin(async move {
                    let text = "DELETE FROM memory_entries WHERE owner = $1 AND path = $2";
                    let deleted = sqlx::query(text).bind(owner).bind(path);
                    Ok(deleted.execute(transaction.connection()).await?.rows_affected())
                })
            })
            .await?;
        Ok(deleted > 0)
    }
}

/// The columns of an entry without its value, and the time.
fn columns(location: &Location) -> String {
    let now = location.now_ms_sql();
    format!("written_path, category, tags, bytes, stored_ms, expires_ms, {now} AS now_ms")
}

/// A query for the entries at a path and below it, and more columns of them; see [`bind_below`].
fn select_below(location: &Location, below: &Path, more_columns: &str) -> String {
    let (columns, now) = (columns(location), location.now_ms_sql());
    // A place within a namespace is looked for in that alone, for the index.
    let in_namespace = if below.segments() < 2 { "$2 <> ''" } else { "namespace = $2" };
    let length = below.lower().chars().count() + 1;
    format!(
        "SELECT {columns}{more_columns} FROM memory_entries
         WHERE owner = $1 AND {in_namespace} AND expires_ms > {now}
         AND (path = $3 OR substr(path, 1, {length}) = $4)"
    )
}

type AnyQuery<'q> = sqlx::query::Query<'q, sqlx::Any, sqlx::any::AnyArguments>;

fn bind_below<'q>(query: AnyQuery<'q>, owner: &MemoryOwner, below: &Path) -> AnyQuery<'q> {
    query
        .bind(owner.as_str().to_owned())
        .bind(below.namespace().to_owned())
        .bind(below.lower().to_owned())
        .bind(format!("{}/", below.lower()))
}
