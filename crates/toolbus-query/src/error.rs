//! Why there is no answer.

use std::io;
use std::time::Duration;

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It took longer than it may, in time or in processor time.
    #[error("no answer within {} s", after.as_secs_f32())]
    Timeout {
        /// How long it was allowed to take.
        after: Duration,
    },
    /// It would need more memory than it may have.
    #[error("the answer needs more memory than there is for one question")]
    OutOfMemory,
    /// The question cannot be answered as it was asked: a bad pattern, filter or statement, or a
    /// value of another kind.
    #[error("{message}")]
    Invalid {
        /// What is wrong, where that is known with its place.
        message: String,
    },
    /// As many questions as may are being answered, and none was done in time.
    #[error("too many questions are being answered")]
    Busy,
    /// The worker could not be started, or ended in a way that nobody planned.
    #[error("the worker failed: {message}")]
    Failed {
        /// What is known of it.
        message: String,
        /// The error of the system, if there was one.
        #[source]
        source: Option<io::Error>,
    },
}

impl Error {
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid { message: message.into() }
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::Failed { message: message.into(), source: None }
    }

    pub(crate) fn io(message: &str, source: io::Error) -> Self {
        Self::Failed { message: message.to_owned(), source: Some(source) }
    }
}
