//! How a failure is shown, once, to whoever started the program.

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;

/// Writes the error and what caused it to standard error as one block.
pub(super) fn print(error: &(dyn Error + 'static)) {
    // Nobody is there to be told when standard error is closed.
    let _ = std::io::stderr().write_all(block(error).as_bytes());
}

/// Writes a warning to standard error, where there is no log yet.
pub(super) fn warn(warning: &str) {
    let _ = writeln!(std::io::stderr(), "warning: {warning}");
}

/// The error and its causes, one a line. A cause that the line above says already is left out.
pub(super) fn block(error: &(dyn Error + 'static)) -> String {
    let mut said = error.to_string();
    let mut block = format!("error: {said}\n");
    let mut next = error.source();
    while let Some(cause) = next {
        next = cause.source();
        let text = cause.to_string();
        if !said.contains(&text) {
            writeln!(block, "  because: {text}").expect("a string takes any text");
            said = text;
        }
    }
    block
}

/// The error and its causes on one line, for a log or for a message of one line.
#[must_use]
pub fn on_one_line(error: &(dyn Error + 'static)) -> String {
    let block = block(error);
    let lines = block.trim_end().trim_start_matches("error: ").lines();
    lines
        .map(|line| line.trim_start().trim_start_matches("because: "))
        .collect::<Vec<_>>()
        .join(": ")
}
