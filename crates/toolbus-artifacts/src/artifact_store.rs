//! The artifacts: what there is, and who may read it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Value, json};
use toolbus_store::sqlx::any::AnyRow;
use toolbus_store::sqlx::{self, Row as _};
use toolbus_store::{LazyStore, Transaction};
use toolbus_tools::artifact::REFERENCE_BYTES_MAX;
use toolbus_tools::{ArtifactInfo, ArtifactRef, Scope};
use toolbus_wire::clock::unix_now;

use crate::writing::{ArtifactWriter, NewArtifact};
use crate::{ArtifactConfig, ArtifactOwner, Error, Place};

/// Most artifacts of one answer.
pub const LIST_MAX: u32 = 10_000;

/// Artifacts of one store and one place. Clones are the same.
#[derive(Clone)]
pub struct Artifacts(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) store: LazyStore,
    pub(crate) place: Place,
    pub(crate) config: ArtifactConfig,
    /// Which files were found to be what was stored: their size and when they were changed then.
    pub(crate) verified: Mutex<HashMap<String, (u64, SystemTime)>>,
}

/// One artifact that its reader may read.
#[derive(Clone)]
pub struct Artifact {
    /// What callers are told of it.
    pub info: ArtifactInfo,
    /// The tool that made it.
    pub tool: String,
    /// When it was stored, in milliseconds of Unix time.
    pub stored_ms: i64,
    /// Until when it is kept where nobody pins it, in milliseconds of Unix time.
    pub expires_ms: i64,
    /// The SHA-256 of its bytes, in hexadecimal digits.
    pub digest: String,
    pub(crate) object: String,
    pub(crate) artifacts: Artifacts,
}

/// What is read of an artifact, by its row `a` and its object `o`.
const SELECT: &str =
    "SELECT a.id, a.media_type, a.bytes, a.tool, a.stored_ms, a.expires_ms, a.digest, o.object
    FROM artifacts a JOIN artifacts_objects o ON o.digest = a.digest";
/// Whether the artifact of row `a` is kept at the moment `$1`.
const IS_KEPT: &str = "(a.expires_ms > $1 OR EXISTS (
    SELECT 1 FROM artifacts_pins p WHERE p.artifact = a.id AND p.until_ms > $1))";

impl Artifacts {
    /// Artifacts with their rows in this store, which knows [`MIGRATIONS`](crate::MIGRATIONS), and
    /// their bytes at this place.
    #[must_use]
    pub fn new(store: LazyStore, place: Place, config: ArtifactConfig) -> Self {
        Self(Arc::new(Inner { store, place, config, verified: Mutex::default() }))
    }

    /// How they are kept.
    #[must_use]
    pub fn config(&self) -> &ArtifactConfig {
        &self.0.config
    }

    /// Where their bytes are.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.0.place
    }

    /// Begins to store one, piece by piece. What is not finished is nothing.
    ///
    /// # Errors
    /// When its place cannot be used.
    pub fn create(&self, new: NewArtifact) -> Result<ArtifactWriter, Error> {
        ArtifactWriter::new(self.clone(), new)
    }

    /// Stores one.
    ///
    /// # Errors
    /// When it is too large, its owner keeps too much, or it cannot be written.
    pub async fn store(
        &self,
        new: NewArtifact,
        bytes: impl Into<Bytes>,
    ) -> Result<ArtifactInfo, Error> {
        let mut writer = self.create(new)?;
        writer.write(bytes.into()).await?;
        writer.finish().await
    }

    /// Finds one by its reference.
    ///
    /// # Errors
    /// [`Error::Unknown`] when there is none that this owner may read.
    pub async fn find(
        &self,
        owner: &ArtifactOwner,
        reference: &ArtifactRef,
    ) -> Result<Artifact, Error> {
        let text = format!("{SELECT} WHERE a.id = $2 AND a.owner = $3 AND {IS_KEPT}");
        let found = sqlx::query(sqlx::AssertSqlSafe(text))
            .bind(now_ms())
            .bind(reference.as_str())
            .bind(owner.as_str())
            .fetch_optional(self.0.store.open().await?.readers())
            .await?;
        let unknown = || Error::Unknown(reference.to_string());
        self.read_row(&found.ok_or_else(unknown)?)
    }

    /// Finds one that this scope may refer to, by the text of a reference.
    ///
    /// # Errors
    /// [`Error::Unknown`] when it is none, or none that the scope may refer to.
    pub async fn find_in(&self, scope: &Scope, text: &str) -> Result<Artifact, Error> {
        match ArtifactRef::parse(text) {
            Ok(reference) if scope.artifacts.contains(&reference) => {
                self.find(&ArtifactOwner::of(scope), &reference).await
            }
            _ => Err(Error::Unknown(text.chars().take(REFERENCE_BYTES_MAX).collect())),
        }
    }

    /// Finds one of any owner: for whoever runs this process.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn find_of_any(&self, reference: &ArtifactRef) -> Result<Option<Artifact>, Error> {
        let text = format!("{SELECT} WHERE a.id = $2 AND {IS_KEPT}");
        let found = sqlx::query(sqlx::AssertSqlSafe(text))
            .bind(now_ms())
            .bind(reference.as_str())
            .fetch_optional(self.0.store.open().await?.readers())
            .await?;
        found.map(|row| self.read_row(&row)).transpose()
    }

    /// The artifacts of an owner, or of all, the newest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn list(
        &self,
        owner: Option<&ArtifactOwner>,
        limit: u32,
    ) -> Result<Vec<Artifact>, Error> {
        let limit = i64::from(limit.min(LIST_MAX));
        let of_owner = if owner.is_some() { "AND a.owner = $3" } else { "" };
        let text =
            format!("{SELECT} WHERE {IS_KEPT} {of_owner} ORDER BY a.stored_ms DESC LIMIT $2");
        let mut rows = sqlx::query(sqlx::AssertSqlSafe(text)).bind(now_ms()).bind(limit);
        if let Some(owner) = owner {
            rows = rows.bind(owner.as_str());
        }
        let rows = rows.fetch_all(self.0.store.open().await?.readers()).await?;
        rows.iter().map(|row| self.read_row(row)).collect()
    }

    /// Keeps an artifact for this holder until the time is over, or it is unpinned.
    ///
    /// # Errors
    /// [`Error::Unknown`] when there is none that this owner may read.
    pub async fn pin(
        &self,
        owner: &ArtifactOwner,
        reference: &ArtifactRef,
        holder: &str,
        keep_for: Duration,
    ) -> Result<(), Error> {
        let found = self.find(owner, reference).await?;
        let (id, holder) = (found.info.reference.to_string(), holder.to_owned());
        let store = self.0.store.open().await?;
        store
            .write(move |transaction| {
                Box::pin(async move { pin(transaction, &id, &holder, keep_for).await })
            })
            .await?;
        Ok(())
    }

    /// Lets go of everything that this holder keeps. It stays for as long as an artifact does that
    /// nobody pins, counted from now.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub async fn unpin_all(&self, holder: &str) -> Result<(), Error> {
        let (holder, ttl) = (holder.to_owned(), self.0.config.ttl);
        let store = self.0.store.open().await?;
        store
            .write(move |transaction| {
                Box::pin(async move { unpin_all(transaction, &holder, ttl).await })
            })
            .await?;
        Ok(())
    }

    /// Removes an artifact before its time, whoever pins it.
    ///
    /// # Errors
    /// [`Error::Unknown`] when there is none that this owner may read.
    pub async fn remove(
        &self,
        owner: &ArtifactOwner,
        reference: &ArtifactRef,
    ) -> Result<(), Error> {
        self.remove_found(&self.find(owner, reference).await?).await
    }

    /// Removes an artifact before its time, whoever pins it.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub async fn remove_found(&self, found: &Artifact) -> Result<(), Error> {
        let id = found.info.reference.to_string();
        let store = self.0.store.open().await?;
        store
            .write(move |transaction| {
                Box::pin(async move {
                    let connection = transaction.connection();
                    for text in [
                        "DELETE FROM artifacts_pins WHERE artifact = $1",
                        "UPDATE artifacts SET expires_ms = 0 WHERE id = $1",
                    ] {
                        sqlx::query(text).bind(&id).execute(&mut *connection).await?;
                    }
                    Ok(())
                })
            })
            .await?;
        self.sweep().await.map(|_| ())
    }

    fn read_row(&self, row: &AnyRow) -> Result<Artifact, Error> {
        let id: String = row.try_get("id")?;
        let reference = ArtifactRef::parse(&id).map_err(|_| Error::Unknown(id))?;
        let media_type = row.try_get("media_type")?;
        let bytes = row.try_get::<i64, _>("bytes")?.unsigned_abs();
        Ok(Artifact {
            info: ArtifactInfo { reference, media_type, bytes },
            tool: row.try_get("tool")?,
            stored_ms: row.try_get("stored_ms")?,
            expires_ms: row.try_get("expires_ms")?,
            digest: row.try_get("digest")?,
            object: row.try_get("object")?,
            artifacts: self.clone(),
        })
    }
}

impl Artifact {
    /// What it is, for programs.
    #[must_use]
    pub fn describe(&self) -> Value {
        json!({
            "artifact": self.info.reference.as_str(),
            "mediaType": self.info.media_type,
            "bytes": self.info.bytes,
            "tool": self.tool,
            "storedMs": self.stored_ms,
            "expiresMs": self.expires_ms,
        })
    }
}

/// Keeps an artifact for a holder, for whoever writes.
pub(crate) async fn pin(
    transaction: &mut Transaction,
    id: &str,
    holder: &str,
    keep_for: Duration,
) -> Result<(), toolbus_store::Error> {
    let until = after(transaction.now_ms().await?, keep_for);
    sqlx::query(
        "INSERT INTO artifacts_pins (artifact, holder, until_ms) VALUES ($1, $2, $3)
         ON CONFLICT (artifact, holder) DO UPDATE SET until_ms = excluded.until_ms",
    )
    .bind(id)
    .bind(holder)
    .bind(until)
    .execute(transaction.connection())
    .await?;
    Ok(())
}

async fn unpin_all(
    transaction: &mut Transaction,
    holder: &str,
    ttl: Duration,
) -> Result<(), toolbus_store::Error> {
    let until = after(transaction.now_ms().await?, ttl);
    let connection = transaction.connection();
    sqlx::query(
        "UPDATE artifacts SET expires_ms = $1 WHERE expires_ms < $1
         AND id IN (SELECT artifact FROM artifacts_pins WHERE holder = $2)",
    )
    .bind(until)
    .bind(holder)
    .execute(&mut *connection)
    .await?;
    sqlx::query("DELETE FROM artifacts_pins WHERE holder = $1")
        .bind(holder)
        .execute(connection)
        .await?;
    Ok(())
}

/// So much later than a moment, in milliseconds.
pub(crate) fn after(now_ms: i64, time: Duration) -> i64 {
    now_ms.saturating_add(i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
}

fn now_ms() -> i64 {
    i64::try_from(unix_now().as_millis()).unwrap_or(i64::MAX)
}
