//! Journals: the writes that a chain has made, so that they are not made again.
//!
//! A write is told apart by its tool and its arguments, and the second of two that are the same by
//! its number. It is written down before it begins and again with its result. One that began and
//! has no result may have been made, so it is not made again either: the chain gets an error.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use toolbus_artifacts::ArtifactOwner;
use toolbus_store::sqlx::{self, Row as _};
use toolbus_store::{Error, LazyStore};
use toolbus_tools::canonical::{canonical_text, sha256_hex};
use toolbus_wire::clock::unix_now;
use toolbus_wire::envelope::new_id;

/// How long a journal is kept.
const JOURNAL_TTL: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Longest result that is kept as it is, in bytes of JSON.
const RESULT_BYTES_MAX: usize = 1 << 20;

/// The journal of one chain.
pub(crate) struct Journal {
    store: LazyStore,
    owner: String,
    name: String,
    /// How often each write has come so far in this run.
    repetitions: Mutex<HashMap<String, i64>>,
}

/// A write of a chain.
pub(crate) struct JournalEntry {
    digest: String,
    repetition: i64,
}

/// What is known of a write.
pub(crate) enum Known {
    /// It was not made before, and may be made now.
    New(JournalEntry),
    /// It has this result.
    Made(Value),
    /// It began, and nobody knows how it ended.
    Unknown,
}

impl Journal {
    /// The journal of this name, which an earlier run has written, or a new one.
    pub(crate) fn new(store: LazyStore, owner: &ArtifactOwner, name: Option<String>) -> Self {
        let name = name.unwrap_or_else(|| format!("chain_{}", new_id()));
        let repetitions = Mutex::default();
        Self { store, owner: owner.as_str().to_owned(), name, repetitions }
    }

    /// What it is asked for by.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether a write was found or made.
    pub(crate) fn is_used(&self) -> bool {
        !self.repetitions.lock().is_empty()
    }

    /// Whether there is anything in it, for who asks for an earlier run.
    pub(crate) async fn exists(&self) -> Result<bool, Error> {
        let found = sqlx::query(
            "SELECT 1 AS one FROM chains_journals WHERE journal = $1 AND owner = $2 LIMIT 1",
        )
        .bind(&self.name)
        .bind(&self.owner)
        .fetch_optional(self.store.open().await?.readers())
        .await?;
        Ok(found.is_some())
    }

    /// Looks a write up, and writes down that it begins where it is new.
    pub(crate) async fn begin(&self, tool: &str, arguments: &Value) -> Result<Known, Error> {
        let digest = sha256_hex(&canonical_text(&json!([tool, arguments])));
        let repetition = {
            let mut repetitions = self.repetitions.lock();
            let next = repetitions.entry(digest.clone()).or_insert(0);
            *next += 1;
            *next
        };

        let (journal, owner, key) = (self.name.clone(), self.owner.clone(), digest.clone());
        let store = self.store.open().await?;
        let found = store
            .write(move |transaction| {
                Box::pin(async move {
                    let now = transaction.now_ms().await?;
                    let connection = transaction.connection();
                    let new = sqlx::query(
                        "INSERT INTO chains_journals (journal, digest, repetition, owner, began_ms)
                         VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING",
                    )
                    .bind(&journal)
                    .bind(&key)
                    .bind(repetition)
                    .bind(&owner)
                    .bind(now)
                    .execute(&mut *connection)
                    .await?;
                    if new.rows_affected() > 0 {
                        return Ok(None);
                    }
                    let row = sqlx::query(
                        "SELECT result FROM chains_journals
                         WHERE journal = $1 AND digest = $2 AND repetition = $3 AND owner = $4",
                    )
                    .bind(&journal)
                    .bind(&key)
                    .bind(repetition)
                    .bind(&owner)
                    .fetch_optional(connection)
                    .await?;
                    let result: Option<String> = match row {
                        Some(row) => row.try_get("result")?,
                        None => None,
                    };
                    Ok(Some(result))
                })
            })
            .await?;

        Ok(match found {
            None => Known::New(JournalEntry { digest, repetition }),
            Some(None) => Known::Unknown,
            Some(Some(result)) => match toolbus_json::from_trusted(&result) {
                Ok(result) => Known::Made(result),
                Err(_) => Known::Unknown,
            },
        })
    }

    /// Writes down the result of a write.
    pub(crate) async fn end(&self, entry: JournalEntry, result: &Value) -> Result<(), Error> {
        let mut text = result.to_string();
        if text.len() > RESULT_BYTES_MAX {
            text =
                json!({"status": result["status"], "text": "[its result was too large to keep]"})
                    .to_string();
        }

        let (journal, JournalEntry { digest, repetition }) = (self.name.clone(), entry);
        let store = self.store.open().await?;
        store
            .write(move |transaction| {
                Box::pin(async move {
                    sqlx::query(
                        "UPDATE chains_journals SET result = $4
                         WHERE journal = $1 AND digest = $2 AND repetition = $3",
                    )
                    .bind(&journal)
                    .bind(&digest)
                    .bind(repetition)
                    .bind(&text)
                    .execute(transaction.connection())
                    .await?;
                    Ok(())
                })
            })
            .await
    }

    /// Takes a write back that was not made: its gates refused it, so that it may be made later.
    pub(crate) async fn take_back(&self, entry: JournalEntry) -> Result<(), Error> {
        let (journal, JournalEntry { digest, repetition }) = (self.name.clone(), entry);
        let store = self.store.open().await?;
        store
            .write(move |transaction| {
                Box::pin(async move {
                    sqlx::query(
                        "DELETE FROM chains_journals
                         WHERE journal = $1 AND digest = $2 AND repetition = $3",
                    )
                    .bind(&journal)
                    .bind(&digest)
                    .bind(repetition)
                    .execute(transaction.connection())
                    .await?;
                    Ok(())
                })
            })
            .await
    }
}

/// Deletes journals that nobody needs any more.
pub(crate) async fn sweep(store: &LazyStore) -> Result<(), Error> {
    let before = unix_now().saturating_sub(JOURNAL_TTL).as_millis();
    let before = i64::try_from(before).unwrap_or(i64::MAX);
    store
        .open()
        .await?
        .write(move |transaction| {
            Box::pin(async move {
                sqlx::query("DELETE FROM chains_journals WHERE began_ms < $1")
                    .bind(before)
                    .execute(transaction.connection())
                    .await?;
                Ok(())
            })
        })
        .await
}
