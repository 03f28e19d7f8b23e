//! Errors and warnings on standard error, for the person who started the program.
//!
//! They look as clap's own do: the first word has its colour where standard error is a terminal,
//! unless `NO_COLOR` is set, and elsewhere with `CLICOLOR_FORCE`. Everything in Toolbus that says
//! `error:` or `warning:` says it here. Text of others has to be cleaned before.

#[cfg(test)]
mod tests;

use std::error::Error;
use std::fmt::Display;
use std::io::Write as _;

use anstream::{AutoStream, ColorChoice};
use clap::builder::Styles;
use clap::builder::styling::{AnsiColor, Style};
use toolbus_config::error_chain;

/// The style of the word `warning`; clap has none.
const WARNING: Style = AnsiColor::Yellow.on_default().bold();

/// Prints an error and its causes, as one block.
pub fn print_error_chain(error: &(dyn Error + 'static)) {
    print_error(error_chain::in_lines(error));
}

/// Prints an error.
pub fn print_error(text: impl Display) {
    print("error", *Styles::styled().get_error(), &text);
}

/// Prints a warning.
pub fn print_warning(text: impl Display) {
    print("warning", WARNING, &text);
}

/// Whether text for standard error is coloured.
#[must_use]
pub fn has_color() -> bool {
    AutoStream::choice(&std::io::stderr()) != ColorChoice::Never
}

fn print(label: &str, style: Style, text: &dyn Display) {
    let block = render(label, style, text, has_color());
    // In one piece, so that nothing comes between. When standard error is closed, there is nobody
    // left to tell.
    let _ = std::io::stderr().write_all(block.as_bytes());
}

fn render(label: &str, style: Style, text: &dyn Display, has_color: bool) -> String {
    if has_color {
        format!("{style}{label}:{style:#} {text}\n")
    } else {
        format!("{label}: {text}\n")
    }
}
