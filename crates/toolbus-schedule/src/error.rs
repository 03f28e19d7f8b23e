//! What can go wrong with schedules.

use toolbus_tools::CallError;

use crate::ports::ZoneUnreadable;
use crate::{CronError, NAME_CHARS_MAX};

/// Why something is not scheduled, read or changed. The texts are for models, too.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The cron expression cannot be read.
    #[error("the cron expression cannot be used: {0}")]
    Cron(CronError),
    /// The name is none.
    #[error("the name cannot be used: {0}; it may have {NAME_CHARS_MAX} characters in one line")]
    Name(&'static str),
    /// The description is none.
    #[error("the description has {bytes} bytes, and may have from 1 to {max}")]
    Description {
        /// How long it is.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// There are as many tasks as there may be.
    #[error(
        "nothing was scheduled: {whose} {max} tasks already, the most there may be. Cancel what is \
         no longer needed (cancel_scheduled_task)"
    )]
    TooMany {
        /// Who has them, with a verb.
        whose: &'static str,
        /// The limit.
        max: u64,
    },
    /// The task was asked to run at once already, and has not yet.
    #[error("'{0}' is to run at once already")]
    AlreadyAsked(String),
    /// Whoever schedules is known in a way that cannot be kept.
    #[error("tasks of this caller cannot be kept")]
    Principal,
    /// The time zone of a person cannot be read.
    #[error(transparent)]
    Zone(#[from] ZoneUnreadable),
    /// What is kept makes no sense.
    #[error("the scheduled task '{0}' cannot be read")]
    Damaged(String),
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
            Error::Store(_) | Error::Zone(_) | Error::Damaged(_) => {
                let source = &error as &dyn std::error::Error;
                tracing::warn!(error = source, "could not use schedules");
                Self::execution_failed("the schedules of this agent cannot be used now")
            }
            Error::TooMany { .. } | Error::AlreadyAsked(_) | Error::Principal => {
                Self::execution_failed(error.to_string())
            }
            error => Self::invalid_arguments(error.to_string()),
        }
    }
}
