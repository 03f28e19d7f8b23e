//! Items that stay: memories, rules, skills and settings, in one table by their kinds.

use toolbus_store::sqlx::any::AnyRow;
use toolbus_store::sqlx::{self, AssertSqlSafe, Row as _};
use toolbus_store::{LazyStore, Location, Transaction};

use crate::working::lock;
use crate::{Error, MemoryOwner};

/// The items of one kind.
#[derive(Clone)]
pub(crate) struct Items {
    store: LazyStore,
    kind: ItemKind,
}

/// A kind of items: what they are called, and how many an owner has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ItemKind {
    /// As it is kept.
    pub(crate) name: &'static str,
    /// As it is told.
    pub(crate) plural: &'static str,
    pub(crate) max: usize,
    /// Most bytes of all of them.
    pub(crate) bytes_max: u64,
    /// What helps when there are too many.
    pub(crate) way_out: &'static str,
}

/// One item.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) category: String,
    pub(crate) tags: Vec<String>,
    pub(crate) summary: String,
    pub(crate) content: String,
    pub(crate) stored_ms: i64,
}

/// Items, and what time it is where they are kept.
#[derive(Debug, Default)]
pub(crate) struct ItemList {
    pub(crate) items: Vec<Item>,
    pub(crate) now_ms: i64,
}

const DESCRIPTION: &str = "id, name, category, tags, summary, stored_ms";

impl Items {
    pub(crate) fn new(store: LazyStore, kind: ItemKind) -> Self {
        Self { store, kind }
    }

    /// All of an owner's, the oldest first.
    pub(crate) async fn list(&self, owner: &MemoryOwner) -> Result<ItemList, Error> {
        self.select(owner, "content").await
    }

    /// The same without their contents.
    pub(crate) async fn list_without_contents(
        &self,
        owner: &MemoryOwner,
    ) -> Result<ItemList, Error> {
        let none = match self.store.location() {
            Location::Sqlite(_) => "x''",
            Location::Postgres(_) => "''::bytea",
        };
        self.select(owner, &format!("{none} AS content")).await
    }

    async fn select(&self, owner: &MemoryOwner, content: &str) -> Result<ItemList, Error> {
        let now = self.store.location().now_ms_sql();
        let text = format!(
            "SELECT {DESCRIPTION}, {content}, {now} AS now_ms FROM memory_items
             WHERE owner = $1 AND kind = $2 ORDER BY stored_ms, id"
        );
        let rows = sqlx::query(AssertSqlSafe(text))
            .bind(owner.as_str())
            .bind(self.kind.name)
            .fetch_all(self.store.open().await?.readers())
            .await?;

        let mut list = ItemList::default();
        for row in &rows {
            list.now_ms = row.try_get("now_ms")?;
            list.items.push(Item::read(row)?);
        }
        Ok(list)
    }

    pub(crate) async fn find(&self, owner: &MemoryOwner, id: &str) -> Result<Option<Item>, Error> {
        let text = format!(
            "SELECT {DESCRIPTION}, content FROM memory_items WHERE owner = $1 AND kind = $2 AND id = $3"
        );
        let found = sqlx::query(AssertSqlSafe(text))
            .bind(owner.as_str())
            .bind(self.kind.name)
            .bind(id)
            .fetch_optional(self.store.open().await?.readers())
            .await?;
        Ok(found.map(|row| Item::read(&row)).transpose()?)
    }

    /// Keeps an item, in place of the one of its id.
    ///
    /// # Errors
    /// [`Error::TooMany`] and [`Error::TooMuch`] when there is no room for it.
    pub(crate) async fn put(&self, owner: &MemoryOwner, item: Item) -> Result<(), Error> {
        let (owner, kind) = (owner.as_str().to_owned(), self.kind);
        let store = self.store.open().await?;
        let outcome = store
            .write(move |transaction| {
                Box::pin(async move { put_within(transaction, &owner, kind, &item).await })
            })
            .await?;
        let ItemKind { plural: what, max, bytes_max, way_out, .. } = self.kind;
        match outcome {
            PutOutcome::Kept => Ok(()),
            PutOutcome::TooMany => Err(Error::TooMany { what, max, way_out }),
            PutOutcome::TooMuch => Err(Error::TooMuch { what, max: bytes_max, way_out }),
        }
    }

    /// Forgets an item, and gives it back.
    pub(crate) async fn remove(
        &self,
        owner: &MemoryOwner,
        id: &str,
    ) -> Result<Option<Item>, Error> {
        let (owner, kind, id) = (owner.as_str().to_owned(), self.kind.name, id.to_owned());
        let text = format!(
            "DELETE FROM memory_items WHERE owner = $1 AND kind = $2 AND id = $3
             RETURNING {DESCRIPTION}, content"
        );
        let store = self.store.open().await?;
        let removed = store
            .write(move |transaction| {
                Box::pin(async move {
                    let removed = sqlx::query(AssertSqlSafe(text)).bind(owner).bind(kind).bind(id);
                    let row = removed.fetch_optional(transaction.connection()).await?;
                    row.map(|row| Item::read(&row)).transpose()
                })
            })
            .await?;
        Ok(removed)
    }

    /// Changes the summary of an item, and says whether it is there.
    pub(crate) async fn set_summary(
        &self,
        owner: &MemoryOwner,
        id: &str,
        summary: String,
    ) -> Result<bool, Error> {
        let (owner, kind, id) = (owner.as_str().to_owned(), self.kind.name, id.to_owned());

        let store = self.store.open().await?;
        let changed = store
            .write(move |transaction| {
                Box::pin(async move {
                    let changed = sqlx::query(
                        "UPDATE memory_items SET summary = $4
                         WHERE owner = $1 AND kind = $2 AND id = $3",
                    )
                    .bind(owner)
                    .bind(kind)
                    .bind(id)
                    .bind(summary)
                    .execute(transaction.connection())
                    .await?;
                    Ok(changed.rows_affected())
                })
            })
            .await?;
        Ok(changed > 0)
    }
}

impl Item {
    fn read(row: &AnyRow) -> Result<Self, toolbus_store::Error> {
        let tags: String = row.try_get("tags")?;
        let content: Vec<u8> = row.try_get("content")?;
        Ok(Self {
            id: row.try_get("id")?,
            name: row.try_get("name")?,
            category: row.try_get("category")?,
            tags: tags.split(',').filter(|tag| !tag.is_empty()).map(str::to_owned).collect(),
            summary: row.try_get("summary")?,
            content: String::from_utf8_lossy(&content).into_owned(),
            stored_ms: row.try_get("stored_ms")?,
        })
    }
}

/// What became of an item that was to be kept.
enum PutOutcome {
    Kept,
    /// There are as many others as there may be.
    TooMany,
    /// With it, all of them would be too large.
    TooMuch,
}

async fn put_within(
    transaction: &mut Transaction,
    owner: &str,
    kind: ItemKind,
    item: &Item,
) -> Result<PutOutcome, toolbus_store::Error> {
    let now = transaction.now_ms().await?;
    lock(transaction, owner, &format!("kind {}", kind.name), now).await?;

    let others = sqlx::query(
        "SELECT COUNT(*) AS items, CAST(COALESCE(SUM(length(content)), 0) AS BIGINT) AS bytes
         FROM memory_items WHERE owner = $1 AND kind = $2 AND id <> $3",
    )
    .bind(owner)
    .bind(kind.name)
    .bind(&item.id)
    .fetch_one(transaction.connection())
    .await?;
    let (items, bytes): (i64, i64) = (others.try_get("items")?, others.try_get("bytes")?);
    if items.unsigned_abs() >= kind.max as u64 {
        return Ok(PutOutcome::TooMany);
    }
    if bytes.unsigned_abs() + item.content.len() as u64 > kind.bytes_max {
        return Ok(PutOutcome::TooMuch);
    }

    sqlx::query(
        "INSERT INTO memory_items
         (owner, kind, id, name, category, tags, summary, content, stored_ms)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
         ON CONFLICT (owner, kind, id) DO UPDATE SET
             name = excluded.name, category = excluded.category, tags = excluded.tags,
             summary = excluded.summary, content = excluded.content,
             stored_ms = excluded.stored_ms",
    )
    .bind(owner)
    .bind(kind.name)
    .bind(&item.id)
    .bind(&item.name)
    .bind(&item.category)
    .bind(item.tags.join(","))
    .bind(&item.summary)
    .bind(item.content.as_bytes())
    .bind(now)
    .execute(transaction.connection())
    .await?;
    Ok(PutOutcome::Kept)
}
