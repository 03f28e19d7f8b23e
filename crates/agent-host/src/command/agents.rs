//! `agents`: the other agents that this one knows.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;
use toolbus_a2a::{Directory, KnownAgent};
use toolbus_runtime::service::{BoxError, Exit};
use toolbus_wire::name::AgentName;

use super::{fail, misuse};
use crate::arguments::AgentsOptions;
use crate::settings::Settings;
use crate::{state, terminal_text};

pub(super) async fn run(options: AgentsOptions, settings: &Settings) -> Result<Exit, BoxError> {
    let Some(store) = state::store(settings) else {
        return Ok(misuse("there is no place for state (setting store)"));
    };
    let name = AgentName::parse(&settings.name)?;
    let config = Arc::new(settings.a2a.config(&name, false));
    let directory = Directory::new(store.clone(), name, config);
    let read = match store.may_hold_something() {
        true => directory.load().await,
        false => Ok(()),
    };
    store.close().await;
    if let Err(error) = read {
        return Ok(fail(toolbus_config::on_one_line(&error)));
    }

    let known = directory.list(None);
    let over_http = &settings.a2a.agents;
    let text = if options.json {
        let mut agents: Vec<_> = known.iter().map(as_json).collect();
        let remote = over_http.iter();
        agents.extend(remote.map(|agent| json!({"name": agent.name, "cardUrl": agent.card_url})));
        serde_json::to_string_pretty(&agents)? + "\n"
    } else {
        let mut text: String = known.iter().map(line_of).collect();
        for agent in over_http {
            let _ = writeln!(text, "{}  over HTTP  {}", agent.name, agent.card_url);
        }
        if text.is_empty() {
            text.push_str("No other agents are known.\n");
        }
        // What agents say of themselves is theirs.
        terminal_text::for_stream(&text, &std::io::stdout()).into_owned()
    };
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(Exit::SUCCESS)
}

fn seen(agent: &KnownAgent) -> Option<Timestamp> {
    agent.seen_ms.and_then(|ms| Timestamp::from_millisecond(ms).ok())
}

fn as_json(agent: &KnownAgent) -> serde_json::Value {
    let skills = agent.card.skills.iter().flatten();
    json!({
        "name": agent.card.agent_name,
        "description": agent.card.description,
        "version": agent.card.version,
        "skills": skills.map(|skill| &skill.id).collect::<Vec<_>>(),
        "lastSeen": seen(agent).map(|at| at.to_string()),
        "isWellKnown": agent.is_well_known,
    })
}

fn line_of(agent: &KnownAgent) -> String {
    let seen = match seen(agent) {
        Some(at) => format!("seen {at:.0}"),
        None => "of the settings".to_owned(),
    };
    let skills = agent.card.skills.iter().flatten().map(|skill| skill.id.as_str());
    let skills: Vec<_> = skills.collect();
    let what = agent.card.description.as_deref().unwrap_or_default();
    let what = what.lines().next().unwrap_or_default();
    format!("{}  {seen}  {}  {what}\n", agent.card.agent_name, skills.join(", "))
}
