//! What can go wrong with memory.

use toolbus_tools::CallError;

use crate::namespace::PATH_BYTES_MAX;

/// Why something is not read or kept. The texts are for models, too.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The call belongs to no session.
    #[error("working memory belongs to a session, and this call has none")]
    NoSession,
    /// The key is none.
    #[error("the key cannot be used: {0}")]
    Key(&'static str),
    /// The key is too long.
    #[error("the key has {bytes} bytes, and may have {PATH_BYTES_MAX} with its namespace")]
    KeyTooLong {
        /// How long it is.
        bytes: usize,
    },
    /// It is in another conversation.
    #[error(
        "'{0}' belongs to another session: it can be read here, and only that session changes it"
    )]
    ForeignSession(String),
    /// A text beside the value is none.
    #[error("the {what} cannot be used: {reason}")]
    Text {
        /// What it is.
        what: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// It is too large.
    #[error("the {what} has {bytes} bytes, and may have {max}")]
    TooLarge {
        /// What it is.
        what: &'static str,
        /// How large it is.
        bytes: u64,
        /// The limit.
        max: u64,
    },
    /// The namespace, or its owner, keeps too much already.
    #[error(
        "nothing was saved: working memory would keep {kept} in {place}, and may keep {max}. \
         Delete what is no longer needed (delete_from_working_memory), or wait until it expires"
    )]
    Full {
        /// The namespace, in quotation marks, or all of them.
        place: String,
        /// What it would keep with this.
        kept: String,
        /// What it may keep.
        max: String,
    },
    /// There are too many of them already.
    #[error("nothing was saved: there are {max} {what} already, the most there may be. {way_out}")]
    TooMany {
        /// What they are.
        what: &'static str,
        /// The limit.
        max: usize,
        /// What helps.
        way_out: &'static str,
    },
    /// All of them together are too large.
    #[error("nothing was saved: all {what} together may have {max} bytes. {way_out}")]
    TooMuch {
        /// What they are.
        what: &'static str,
        /// The limit.
        max: u64,
        /// What helps.
        way_out: &'static str,
    },
    /// The store failed.
    #[error("the state cannot be used")]
    Store(#[from] toolbus_store::Error),
}

impl From<toolbus_store::sqlx::Error> for Error {
    fn from(error: toolbus_store::sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

impl From<Error> for CallError {
    fn from(error: Error) -> Self {
        match error {
            Error::Store(_) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "could not use memory");
                Self::execution_failed("the memory of this agent cannot be used now")
            }
            Error::Full { .. } | Error::TooMany { .. } | Error::TooMuch { .. } => {
                Self::execution_failed(error.to_string())
            }
            error => Self::invalid_arguments(error.to_string()),
        }
    }
}
