//! `mcp sync`: what becomes of the servers of the list.

use std::fmt::Write as _;

use serde_json::{Value, json};
use toolbus_mcp::ServerFile;
use toolbus_runtime::service::{BoxError, Context, Exit};
use toolbus_wire::message::mcp::McpServerSummary;

use super::super::one_shot::{CONNECT_TIMEOUT, NeededServers, OneShot};
use super::super::{fail, print};
use crate::settings::Settings;

/// What became of a server.
#[derive(Debug, PartialEq, Eq)]
enum Synced {
    /// It is connected, with so many tools.
    Connected(usize),
    Disabled,
    Unavailable(String),
    /// No bridge has it.
    Unknown,
}

pub(super) async fn run(
    file: &ServerFile,
    as_json: bool,
    settings: &Settings,
    context: &Context,
) -> Result<Exit, BoxError> {
    let servers = match file.servers() {
        Ok(servers) => servers,
        Err(error) => return Ok(fail(toolbus_config::on_one_line(&error))),
    };
    let one_shot = OneShot::start(settings, context, NeededServers::All).await?;
    one_shot.wait_for_servers(NeededServers::All, CONNECT_TIMEOUT).await;
    let known = one_shot.toolbus().directory().servers();
    let synced: Vec<_> = servers
        .iter()
        .map(|(name, entry)| (name.as_str(), outcome_of(name, entry, &known)))
        .collect();
    let has_mistakes = one_shot.has_mistakes();
    one_shot.stop().await;

    let text = if as_json { as_lines_of_json(&synced) } else { as_text(&synced) };
    print(&text);
    let works =
        |(_, synced): &(&str, Synced)| matches!(synced, Synced::Connected(_) | Synced::Disabled);
    Ok(match synced.iter().all(works) {
        _ if has_mistakes => Exit::MISUSE,
        true => Exit::SUCCESS,
        false => Exit::FAILURE,
    })
}

fn outcome_of(name: &str, entry: &Value, known: &[McpServerSummary]) -> Synced {
    if entry["disabled"] == json!(true) {
        return Synced::Disabled;
    }
    match known.iter().find(|server| server.server_name.eq_ignore_ascii_case(name)) {
        None => Synced::Unknown,
        Some(server) => match &server.unavailable {
            Some(why) => Synced::Unavailable(why.clone()),
            None => Synced::Connected(server.tool_names.len()),
        },
    }
}

fn as_text(synced: &[(&str, Synced)]) -> String {
    let width = synced.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    let mut text = String::new();
    for (name, synced) in synced {
        let _ = writeln!(text, "{name:width$}  {}", synced.describe());
    }
    if text.is_empty() {
        text.push_str("There are no servers.\n");
    }
    text
}

fn as_lines_of_json(synced: &[(&str, Synced)]) -> String {
    let rows = synced.iter().map(|(name, synced)| {
        let (status, tools) = match synced {
            Synced::Connected(tools) => ("connected", Some(tools)),
            Synced::Disabled => ("disabled", None),
            Synced::Unavailable(_) => ("unavailable", None),
            Synced::Unknown => ("unknown", None),
        };
        json!({"name": name, "status": status, "tools": tools, "says": synced.describe()})
    });
    format!("{:#}\n", Value::from(rows.collect::<Vec<_>>()))
}

impl Synced {
    fn describe(&self) -> String {
        match self {
            Self::Connected(1) => "connected, 1 tool".to_owned(),
            Self::Connected(tools) => format!("connected, {tools} tools"),
            Self::Disabled => "disabled".to_owned(),
            Self::Unavailable(why) => format!("not available: {why}"),
            Self::Unknown => "no bridge has it, or its entry has a mistake".to_owned(),
        }
    }
}
