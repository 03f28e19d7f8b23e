//! `ask`: one turn of the agent.

use std::io::{IsTerminal as _, Read as _, Write as _};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use toolbus_agent::{TurnContext, TurnEnd, TurnEvent, TurnReport};
use toolbus_models::model::ModelEvent;
use toolbus_runtime::service::{BoxError, Context, Exit};
use toolbus_tools::id::SessionId;
use toolbus_tools::{Door, Principal, Scope};
use toolbus_wire::envelope::new_id;

use super::one_shot::OneShot;
use crate::agent;
use crate::arguments::Ask;
use crate::settings::Settings;
use crate::terminal::Terminal;
use crate::terminal_text;

/// Longest text that is taken from standard input, in bytes.
const TEXT_BYTES_MAX: u64 = 8 << 20;

pub(super) async fn run(
    options: Ask,
    settings: &Settings,
    context: &Context,
) -> Result<Exit, BoxError> {
    let stop = context.shutdown.requested();
    let Some(text) = stop.run_until_cancelled(read_text(options.text.clone())).await else {
        return Ok(Exit::FAILURE);
    };
    let text = match text {
        Ok(text) => text,
        Err(what) => return Ok(misuse(&what)),
    };

    let one_shot = OneShot::start(settings, context).await?;
    let agent = match agent::open(settings, one_shot.fleet(), options.model.as_deref()) {
        Ok(agent) => agent,
        Err(error) => {
            one_shot.stop().await;
            return Ok(misuse(&toolbus_config::on_one_line(&error)));
        }
    };
    // Its tools are those that there are now, and servers take a moment.
    one_shot.wait_for_servers().await;

    let session = options.session.clone().unwrap_or_else(new_session);
    let name = one_shot.toolbus().name().clone();
    let scope =
        Scope::new(Door::Turn, Principal::local(), name).with_session(Some(session.clone()));
    let scope = Arc::new(one_shot.toolbus().invoker().begin_run(scope));
    let terminal = Terminal::start("agent");
    let printer = Printer::new(options.json);
    let turn = TurnContext {
        scope: Arc::clone(&scope),
        asker: terminal.asker(),
        on_event: &|event| printer.print(&event),
    };

    let cancelling = async {
        stop.cancelled().await;
        scope.cancelled.cancel();
        std::future::pending::<()>().await
    };
    let report = tokio::select! {
        report = agent.say(turn, text) => report,
        () = cancelling => unreachable!("it never ends"),
    };
    terminal.stop().await;
    let exit = match report {
        Ok(report) => printer.finish(&session, &report),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {}", toolbus_config::on_one_line(&error));
            Exit::FAILURE
        }
    };
    one_shot.stop().await;
    Ok(exit)
}

fn misuse(what: &str) -> Exit {
    let _ = writeln!(std::io::stderr(), "error: {what}");
    Exit::MISUSE
}

fn new_session() -> SessionId {
    let name = format!("session/{}", new_id());
    SessionId::parse(name).expect("letters and digits")
}

async fn read_text(text: String) -> Result<String, String> {
    let text = if text == "-" {
        let read = tokio::task::spawn_blocking(|| {
            let mut text = String::new();
            std::io::stdin().take(TEXT_BYTES_MAX + 1).read_to_string(&mut text).map(|_| text)
        });
        let read = read.await.map_err(|error| error.to_string())?;
        read.map_err(|error| format!("standard input cannot be read: {error}"))?
    } else {
        text
    };
    if text.len() as u64 > TEXT_BYTES_MAX {
        return Err(format!("the text is over the limit of {TEXT_BYTES_MAX} bytes"));
    }
    if text.trim().is_empty() {
        return Err("there is nothing to say".to_owned());
    }
    Ok(text)
}

/// Shows a turn: what the model says on standard output, and what it does on standard error, where
/// that is a terminal.
struct Printer {
    is_json: bool,
    shows_calls: bool,
    /// Whether the line that is written is at its beginning.
    at_start: Mutex<bool>,
}

impl Printer {
    fn new(is_json: bool) -> Self {
        let shows_calls = !is_json && std::io::stderr().is_terminal();
        Self { is_json, shows_calls, at_start: Mutex::new(true) }
    }

    fn print(&self, event: &TurnEvent) {
        match event {
            TurnEvent::Model(ModelEvent::Text { delta }) if !self.is_json => {
                let mut stdout = std::io::stdout();
                let _ = write!(stdout, "{}", terminal_text::for_stream(delta, &stdout));
                let _ = stdout.flush();
                *self.at_start.lock() = delta.ends_with('\n');
            }
            TurnEvent::Model(ModelEvent::Retrying { model, wait, reason }) => {
                self.tell(&format!("{model}: {reason}; asking again in {:.0?}", wait));
            }
            TurnEvent::Model(ModelEvent::FellBack { model, reason }) => {
                self.tell(&format!("{reason}; asking {model}"));
            }
            TurnEvent::CallBegun { tool, arguments, .. } => {
                self.tell(&format!("{tool} {}", shortened(&arguments.to_string())));
            }
            TurnEvent::CallEnded { tool, text, is_error, took, .. } => {
                let how = if *is_error { "failed" } else { "ok" };
                let line = text.lines().next().unwrap_or_default();
                self.tell(&format!("{tool} {how} after {took:.1?}: {}", shortened(line)));
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
        let _ = writeln!(std::io::stderr(), "  {}", terminal_text::clean(line));
    }

    fn end_line(&self) {
        let mut at_start = self.at_start.lock();
        if !*at_start {
            let _ = writeln!(std::io::stdout());
            *at_start = true;
        }
    }

    fn finish(&self, session: &SessionId, report: &TurnReport) -> Exit {
        let exit = match &report.end {
            TurnEnd::Answered { .. } => Exit::SUCCESS,
            TurnEnd::Failed { .. } | TurnEnd::Cancelled => Exit::FAILURE,
        };
        if self.is_json {
            let mut printed = json!(report);
            printed["session"] = Value::from(session.as_str());
            let _ = writeln!(std::io::stdout(), "{printed}");
            return exit;
        }

        self.end_line();
        match &report.end {
            TurnEnd::Answered { limit: None, .. } => {}
            TurnEnd::Answered { limit: Some(limit), .. } => {
                let _ = writeln!(std::io::stderr(), "note: {}", limit.explanation());
            }
            TurnEnd::Failed { reason } => {
                let _ = writeln!(std::io::stderr(), "error: {}", terminal_text::clean(reason));
            }
            TurnEnd::Cancelled => {
                let _ = writeln!(std::io::stderr(), "error: cancelled");
            }
        }
        exit
    }
}

/// The beginning of a text, on one line.
fn shortened(text: &str) -> String {
    const CHARACTERS_MAX: usize = 100;
    let mut short: String = text.chars().take(CHARACTERS_MAX).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
