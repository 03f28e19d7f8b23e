//! A turn of the agent on a terminal.

use std::io::Write as _;
use std::sync::Arc;

use toolbus_agent::{TurnEnd, TurnEvent};
use toolbus_models::model::ModelEvent;
use toolbus_runtime::report;
use toolbus_runtime::service::Exit;

use crate::terminal::{StatusLine, Terminal};
use crate::terminal_text;

/// Shows a turn: what the model says on standard output, and what it does on standard error, where
/// that is a terminal.
pub(crate) struct TurnPrinter {
    is_json: bool,
    shows_calls: bool,
    /// The line of progress, which is taken while what the model says is on it.
    status: Arc<StatusLine>,
}

impl TurnPrinter {
    pub(crate) fn new(is_json: bool, terminal: &Terminal) -> Self {
        let shows_calls = !is_json && terminal.shows_progress();
        Self { is_json, shows_calls, status: terminal.line() }
    }

    pub(crate) fn print(&self, event: &TurnEvent) {
        match event {
            TurnEvent::Model(ModelEvent::Text { delta }) if !self.is_json => {
                self.status.take();
                let mut stdout = std::io::stdout();
                let _ = write!(stdout, "{}", terminal_text::for_stream(delta, &stdout));
                let _ = stdout.flush();
                if delta.ends_with('\n') {
                    self.status.give_back();
                }
            }
            TurnEvent::Model(ModelEvent::Retrying { model, wait, reason }) => {
                self.tell(&format!("{model}: {reason}; asking again in {:.0?}", wait));
            }
            TurnEvent::Model(ModelEvent::FellBack { model, reason }) => {
                self.tell(&format!("{reason}; asking {model}"));
            }

            TurnEvent::CallBegun { tool, arguments, .. } => {
                self.tell(&format!("{tool} {arguments}"));
            }
            TurnEvent::CallEnded { tool, text, is_error, took, .. } => {
                let how = if *is_error { "failed" } else { "ok" };
                self.tell(&format!("{tool}: {how}, {:.1} s: {text}", took.as_secs_f64()));
            }
            TurnEvent::Model(_) => {}
        }
    }

    /// Writes a line about what goes on.
    fn tell(&self, line: &str) {
        if !self.shows_calls {
            return;
        }

        self.end_line();
        self.status.take();
        let line = terminal_text::clean(line);
        let _ = writeln!(std::io::stderr(), "  {}", shortened(&line, columns().saturating_sub(3)));
        self.status.give_back();
    }

    fn end_line(&self) {
        if self.status.is_taken() {
            let _ = writeln!(std::io::stdout());
            self.status.give_back();
        }
    }

    /// Says how the turn ended, where that is not by its answer.
    pub(crate) fn finish(&self, end: &TurnEnd) {
        self.end_line();
        let line = match end {
            TurnEnd::Answered { limit: None, .. } => return,
            TurnEnd::Answered { limit: Some(limit), .. } => {
                format!("note: {}", limit.explanation())
            }
            TurnEnd::Failed { reason } => {
                report::print_error(terminal_text::clean(reason));
                return;
            }
            TurnEnd::Cancelled => "cancelled".to_owned(),
        };
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}

/// What a command ends with whose turn ended so.
pub(crate) fn exit_of(end: &TurnEnd) -> Exit {
    match end {
        TurnEnd::Answered { .. } => Exit::SUCCESS,
        TurnEnd::Failed { .. } | TurnEnd::Cancelled => Exit::FAILURE,
    }
}

/// The beginning of a text, on one line that is not wider than the terminal.
pub(crate) fn shortened(text: &str, columns: usize) -> String {
    let line = text.lines().next().unwrap_or_default();
    let mut short: String = line.chars().take(columns).collect();
    if short.len() < text.trim_end().len() {
        short.pop();
        short.push('…');
    }
    short
}

/// How wide the terminal is.
pub(crate) fn columns() -> usize {
    const COLUMNS_DEFAULT: usize = 80;
    let size = rustix::termios::tcgetwinsize(std::io::stderr());
    size.ok()
        .map(|size| usize::from(size.ws_col))
        .filter(|columns| *columns > 0)
        .unwrap_or(COLUMNS_DEFAULT)
}

#[cfg(test)]
mod tests;
