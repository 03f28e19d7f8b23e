//! Reading: by pieces, or as a whole, which is checked against the digest.

use std::ops::Range;
use std::path::PathBuf;

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt as _};
use object_store::ObjectStoreExt as _;
use object_store::path::Path;
use sha2::{Digest as _, Sha256};

use crate::{Artifact, Error};

/// Files whose check is remembered. Beyond, all are forgotten, and checked again.
const VERIFIED_MAX: usize = 10_000;

impl Artifact {
    /// Reads a part of it. What is beyond its end is not there.
    ///
    /// # Errors
    /// When its bytes cannot be read, or are fewer than were stored.
    pub async fn read(&self, range: Range<u64>) -> Result<Bytes, Error> {
        let range = range.start.min(self.info.bytes)..range.end.min(self.info.bytes);
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let length = range.end - range.start;
        let objects = self.artifacts.0.place.objects()?;
        let bytes =
            objects.get_range(&self.path(), range).await.map_err(|error| self.failed(error))?;
        if bytes.len() as u64 != length {
            return Err(self.damaged());
        }
        Ok(bytes)
    }

    /// Reads all of it, where it has no more than `max` bytes.
    ///
    /// # Errors
    /// When it has more, cannot be read, or is not what was stored.
    pub async fn read_all(&self, max: u64) -> Result<Bytes, Error> {
        if self.info.bytes > max {
            return Err(Error::TooLarge { max });
        }
        let mut whole = BytesMut::new();
        let mut pieces = std::pin::pin!(self.stream().await?);
        while let Some(piece) = pieces.next().await {
            whole.extend_from_slice(&piece?);
        }
        Ok(whole.freeze())
    }

    /// Reads all of it piece by piece. It ends with an error where it is not what was stored.
    ///
    /// # Errors
    /// When its bytes are not there.
    pub async fn stream(
        &self,
    ) -> Result<impl Stream<Item = Result<Bytes, Error>> + Send + use<>, Error> {
        let objects = self.artifacts.0.place.objects()?;
        let found = objects.get(&self.path()).await.map_err(|error| self.failed(error))?;
        let state = (found.into_stream(), Some(Sha256::new()), self.clone());

        Ok(futures_util::stream::unfold(state, |(mut pieces, hash, artifact)| async move {
            let mut hash = hash?;
            match pieces.next().await {
                Some(Ok(piece)) => {
                    hash.update(&piece);
                    Some((Ok(piece), (pieces, Some(hash), artifact)))
                }
                Some(Err(error)) => Some((Err(artifact.failed(error)), (pieces, None, artifact))),
                None => {
                    let is_whole = format!("{:x}", hash.finalize()) == artifact.digest;
                    (!is_whole).then(|| (Err(artifact.damaged()), (pieces, None, artifact)))
                }
            }
        }))
    }

    /// The file that has its bytes, where they are in a folder, once it is known to have what was
    /// stored.
    ///
    /// # Errors
    /// When it is not there or was changed.
    pub async fn verified_file(&self) -> Result<Option<PathBuf>, Error> {
        let Some(file) = self.artifacts.0.place.file(&self.object) else { return Ok(None) };
        let inner = &self.artifacts.0;
        let head =
            inner.place.objects()?.head(&self.path()).await.map_err(|error| self.failed(error))?;
        let state = (head.size, head.last_modified.into());
        if inner.verified.lock().get(&self.object) == Some(&state) {
            return Ok(Some(file));
        }

        let mut pieces = std::pin::pin!(self.stream().await?);
        while let Some(piece) = pieces.next().await {
            piece?;
        }
        let mut verified = inner.verified.lock();
        if verified.len() >= VERIFIED_MAX {
            verified.clear();
        }
        verified.insert(self.object.clone(), state);
        Ok(Some(file))
    }

    fn path(&self) -> Path {
        Path::from(self.object.as_str())
    }

    fn damaged(&self) -> Error {
        tracing::error!(artifact = %self.info.reference, "the bytes of an artifact were changed");
        Error::Damaged(self.info.reference.clone())
    }

    fn failed(&self, error: object_store::Error) -> Error {
        match error {
            object_store::Error::NotFound { .. } => self.damaged(),
            error => Error::Place(error),
        }
    }
}
