//! Why a call of `spawn_wisps` runs nothing, where its definitions are right or too large to read.

use std::time::Duration;

use toolbus_tools::CallError;
use toolbus_wire::{ErrorCode, Execution};

/// Why nothing was run. The texts are for models.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    /// They are larger than may be read.
    #[error("nothing was run: the definitions have {found} {what}, and may have {max}. {instead}")]
    TooLarge { what: &'static str, found: usize, max: usize, instead: &'static str },
    /// Too many wisps have failed.
    #[error(
        "nothing was run: {failures} wisps have failed within {minutes} minutes, and no more are \
         started for now. Find out why they failed before you try again"
    )]
    BreakerOpen { failures: usize, minutes: u64, retry_after: Duration },
    /// The same call is under way.
    #[error("nothing was run: this call is under way already")]
    UnderWay,
    /// As many calls run as may.
    #[error("nothing was run: {max} calls with wisps are under way, the most there may be")]
    Busy { max: usize },
}

impl From<Error> for CallError {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        match error {
            Error::TooLarge { .. } => Self::invalid_arguments(text),
            Error::BreakerOpen { retry_after, .. } => {
                Self::new(ErrorCode::RateLimited, text).with_retry_after(retry_after)
            }
            // Whoever makes it again finds what the first came to.
            Error::UnderWay | Error::Busy { .. } => {
                Self::new(ErrorCode::Busy, text).with_execution(Execution::NotStarted)
            }
        }
    }
}
