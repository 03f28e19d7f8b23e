//! Packages, for every runner alike: parses requirements, and reports the result of installing
//! them.
//!
//! Invariants: no process is started for a requirement that does not parse; the report of an
//! installation is bounded and holds no password of an index.

pub mod requirement;

use std::time::Duration;

use crate::runner::{Ending, Error, Outcome};

pub use requirement::Requirements;

/// The program that runs pip, for `python3 -I -c` and pip's arguments. It takes away the right to
/// start programs first, without which pip builds nothing: only wheels can be installed.
pub const RUN_PIP: &str = include_str!("packages/run_pip.py");

/// How much of the installer's output an error quotes, in bytes.
const INSTALLER_OUTPUT_BYTES_MAX: usize = 2 << 10;

/// Checks that an installer succeeded, with errors worded as callers know them from the C# runner.
/// `limit` is the time that it was allowed.
///
/// # Errors
/// [`Error::Packages`] with what the installer said last; [`Error::Cancelled`].
pub fn check_installed(outcome: &Outcome, limit: Duration) -> Result<(), Error> {
    let how = match &outcome.ending {
        Ending::Exited(0) => return Ok(()),
        Ending::Cancelled => return Err(Error::Cancelled),
        Ending::TimedOut => return Err(timeout_error(limit)),
        Ending::Exited(code) => format!("exit {code}"),
        Ending::Killed { signal } => format!("killed by signal {signal}"),
        Ending::OutOfMemory => "out of memory".to_owned(),
        Ending::TooMany(object) => format!("too many {object}"),
    };

    let said = last_bytes(outcome.output.text.trim());
    Err(Error::Packages(format!("pip install failed ({how}): {}", without_passwords(said))))
}

/// The error for an installation that timed out.
#[must_use]
pub fn timeout_error(limit: Duration) -> Error {
    Error::Packages(format!("pip install timed out after {}s", limit.as_secs()))
}

/// The end of a text, where installers say what went wrong.
fn last_bytes(text: &str) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(INSTALLER_OUTPUT_BYTES_MAX))..]
}

/// Replaces user names and passwords in URLs.
fn without_passwords(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    let mut parts = text.split("://");
    safe.push_str(parts.next().unwrap_or_default());

    for part in parts {
        safe.push_str("://");

        let end = part.find(|char: char| char == '/' || char.is_whitespace()).unwrap_or(part.len());
        match part[..end].rfind('@') {
            Some(at) => {
                safe.push_str("***");
                safe.push_str(&part[at..]);
            }
            None => safe.push_str(part),
        }
    }

    safe
}

#[cfg(test)]
mod tests;
