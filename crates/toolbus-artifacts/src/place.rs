//! Where the bytes of artifacts are: a folder, or a bucket that speaks S3.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use object_store::ObjectStore;
#[cfg(feature = "s3")]
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::local::LocalFileSystem;
#[cfg(feature = "s3")]
use object_store::path;
#[cfg(feature = "s3")]
use object_store::prefix::PrefixStore;
use parking_lot::Mutex;
use toolbus_config::build_features::{BuildFeature, LeftOut};

use crate::Error;

/// The beginning of the name of a bucket.
const S3: &str = "s3://";

/// Where bytes are. A folder is made when something is stored there first. Clones are the same
/// place.
#[derive(Clone)]
pub struct Place(Arc<Inner>);

struct Inner {
    name: String,
    folder: Option<PathBuf>,
    /// Of a folder, once it is there.
    objects: Mutex<Option<Arc<dyn ObjectStore>>>,
}

/// A place that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// It is no path and no URL of a bucket.
    #[error("'{0}' is neither an absolute path nor s3://BUCKET or s3://BUCKET/PREFIX")]
    Malformed(String),
    /// The bucket cannot be used as it is set up.
    #[error("artifacts cannot be kept there")]
    Setup(#[source] object_store::Error),
    /// The build has no client for buckets.
    #[error(transparent)]
    LeftOut(#[from] LeftOut),
}

impl Place {
    /// The place of this name: an absolute path, or `s3://BUCKET/PREFIX`. What the bucket is
    /// reached with is read from `variables` as AWS's own programs name it: `AWS_ENDPOINT_URL`,
    /// `AWS_REGION`, `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and so on.
    ///
    /// # Errors
    /// When it is neither, or something is missing to reach the bucket.
    pub fn open(
        name: &str,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, PlaceError> {
        if let Some(left_out) = Self::left_out(name) {
            return Err(left_out.into());
        }
        if let Some(bucket) = name.strip_prefix(S3) {
            return Self::bucket(bucket, variables);
        }
        if !Self::is_well_formed(name) {
            return Err(PlaceError::Malformed(name.to_owned()));
        }
        Ok(Self::folder(Path::new(name)))
    }

    /// Whether this is the name of a place.
    #[must_use]
    pub fn is_well_formed(name: &str) -> bool {
        match name.strip_prefix(S3) {
            Some(bucket) => !bucket.is_empty() && !bucket.starts_with('/'),
            None => Path::new(name).is_absolute(),
        }
    }

    /// Returns the part of the build that the place of this name needs and this build lacks.
    #[must_use]
    pub fn left_out(name: &str) -> Option<LeftOut> {
        let is_missing = cfg!(not(feature = "s3")) && name.starts_with(S3);
        is_missing.then_some(LeftOut(BuildFeature::S3))
    }

    /// This folder. Where it is not there it is made, for its owner only, by the first artifact.
    #[must_use]
    pub fn folder(path: &Path) -> Self {
        let name = path.display().to_string();
        let (folder, objects) = (Some(path.to_owned()), Mutex::new(None));
        Self(Arc::new(Inner { name, folder, objects }))
    }

    #[cfg(not(feature = "s3"))]
    fn bucket(_: &str, _: impl IntoIterator<Item = (String, String)>) -> Result<Self, PlaceError> {
        Err(LeftOut(BuildFeature::S3).into())
    }

    #[cfg(feature = "s3")]
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
        let name = format!("s3://{name}");
        let objects: Arc<dyn ObjectStore> = Arc::new(objects);
        Ok(Self(Arc::new(Inner { name, folder: None, objects: Mutex::new(Some(objects)) })))
    }

    /// What keeps the bytes.
    ///
    /// # Errors
    /// When the folder is not there and cannot be made.
    pub(crate) fn objects(&self) -> Result<Arc<dyn ObjectStore>, Error> {
        let Inner { folder, objects, .. } = &*self.0;
        let mut objects = objects.lock();
        if let (None, Some(folder)) = (&*objects, folder) {
            *objects = Some(Arc::new(open_folder(folder)?));
        }
        let missing = || {
            let store = "a bucket";
            Error::Place(object_store::Error::Generic { store, source: "it is not open".into() })
        };
        objects.clone().ok_or_else(missing)
    }

    /// The file of an object, where objects are files.
    pub(crate) fn file(&self, object: &str) -> Option<PathBuf> {
        // Names of objects are ours: no part of one is `..`.
        Some(self.0.folder.as_ref()?.join(object))
    }
}

fn open_folder(path: &Path) -> Result<LocalFileSystem, Error> {
    use std::os::unix::fs::DirBuilderExt as _;

    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    let failed = |source: std::io::Error| {
        Error::Place(object_store::Error::Generic { store: "a folder", source: Box::new(source) })
    };
    made.map_err(failed)?;
    LocalFileSystem::new_with_prefix(path).map_err(Error::Place)
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.name)
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Place({})", self.0.name)
    }
}

impl From<object_store::Error> for Error {
    fn from(error: object_store::Error) -> Self {
        Self::Place(error)
    }
}

#[cfg(all(test, not(feature = "s3")))]
mod tests;
