//! Storing: bytes are streamed to their place, then a row makes an artifact of them.

use std::time::Duration;

use bytes::Bytes;
use object_store::buffered::BufWriter;
use object_store::path::Path;
use object_store::{ObjectStoreExt as _, PutPayload};
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncWriteExt as _;
use toolbus_store::sqlx::{self, Row as _};
use toolbus_store::{LazyStore, Transaction};
use toolbus_tools::{ArtifactInfo, Scope};
use toolbus_wire::envelope::new_id;

use crate::artifact_store::{Artifacts, after, pin};
use crate::{ArtifactOwner, Error, media};

/// Up to here an artifact is sent to its place in one piece, in bytes; a larger one in parts of
/// this size, of which one is filled while another is sent.
const PART_BYTES: usize = 8 << 20;
/// Most bytes that are hashed before others get their turn.
const HASHED_BYTES: usize = 1 << 20;
/// How long what a chain makes is kept while the chain may still run.
const CHAIN_PIN_TTL: Duration = Duration::from_secs(2 * 60 * 60);

/// What is known of an artifact before its bytes are.
#[derive(Debug, Clone)]
pub struct NewArtifact {
    owner: ArtifactOwner,
    media_type: String,
    tool: String,
    call: String,
    pinned_by: Option<Pin>,
}

#[derive(Debug, Clone)]
struct Pin {
    holder: String,
    keep_for: Duration,
}

/// Stores one artifact, piece by piece. Dropped before its end, it stores nothing.
pub struct ArtifactWriter {
    artifacts: Artifacts,
    new: NewArtifact,
    object: Path,
    upload: BufWriter,
    hash: Sha256,
    bytes: u64,
}

impl NewArtifact {
    /// An artifact of this owner, made by a tool. A media type that is none counts as any bytes.
    #[must_use]
    pub fn new(owner: ArtifactOwner, media_type: &str, tool: &str, call: &str) -> Self {
        let media_type = media::checked(Some(media_type), "application/octet-stream");
        Self { owner, media_type, tool: tool.to_owned(), call: call.to_owned(), pinned_by: None }
    }

    /// The same for whoever makes the calls of this scope. What a chain makes is pinned by it.
    #[must_use]
    pub fn of(scope: &Scope, media_type: &str, tool: &str, call: &str) -> Self {
        let new = Self::new(ArtifactOwner::of(scope), media_type, tool, call);
        match scope.chain() {
            Some(chain) => new.pinned_by(&chain, CHAIN_PIN_TTL),
            None => new,
        }
    }

    /// The same, pinned by this holder from the beginning.
    #[must_use]
    pub fn pinned_by(self, holder: &str, keep_for: Duration) -> Self {
        Self { pinned_by: Some(Pin { holder: holder.to_owned(), keep_for }), ..self }
    }
}

impl ArtifactWriter {
    pub(crate) fn new(artifacts: Artifacts, new: NewArtifact) -> Result<Self, Error> {
        let name = new_id();
        let object = Path::from(format!("{}/{name}", &name[..2]));
        let objects = artifacts.0.place.objects()?;
        let upload = BufWriter::with_capacity(objects, object.clone(), PART_BYTES);
        let upload = upload.with_max_concurrency(1);
        Ok(Self { artifacts, new, object, upload, hash: Sha256::new(), bytes: 0 })
    }

    /// Adds bytes.
    ///
    /// # Errors
    /// When it becomes too large, or the place does not take them.
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), Error> {
        let max = self.artifacts.config().artifact_bytes_max;
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        if self.bytes > max {
            self.abort().await;
            return Err(Error::TooLarge { max });
        }

        let mut rest = bytes;
        while !rest.is_empty() {
            let piece = rest.split_to(rest.len().min(HASHED_BYTES));
            self.hash.update(&piece);
            self.upload.put(piece).await?;
            tokio::task::consume_budget().await;
        }
        Ok(())
    }

    /// Makes an artifact of what was written.
    ///
    /// # Errors
    /// When its owner keeps too much, or it cannot be written.
    pub async fn finish(mut self) -> Result<ArtifactInfo, Error> {
        if self.bytes == 0 {
            // Nothing was sent yet, and nothing would be.
            let objects = self.artifacts.0.place.objects()?;
            objects.put(&self.object, PutPayload::new()).await?;
        } else if let Err(error) = self.upload.shutdown().await {
            self.abort().await;
            return Err(Error::Place(object_store::Error::Generic {
                store: "artifacts",
                source: Box::new(error),
            }));
        }

        let Self { artifacts, new, object, hash, bytes, .. } = self;
        let digest = format!("{:x}", hash.finalize());
        let reference = new.owner.reference(&digest, &new.media_type);
        let media_type = new.media_type.clone();
        let info = ArtifactInfo { reference, media_type, bytes };

        let damaged = find_damaged(&artifacts, &digest, bytes).await?;
        let row = Row {
            id: info.reference.to_string(),
            digest,
            object: object.to_string(),
            bytes: i64::try_from(bytes).unwrap_or(i64::MAX),
            new,
            damaged,
        };
        let used = row.insert(&artifacts).await;
        if !matches!(&used, Ok(Inserted { object: used, .. }) if *used == object.to_string()) {
            delete(&artifacts, &object).await;
        }
        if let Inserted { quota: Some(error), .. } = used? {
            return Err(error);
        }
        Ok(info)
    }

    /// Takes back what was written.
    async fn abort(&mut self) {
        // It may not have been begun, or be over; what is left is found by the next sweep.
        if let Err(error) = self.upload.abort().await {
            tracing::debug!(%error, "an upload was not taken back");
        }
    }
}

/// The object that should have this content and is gone, or not whole as far as its size tells.
async fn find_damaged(
    artifacts: &Artifacts,
    digest: &str,
    bytes: u64,
) -> Result<Option<String>, Error> {
    let store = artifacts.0.store.open().await?;
    let found = sqlx::query("SELECT object FROM artifacts_objects WHERE digest = $1")
        .bind(digest)
        .fetch_optional(store.readers())
        .await?;
    let Some(found) = found else { return Ok(None) };
    let object: String = found.try_get("object")?;
    let kept = artifacts.0.place.objects()?.head(&Path::from(object.as_str())).await;
    let is_whole = kept.is_ok_and(|kept| kept.size == bytes);
    Ok((!is_whole).then_some(object))
}

/// Deletes an object that no row needs.
pub(crate) async fn delete(artifacts: &Artifacts, object: &Path) {
    let Ok(objects) = artifacts.0.place.objects() else { return };
    match objects.delete(object).await {
        Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
        // The next sweep finds it again.
        Err(error) => tracing::warn!(%error, "the bytes of an artifact could not be deleted"),
    }
}

/// The row of an artifact whose bytes are at their place.
struct Row {
    id: String,
    digest: String,
    object: String,
    bytes: i64,
    new: NewArtifact,
    /// The object that should have the same content, and has not.
    damaged: Option<String>,
}

/// What became of a row.
struct Inserted {
    /// The object that has its bytes.
    object: String,
    /// Why it was not inserted.
    quota: Option<Error>,
}

impl Row {
    async fn insert(self, artifacts: &Artifacts) -> Result<Inserted, Error> {
        let config = artifacts.config();
        let limits = Limits {
            ttl: config.ttl,
            bytes: i64::try_from(config.session_bytes_max).unwrap_or(i64::MAX),
            artifacts: i64::try_from(config.session_artifacts_max).unwrap_or(i64::MAX),
        };
        let store: &LazyStore = &artifacts.0.store;
        let inserted = store
            .open()
            .await?
            .write(move |transaction| {
                Box::pin(async move { self.insert_within(transaction, limits).await })
            })
            .await?;
        Ok(inserted)
    }

    async fn insert_within(
        &self,
        transaction: &mut Transaction,
        limits: Limits,
    ) -> Result<Inserted, toolbus_store::Error> {
        let now = transaction.now_ms().await?;
        let expires = after(now, limits.ttl);
        let connection = transaction.connection();
        let known =
            sqlx::query("UPDATE artifacts SET expires_ms = $1 WHERE id = $2 AND expires_ms <= $1")
                .bind(expires)
                .bind(&self.id)
                .execute(&mut *connection)
                .await?;

        if known.rows_affected() == 0 {
            let quota = self.charge(transaction, limits).await?;
            if quota.is_some() {
                return Ok(Inserted { object: String::new(), quota });
            }
            sqlx::query(
                "INSERT INTO artifacts
                 (id, owner, digest, media_type, bytes, tool, call_id, stored_ms, expires_ms)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
            )
            .bind(&self.id)
            .bind(self.new.owner.as_str())
            .bind(&self.digest)
            .bind(&self.new.media_type)
            .bind(self.bytes)
            .bind(&self.new.tool)
            .bind(&self.new.call)
            .bind(now)
            .bind(expires)
            .execute(transaction.connection())
            .await?;
        }

        if let Some(Pin { holder, keep_for }) = &self.new.pinned_by {
            pin(transaction, &self.id, holder, *keep_for).await?;
        }
        let object = self.insert_object(transaction).await?;
        Ok(Inserted { object, quota: None })
    }

    /// Counts the artifact with what its owner keeps, where there is room for it.
    async fn charge(
        &self,
        transaction: &mut Transaction,
        limits: Limits,
    ) -> Result<Option<Error>, toolbus_store::Error> {
        let owner = self.new.owner.as_str();
        let used = sqlx::query(
            "INSERT INTO artifacts_used (owner, artifacts, bytes) VALUES ($1, 1, $2)
             ON CONFLICT (owner) DO UPDATE SET
                 artifacts = artifacts_used.artifacts + 1,
                 bytes = artifacts_used.bytes + excluded.bytes
             RETURNING artifacts, bytes",
        )
        .bind(owner)
        .bind(self.bytes)
        .fetch_one(transaction.connection())
        .await?;
        let (artifacts, bytes): (i64, i64) = (used.try_get("artifacts")?, used.try_get("bytes")?);

        let quota = |kept: i64, max: i64, what: &str| {
            (kept > max).then(|| Error::Quota {
                kept: format!("{kept} {what}"),
                max: format!("{max} {what}"),
            })
        };
        let over = quota(bytes, limits.bytes, "bytes")
            .or_else(|| quota(artifacts, limits.artifacts, "artifacts"));
        if over.is_some() {
            sqlx::query(
                "UPDATE artifacts_used SET artifacts = artifacts - 1, bytes = bytes - $2
                 WHERE owner = $1",
            )
            .bind(owner)
            .bind(self.bytes)
            .execute(transaction.connection())
            .await?;
        }
        Ok(over)
    }

    /// Says which object has the content from now on: the one that is kept, or the one that was
    /// just written.
    async fn insert_object(
        &self,
        transaction: &mut Transaction,
    ) -> Result<String, toolbus_store::Error> {
        let row = sqlx::query(
            "INSERT INTO artifacts_objects (digest, object, bytes) VALUES ($1, $2, $3)
             ON CONFLICT (digest) DO UPDATE SET object =
                 CASE WHEN artifacts_objects.object = $4 THEN excluded.object
                 ELSE artifacts_objects.object END
             RETURNING object",
        )
        .bind(&self.digest)
        .bind(&self.object)
        .bind(self.bytes)
        .bind(self.damaged.as_deref().unwrap_or_default())
        .fetch_one(transaction.connection())
        .await?;
        Ok(row.try_get("object")?)
    }
}

/// What an owner may keep, and for how long.
#[derive(Clone, Copy)]
struct Limits {
    ttl: Duration,
    bytes: i64,
    artifacts: i64,
}
