//! Journals: the writes that a chain has made, so that they are not made again.
//!
//! A write is told apart by its tool and its arguments, and the second of two that are the same by
//! its number. It is written down before it begins and again with its result. One that began and
//! has no result may have been made, so it is not made again either: the chain gets an error.
//!
//! A result is given without a gate, so a journal is for those alone for whom the gates let the
//! call pass: the same owner, by the same doors, with the same view. Of another lineage, rules may
//! refuse the call, or ask somebody first.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use toolbus_artifacts::ArtifactOwner;
use toolbus_store::sqlx::{self, Row as _};
use toolbus_store::{Error, LazyStore};
use toolbus_tools::canonical::{canonical_text, sha256_hex};
use toolbus_tools::{Door, Scope};
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
    /// The digest of its doors and its view.
    lineage: String,
    name: String,
    /// How often each write has come so far in this run.
    repetitions: Mutex<HashMap<String, i64>>,
}

/// A write of a chain.
#[derive(Debug)]
pub(crate) struct JournalEntry {
    digest: String,
    repetition: i64,
}

/// Whose a journal is, for who asks for an earlier run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JournalOwnership {
    /// There is none of this name and owner, or nothing is in it.
    Missing,
    /// It is of a chain that came through other doors, or saw other tools.
    OtherLineage,
    /// It is this chain's to go on with.
    Own,
}

/// What is known of a write.
#[derive(Debug)]
pub(crate) enum Known {
    /// It was not made before, and may be made now.
    New(JournalEntry),
    /// It has this result.
    Made(Value),
    /// It began, and nobody knows how it ended.
    Unknown,
}

impl Journal {
    /// The journal of this name, which an earlier run has written, or a new one, for calls in this
    /// scope.
    pub(crate) fn new(store: LazyStore, scope: &Scope, name: Option<String>) -> Self {
        Self {
            store,
            owner: ArtifactOwner::of(scope).as_str().to_owned(),
            lineage: lineage_digest(scope),
            name: name.unwrap_or_else(|| format!("chain_{}", new_id())),
            repetitions: Mutex::default(),
        }
    }

    /// What it is asked for by.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether a write was found or made.
    pub(crate) fn is_used(&self) -> bool {
        !self.repetitions.lock().is_empty()
    }

    /// Whose it is. One from before lineages were kept is of the first that writes in it.
    pub(crate) async fn ownership(&self) -> Result<JournalOwnership, Error> {
        let found = sqlx::query(
            "SELECT lineage FROM chains_journals WHERE journal = $1 AND owner = $2
             ORDER BY lineage DESC LIMIT 1",
        )
        .bind(&self.name)
        .bind(&self.owner)
        .fetch_optional(self.store.open().await?.readers())
        .await?;
        let Some(row) = found else { return Ok(JournalOwnership::Missing) };

        let lineage: String = row.try_get("lineage")?;
        let is_own = lineage.is_empty() || lineage == self.lineage;
        Ok(if is_own { JournalOwnership::Own } else { JournalOwnership::OtherLineage })
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
        let lineage = self.lineage.clone();
        let store = self.store.open().await?;
        let found = store
            .write(move |transaction| {
                Box::pin(async move {
                    let now = transaction.now_ms().await?;
                    let connection = transaction.connection();
                    let new = sqlx::query(
                        "INSERT INTO chains_journals
                             (journal, digest, repetition, owner, lineage, began_ms)
                         VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING",
                    )
                    .bind(&journal)
                    .bind(&key)
                    .bind(repetition)
                    .bind(&owner)
                    .bind(&lineage)
                    .bind(now)
                    .execute(&mut *connection)
                    .await?;
                    if new.rows_affected() > 0 {
                        return Ok(None);
                    }
                    let row = sqlx::query(
                        "SELECT result FROM chains_journals
                         WHERE journal = $1 AND digest = $2 AND repetition = $3 AND owner = $4
                             AND lineage IN ($5, '')",
                    )
                    .bind(&journal)
                    .bind(&key)
                    .bind(repetition)
                    .bind(&owner)
                    .bind(&lineage)
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

/// What decides, beside the owner, which calls the gates let pass: the doors and the view.
fn lineage_digest(scope: &Scope) -> String {
    // Their order has no effect.
    let mut doors: Vec<Door> = scope.doors.iter().collect();
    doors.sort_by_key(|door| door.position());
    let parts = json!({"doors": doors, "view": scope.view.steps()});
    sha256_hex(&canonical_text(&parts))
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

#[cfg(test)]
mod tests;
