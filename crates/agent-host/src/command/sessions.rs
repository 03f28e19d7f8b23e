//! `sessions`: what was said.

use std::io::Write as _;

use serde_json::json;
use toolbus_agent::{Event, SessionRef, Sessions};
use toolbus_models::message::AssistantPart;
use toolbus_runtime::service::{BoxError, Exit};
use toolbus_tools::{Door, Principal, Scope};
use toolbus_wire::name::AgentName;

use super::misuse;
use crate::arguments::SessionsOptions;
use crate::settings::Settings;
use crate::state;
use crate::terminal_text;

/// Most sessions that are listed.
const LISTED_MAX: u32 = 10_000;

pub(super) async fn run(options: SessionsOptions, settings: &Settings) -> Result<Exit, BoxError> {
    let Some(store) = state::store(settings) else {
        return Ok(misuse("there is no place for state (setting store)"));
    };
    let sessions = Sessions::new(store.clone(), settings.agent.limits(), "sessions");
    let scope = Scope::new(Door::Turn, Principal::local(), AgentName::parse(&settings.name)?)
        .with_session(options.session.clone());

    let lines = match &options.session {
        Some(_) => show(&sessions, &scope, options.json).await,
        None => list(&sessions, &scope, &options).await,
    };
    store.close().await;
    let mut stdout = std::io::stdout();
    for line in lines? {
        let _ = writeln!(stdout, "{}", terminal_text::for_stream(&line, &stdout));
    }
    let _ = stdout.flush();
    Ok(Exit::SUCCESS)
}

async fn list(
    sessions: &Sessions,
    scope: &Scope,
    options: &SessionsOptions,
) -> Result<Vec<String>, toolbus_agent::sessions::Error> {
    let infos = sessions.list(scope, i64::from(options.limit.min(LISTED_MAX))).await?;
    if options.json {
        return Ok(vec![json!(infos).to_string()]);
    }
    if infos.is_empty() {
        return Ok(vec!["No session yet. `agent-host ask` begins one.".to_owned()]);
    }
    Ok(infos.into_iter().map(|info| format!("{}  {}", info.session, info.title)).collect())
}

async fn show(
    sessions: &Sessions,
    scope: &Scope,
    as_json: bool,
) -> Result<Vec<String>, toolbus_agent::sessions::Error> {
    let events = sessions.transcript(&SessionRef::of(scope)?).await?;
    Ok(if as_json { vec![json!(events).to_string()] } else { lines_of(&events) })
}

/// What happened, as a person reads it.
pub(super) fn lines_of(events: &[Event]) -> Vec<String> {
    let mut lines = Vec::new();
    for event in events {
        match event {
            Event::Said { text, outside: None, .. } => lines.push(format!("> {text}")),
            Event::Said { text, outside: Some(_), .. } => lines.push(text.clone()),
            Event::Noticed { text, .. } => lines.push(text.to_string()),
            Event::Rated { is_positive, .. } => {
                let how = if *is_positive { "helpful" } else { "not helpful" };
                lines.push(format!("[the user marked the answer as {how}]"));
            }
            Event::Answered { completion } => {
                for part in &completion.message.parts {
                    match part {
                        AssistantPart::Text { text } => lines.push(text.trim_end().to_owned()),
                        AssistantPart::Call(call) => {
                            lines.push(format!("  {} {}", call.name, call.written_arguments()));
                        }
                        AssistantPart::Reasoning(_) => {}
                    }
                }
            }

            Event::CallEnded { result, .. } => {
                lines.push(format!("  = {}", result.text.lines().next().unwrap_or_default()));
            }
            Event::ModelFailed { reason, .. } => lines.push(format!("[{reason}]")),
            Event::TooLong => lines.push("[made shorter for the model]".to_owned()),
            Event::Cancelled => lines.push("[cancelled]".to_owned()),
        }
    }
    lines
}
