//! Builds the response message from the outcome of a script or an error.

use std::time::Duration;

use toolbus_wire::message::script::{
    EXIT_CODE_UNKNOWN, ScriptInvokeResponse, ScriptReason, ScriptStreams, ScriptUsage,
};

use crate::files::message;
use crate::runner::{Ending, Error, Outcome};

/// Shells add this to the number of the signal that ended a process, and so does the C# code.
const SIGNAL_EXIT_CODE: i32 = 128;
/// The signal that ends what must end.
const SIGKILL: i32 = 9;

/// The response for a script's outcome. `timeout` is what its caller asked for.
pub(crate) fn outcome_response(
    call_id: &str,
    outcome: Outcome,
    timeout: Duration,
) -> ScriptInvokeResponse {
    let truncated = outcome.output.truncated;
    let mut response = ScriptInvokeResponse::new(call_id);
    response.elapsed_ms = whole_millis(outcome.elapsed);
    response.output = Some(outcome.output.text);

    response.streams = Some(ScriptStreams {
        stdout: outcome.stdout.text,
        stderr: outcome.stderr.text,
        stdout_truncated: outcome.stdout.truncated,
        stderr_truncated: outcome.stderr.truncated,
    });

    response.usage = outcome.usage.map(|usage| ScriptUsage {
        cpu_ms: whole_millis(usage.cpu),
        memory_peak_bytes: usage.memory_peak,
    });

    (response.files, response.files_refused) = message::encode_produced(outcome.produced);

    match outcome.ending {
        Ending::Exited(code) => {
            response.exit_code = code;
            response.reason = truncated.then_some(ScriptReason::OutputTruncated);
        }
        Ending::Killed { signal } => {
            response.exit_code = SIGNAL_EXIT_CODE + signal;
            response.signal = Some(signal);
            response.reason = Some(ScriptReason::Killed);
        }
        Ending::OutOfMemory => {
            response.exit_code = SIGNAL_EXIT_CODE + SIGKILL;
            response.signal = Some(SIGKILL);
            response.reason = Some(ScriptReason::OutOfMemory);
        }
        Ending::TooMany(object) => {
            response.exit_code = SIGNAL_EXIT_CODE + SIGKILL;
            response.signal = Some(SIGKILL);
            // It is memory that ran out, of a kind that a caller would not look for.
            response.stderr = Some(format!("Script killed: too many {object}"));
            response.reason = Some(ScriptReason::OutOfMemory);
        }
        Ending::TimedOut => {
            response.exit_code = EXIT_CODE_UNKNOWN;
            response.stderr = Some(timeout_text(timeout));
            response.reason = Some(ScriptReason::TimedOut);
        }
        Ending::Cancelled => {
            response.exit_code = EXIT_CODE_UNKNOWN;
            response.stderr = Some("Script cancelled".to_owned());
            response.reason = Some(ScriptReason::Cancelled);
        }
    }

    response
}

/// The text of a script that was killed at its time. Whole seconds are what models know; a shorter
/// time can only be that of a call.
pub(crate) fn timeout_text(timeout: Duration) -> String {
    match timeout.as_secs() {
        0 => format!("Script timed out after {}ms", timeout.as_millis()),
        seconds => format!("Script timed out after {seconds}s"),
    }
}

/// The response for a script without an outcome, with the error as its reason.
pub(crate) fn error_response(call_id: &str, error: &Error) -> ScriptInvokeResponse {
    let reason = match error {
        Error::Invalid(_) => ScriptReason::Invalid,
        Error::Packages(_) => ScriptReason::Packages,
        Error::Busy(_) => ScriptReason::Busy,
        Error::Unavailable(_) => ScriptReason::Unavailable,
        Error::Cancelled => ScriptReason::Cancelled,
        Error::Failed(_) => ScriptReason::Failed,
        Error::OutcomeUnknown(_) => ScriptReason::OutcomeUnknown,
    };
    failed_response(call_id, reason, error.to_string())
}

/// The response for a failed call, with its reason.
pub(crate) fn failed_response(
    call_id: &str,
    reason: ScriptReason,
    text: String,
) -> ScriptInvokeResponse {
    let mut response = ScriptInvokeResponse::new(call_id);
    response.stderr = Some(text);
    response.reason = Some(reason);
    response
}

fn whole_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
