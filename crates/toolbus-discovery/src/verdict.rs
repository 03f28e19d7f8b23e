//! Verdicts: what the end of a call says of its tool.

use std::time::Duration;

use toolbus_tools::observe::{CallRecord, CallStatus};
use toolbus_wire::{ErrorCode, Execution};

/// The shortest time after which a time-out is the tool's: whoever gives it less has it fail.
pub(crate) const TIMEOUT_MIN: Duration = Duration::from_secs(1);

/// What the end of a call says of its tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It worked.
    Success,
    /// It failed.
    Failure,
    /// It took too long.
    Timeout,
    /// Whoever provides it was not there.
    Unavailable,
    /// Nothing: the caller made a mistake, was refused, or gave up.
    Nothing,
}

impl Verdict {
    /// The verdict of a call that has ended, whose tool ran this long.
    pub(crate) fn of(record: &CallRecord, ran: Duration) -> Self {
        if record.refused_by.is_some() {
            return Self::Nothing;
        }
        match (record.status, &record.error) {
            (CallStatus::Ok, _) => Self::Success,
            // The tool says itself that it failed.
            (CallStatus::Error, None) => Self::Failure,
            (CallStatus::Timeout, _) => {
                let is_its_own = record.execution != Execution::NotStarted && ran >= TIMEOUT_MIN;
                if is_its_own { Self::Timeout } else { Self::Nothing }
            }
            (CallStatus::Error, Some(code)) => Self::of_error(code, record.execution),
            (CallStatus::Denied, _) => Self::Nothing,
        }
    }

    fn of_error(code: &ErrorCode, execution: Execution) -> Self {
        match code {
            ErrorCode::ExecutionFailed | ErrorCode::ToolError => Self::Failure,
            ErrorCode::OutcomeUnknown | ErrorCode::Unroutable => Self::Unavailable,
            ErrorCode::Other(_) if execution == Execution::Started => Self::Failure,
            _ => Self::Nothing,
        }
    }
}

#[cfg(test)]
mod tests;
