//! An error and its causes as text, for logs, replies and terminals.

#[cfg(test)]
mod tests;

use std::error::Error;
use std::fmt::Write as _;

/// The error and its causes, one a line, without a line end behind the last. A cause that the line
/// above says already is left out.
#[must_use]
pub fn in_lines(error: &(dyn Error + 'static)) -> String {
    let mut above = error.to_string();
    let mut lines = above.clone();
    let mut next = error.source();

    while let Some(cause) = next {
        next = cause.source();
        let text = cause.to_string();
        if !above.contains(&text) {
            write!(lines, "\n  because: {text}").expect("a string takes any text");
            above = text;
        }
    }

    lines
}

/// The error and its causes on one line, for a log or for a message of one line.
#[must_use]
pub fn on_one_line(error: &(dyn Error + 'static)) -> String {
    in_lines(error)
        .trim_end()
        .lines()
        .map(|line| line.trim_start().trim_start_matches("because: "))
        .collect::<Vec<_>>()
        .join(": ")
}
