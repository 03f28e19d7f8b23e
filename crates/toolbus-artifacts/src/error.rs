//! What can go wrong with artifacts.

use toolbus_tools::ArtifactRef;

/// Why an artifact cannot be stored or read. The texts are for models, too: no path and nothing of
/// a credential is in them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is none of this name that the caller may read.
    #[error(
        "there is no artifact '{0}' here: it never was, is over, or belongs to another session"
    )]
    Unknown(String),
    /// It has more bytes than an artifact may have.
    #[error("it has more than {max} bytes, the most that an artifact may have")]
    TooLarge {
        /// The limit.
        max: u64,
    },
    /// Its session keeps too much already.
    #[error("the session keeps {kept} already, and may keep {max}")]
    Quota {
        /// What it keeps with this one.
        kept: String,
        /// What it may keep.
        max: String,
    },
    /// Its bytes are not what was stored.
    #[error("the bytes of the artifact '{0}' were changed or removed where they are kept")]
    Damaged(ArtifactRef),
    /// The store of rows failed.
    #[error("the state cannot be used")]
    Store(#[from] toolbus_store::Error),
    /// The place of bytes failed.
    #[error("the place where artifacts are kept cannot be used")]
    Place(#[source] object_store::Error),
}

impl From<toolbus_store::sqlx::Error> for Error {
    fn from(error: toolbus_store::sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}
