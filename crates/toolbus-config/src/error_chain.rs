//! An error and its causes as text, for logs, replies and terminals.

#[cfg(test)]
mod tests;

use std::error::Error;
use std::fmt::Write as _;

/// The error and its causes, one a line. A cause that the line above says already is left out.
#[must_use]
pub fn in_lines(error: &(dyn Error + 'static)) -> String {
    let mut above = error.to_string();
    let mut lines = format!("error: {above}\n");
    let mut next = error.source();

    while let Some(cause) = next {
        next = cause.source();
        let text = cause.to_string();
        if !above.contains(&text) {
            writeln!(lines, "  because: {text}").expect("a string takes any text");
            above = text;
        }
    }

    lines
}

/// The error and its causes on one line, for a log or for a message of one line.
#[must_use]
pub fn on_one_line(error: &(dyn Error + 'static)) -> String {
    let lines = in_lines(error);
    let lines = lines.trim_end().trim_start_matches("error: ").lines();

    lines
        .map(|line| line.trim_start().trim_start_matches("because: "))
        .collect::<Vec<_>>()
        .join(": ")
}
