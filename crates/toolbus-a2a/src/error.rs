//! What can go wrong between agents.

use toolbus_bus::PublishError;
use toolbus_tools::CallError;
use toolbus_wire::ErrorCode;

/// Why a task is not sent or not cancelled. The texts are for models, too.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The name is none.
    #[error("'{name}' cannot be the name of an agent: {reason}")]
    Name {
        /// The beginning of it.
        name: String,
        /// Why not.
        reason: toolbus_wire::name::Error,
    },
    /// The agent would ask itself.
    #[error("'{0}' is this agent: it cannot give tasks to itself")]
    Itself(String),
    /// The skill or the message is too long.
    #[error("the {what} has {bytes} bytes, and may have from 1 to {max}")]
    Length {
        /// Which text.
        what: &'static str,
        /// How long it is.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// The time is none.
    #[error("a task may take from 1 to {max} minutes")]
    Timeout {
        /// The limit, in minutes.
        max: u64,
    },
    /// There are as many tasks as there may be.
    #[error(
        "nothing was sent: {whose} {max} tasks for other agents open, the most there may be. Wait \
         for the results"
    )]
    TooMany {
        /// Who has them, with a verb.
        whose: &'static str,
        /// The limit.
        max: u64,
    },
    /// A result could come to nobody.
    #[error("a task for another agent needs a session that its result comes into")]
    NoSession,
    /// Tasks of tasks of tasks.
    #[error("nothing was sent: tasks are nested too deep")]
    TooDeep,
    /// Nobody takes tasks under that name.
    #[error("nothing was sent: no agent named '{0}' is there")]
    NotThere(String),
    /// The bus does not take it. Whether it was sent is said.
    #[error("the task for '{agent}' was not sent for sure")]
    Publish {
        /// Whom it is for.
        agent: String,
        /// What the bus says.
        source: PublishError,
    },
    /// What is kept makes no sense.
    #[error("the task '{0}' cannot be read")]
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
                tracing::warn!(error = source, "could not keep tasks for other agents");
                Self::execution_failed("tasks for other agents cannot be kept now")
            }
            Error::Name { .. }
            | Error::Itself(_)
            | Error::Length { .. }
            | Error::Timeout { .. } => Self::invalid_arguments(error.to_string()),
            Error::NotThere(_) => Self::new(ErrorCode::Unroutable, error.to_string()),
            Error::TooDeep => Self::new(ErrorCode::Denied, error.to_string()),
            Error::Publish { agent, source } => {
                Self::execution_failed(format!("the task for '{agent}' was not sent: {source}"))
            }
            error => Self::execution_failed(error.to_string()),
        }
    }
}
