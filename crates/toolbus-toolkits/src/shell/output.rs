//! What a command printed and how it ended, as models read it.

use std::time::Duration;

use toolbus_scripts::runner::{Captured, Ending, Outcome};
use toolbus_tools::call::{CallError, Output};

/// What became of a command.
pub(super) struct CommandOutcome {
    pub(super) stdout: Captured,
    pub(super) stderr: Captured,
    pub(super) ending: Ending,
    /// The streams that somebody held open after its end.
    pub(super) unread: Vec<&'static str>,
}

impl From<Outcome> for CommandOutcome {
    fn from(outcome: Outcome) -> Self {
        let Outcome { stdout, stderr, ending, .. } = outcome;
        Self { stdout, stderr, ending, unread: Vec::new() }
    }
}

impl CommandOutcome {
    /// The output of the tool. A command that fails by itself is no error of the tool: its code is
    /// part of what it says.
    pub(super) fn into_output(self, timeout: Duration) -> Result<Output, CallError> {
        let Self { stdout, stderr, ending, unread } = self;
        let mut text = String::new();
        for (name, stream) in [("stdout", &stdout), ("stderr", &stderr)] {
            text.push_str(&stream.text);
            if unread.contains(&name) {
                text.push_str(&format!("[{name} read timed out]"));
            }
        }
        if stdout.truncated || stderr.truncated {
            text.push_str("\n[output truncated]");
        }

        let noted = |note: String| format!("{text}\n[{note}]");
        Ok(match ending {
            Ending::Exited(0) => Output::text(text.trim_end()),
            Ending::Exited(code) => Output::text(noted(format!("exit code {code}"))),
            // As shells tell it.
            Ending::Killed { signal } => Output::text(noted(format!("exit code {}", 128 + signal))),
            Ending::TimedOut => {
                Output::error(noted(format!("timed out after {}s", timeout.as_secs_f64())))
            }
            Ending::OutOfMemory => Output::error(noted("out of memory".to_owned())),
            Ending::TooMany(what) => Output::error(noted(format!("too many {what}"))),
            Ending::Cancelled => return Err(CallError::cancelled()),
        })
    }
}

#[cfg(test)]
mod tests;
