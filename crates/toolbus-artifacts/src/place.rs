//! Where the bytes of artifacts are: a folder, or a bucket that speaks S3.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::local::LocalFileSystem;
use object_store::prefix::PrefixStore;
use object_store::{ObjectStore, path};

use crate::Error;

/// Where bytes are. Clones are the same place.
#[derive(Clone)]
pub struct Place {
    pub(crate) objects: Arc<dyn ObjectStore>,
    folder: Option<PathBuf>,
    name: Arc<str>,
}

/// A place that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// It is no path and no URL of a bucket.
    #[error("'{0}' is neither an absolute path nor s3://BUCKET or s3://BUCKET/PREFIX")]
    Malformed(String),
    /// The folder cannot be made.
    #[error("the folder {path} cannot be made")]
    Folder {
        /// Where it would be.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The bucket or the folder cannot be used as it is set up.
    #[error("artifacts cannot be kept there")]
    Setup(#[source] object_store::Error),
}

impl Place {
    /// The place of this name: an absolute path, or `s3://BUCKET/PREFIX`. What the bucket is
    /// reached with is read from `variables` as AWS's own programs name it: `AWS_ENDPOINT_URL`,
    /// `AWS_REGION`, `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and so on.
    ///
    /// # Errors
    /// When it is neither, the folder cannot be made, or something is missing to reach the bucket.
    pub fn open(
        name: &str,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, PlaceError> {
        if let Some(bucket) = name.strip_prefix("s3://") {
            return Self::bucket(bucket, variables);
        }
        if !Self::is_well_formed(name) {
            return Err(PlaceError::Malformed(name.to_owned()));
        }
        Self::folder(Path::new(name))
    }

    /// Whether this is the name of a place.
    #[must_use]
    pub fn is_well_formed(name: &str) -> bool {
        match name.strip_prefix("s3://") {
            Some(bucket) => !bucket.is_empty() && !bucket.starts_with('/'),
            None => Path::new(name).is_absolute(),
        }
    }

    /// This folder, which is made where it is not there: nobody else's to look into.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn folder(path: &Path) -> Result<Self, PlaceError> {
        use std::os::unix::fs::DirBuilderExt as _;

        let failed = |source| PlaceError::Folder { path: path.to_owned(), source };
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
        let folder = path.canonicalize().map_err(failed)?;
        let objects = LocalFileSystem::new_with_prefix(&folder).map_err(PlaceError::Setup)?;
        let name = folder.display().to_string().into();
        Ok(Self { objects: Arc::new(objects), folder: Some(folder), name })
    }

    fn bucket(
        name: &str,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, PlaceError> {
        let malformed = || PlaceError::Malformed(format!("s3://{name}"));
        let (bucket, prefix) = name.split_once('/').unwrap_or((name, ""));
        if bucket.is_empty() {
            return Err(malformed());
        }
        let prefix = path::Path::parse(prefix.trim_end_matches('/')).map_err(|_| malformed())?;

        // Of several in one process the first holds; they are the same.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = AmazonS3Builder::new().with_bucket_name(bucket);
        for (variable, value) in variables {
            let key = variable.to_ascii_lowercase().parse::<AmazonS3ConfigKey>();
            if let Ok(key) = key.as_ref().cloned()
                && variable.starts_with("AWS_")
            {
                builder = builder.with_config(key, value);
            }
        }
        let bucket = builder.build().map_err(PlaceError::Setup)?;
        let objects = PrefixStore::new(bucket, prefix);
        let name = format!("s3://{name}").into();
        Ok(Self { objects: Arc::new(objects), folder: None, name })
    }

    /// The file of an object, where objects are files.
    pub(crate) fn file(&self, object: &str) -> Option<PathBuf> {
        // Names of objects are ours: no part of one is `..`.
        Some(self.folder.as_ref()?.join(object))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Place({})", self.name)
    }
}

impl From<object_store::Error> for Error {
    fn from(error: object_store::Error) -> Self {
        Self::Place(error)
    }
}
