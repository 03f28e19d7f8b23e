//! Failures and warnings on standard error, for the person who started the program.

use std::error::Error;
use std::io::Write as _;

use toolbus_config::error_chain;

/// Writes the error and its causes to standard error as one block.
pub(super) fn print(error: &(dyn Error + 'static)) {
    // When standard error is closed, there is nobody left to tell.
    let _ = std::io::stderr().write_all(error_chain::in_lines(error).as_bytes());
}

/// Writes a warning to standard error, where there is no log yet.
pub(super) fn warn(warning: &str) {
    let _ = writeln!(std::io::stderr(), "warning: {warning}");
}
