//! `ask`: one turn of the agent.

use std::io::{Read as _, Write as _};
use std::sync::Arc;

use serde_json::{Value, json};
use toolbus_agent::TurnContext;
use toolbus_runtime::service::{BoxError, Context, Exit};
use toolbus_tools::Scope;
use toolbus_tools::id::SessionId;
use toolbus_wire::envelope::new_id;

use super::one_shot::{CONNECT_TIMEOUT, NeededServers, OneShot};
use super::{LEAVE_TIMEOUT, fail, misuse};
use crate::agent;
use crate::arguments::Ask;
use crate::settings::Settings;
use crate::terminal::Terminal;
use crate::turn_printer::{self, TurnPrinter};

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
        Err(what) => return Ok(misuse(what)),
    };

    let one_shot = OneShot::start(settings, context, NeededServers::None).await?;
    let agent = match agent::open(settings, one_shot.fleet(), options.model.as_deref()) {
        Ok(agent) => agent,
        Err(error) => {
            one_shot.stop().await;
            return Ok(misuse(toolbus_config::on_one_line(&error)));
        }
    };
    let background = one_shot.start_background(&agent).await?;
    // Its tools are those that there are now, and servers take a moment.
    one_shot.wait_for_servers(NeededServers::All, CONNECT_TIMEOUT).await;

    let session = options.session.clone().unwrap_or_else(new_session);
    let scope = Scope { cancelled: stop.clone(), ..one_shot.turn_scope(&agent, &session) };
    let terminal = Terminal::start("agent", context);
    let printer = TurnPrinter::new(options.json, &terminal);
    let turn = TurnContext {
        scope: Arc::new(scope),
        asker: terminal.asker(),
        on_event: &|event| printer.print(&event),
    };

    let report = agent.say(turn, text).await;
    terminal.stop().await;
    let exit = match report {
        Ok(report) if options.json => {
            let mut printed = json!(report);
            printed["session"] = Value::from(session.as_str());
            let _ = writeln!(std::io::stdout(), "{printed}");
            turn_printer::exit_of(&report.end)
        }
        Ok(report) => {
            printer.finish(&report.end);
            turn_printer::exit_of(&report.end)
        }
        Err(error) => fail(toolbus_config::on_one_line(&error)),
    };
    background.close(LEAVE_TIMEOUT).await;
    one_shot.stop().await;
    Ok(exit)
}

pub(super) fn new_session() -> SessionId {
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
