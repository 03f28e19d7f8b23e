//! What can go wrong with subagents.

use toolbus_tools::CallError;
use toolbus_wire::ErrorCode;

/// Why a subagent is not spawned, or something is not written for others. The texts are for models,
/// too.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A result could come to nobody.
    #[error("a subagent needs a session that its result comes into")]
    NoSession,
    /// A subagent would have subagents.
    #[error("a subagent cannot spawn, list or cancel subagents")]
    Nested,
    /// What is only for subagents was asked for by somebody else.
    #[error("only a subagent that is running reports progress")]
    NotInside,
    /// Scopes in scopes in scopes.
    #[error("nothing was spawned: calls are nested too deep")]
    TooDeep,
    /// There are as many in the session as there may be.
    #[error(
        "maximum concurrent subagents ({max}) already running. Wait for a result, or cancel one \
         with cancel_subagent"
    )]
    TooMany {
        /// The limit.
        max: usize,
    },
    /// There are as many in this process as there may be.
    #[error("maximum concurrent subagents ({max}) of this agent already running. Try again later")]
    NoRoom {
        /// The limit.
        max: usize,
    },
    /// As many are remembered as may be.
    #[error("there were too many subagents within a short time. Try again later")]
    TooManyRemembered,
    /// The process stops.
    #[error("the agent is stopping: nothing was spawned")]
    Stopping,
    /// A text is too long, or there is none.
    #[error("the {what} has {bytes} bytes, and may have from {min} to {max}")]
    Length {
        /// Which text.
        what: &'static str,
        /// How long it is.
        bytes: usize,
        /// How long it is at least.
        min: usize,
        /// The limit.
        max: usize,
    },
    /// A key has characters that it may not have.
    #[error("the key of a whiteboard entry has no control characters")]
    Key,
    /// The time is none.
    #[error("a subagent may take from 1 to {max} minutes")]
    Timeout {
        /// The limit, in minutes.
        max: u64,
    },
    /// The whiteboard is full.
    #[error("nothing was written: the whiteboard has room for {max} {what}. Delete what is done")]
    WhiteboardFull {
        /// What there is no more room for.
        what: &'static str,
        /// How much there may be.
        max: u64,
    },
    /// What is kept makes no sense.
    #[error("the subagent '{0}' cannot be read")]
    Damaged(String),
    /// The store failed.
    #[error("the state cannot be used")]
    Store(#[from] toolbus_store::Error),
}

impl Error {
    /// The error with its causes, for a log.
    pub(crate) fn as_dyn(&self) -> &(dyn std::error::Error + 'static) {
        self
    }
}

impl From<toolbus_store::sqlx::Error> for Error {
    fn from(error: toolbus_store::sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

impl From<Error> for CallError {
    fn from(error: Error) -> Self {
        match error {
            Error::Store(_) | Error::Damaged(_) => {
                let source = &error as &dyn std::error::Error;
                tracing::warn!(error = source, "could not keep subagents");
                Self::execution_failed("subagents cannot be kept now")
            }
            Error::Length { .. } | Error::Key | Error::Timeout { .. } => {
                Self::invalid_arguments(error.to_string())
            }
            Error::TooMany { .. }
            | Error::NoRoom { .. }
            | Error::TooManyRemembered
            | Error::Stopping => Self::new(ErrorCode::Busy, error.to_string()),
            Error::Nested | Error::NotInside | Error::TooDeep => {
                Self::new(ErrorCode::Denied, error.to_string())
            }
            error => Self::execution_failed(error.to_string()),
        }
    }
}
