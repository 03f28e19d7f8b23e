//! What models read of agents.

use jiff::Timestamp;
use serde::Serialize;
use toolbus_wire::message::a2a::AgentSkill;

use crate::KnownAgent;

/// When a well-known agent was seen that never was: the first moment of the C# code.
const NEVER: &str = "0001-01-01T00:00:00+00:00";
/// Most agents of a list.
const LISTED_MAX: usize = 200;

/// An agent in a list.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed<'a> {
    agent_name: &'a str,
    description: Option<&'a str>,
    last_seen: String,
    skills: Vec<ListedSkill<'a>>,
}

/// A skill of an agent in a list.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListedSkill<'a> {
    id: &'a str,
    name: &'a str,
    description: Option<&'a str>,
}

/// All that is known of an agent.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Details<'a> {
    agent_name: &'a str,
    description: Option<&'a str>,
    version: Option<&'a str>,
    url: Option<&'a str>,
    has_auth: bool,
    is_well_known: bool,
    last_seen: String,
    skills: &'a [AgentSkill],
}

/// What is said of a task that was sent.
pub(crate) fn describe_dispatched(agent: &str, task_id: &str) -> String {
    format!(
        "Task dispatched to agent '{agent}' with task_id: {task_id}. The result will arrive \
         asynchronously and fold into the conversation."
    )
}

/// The agents that are known, those with a skill where one is named.
pub(crate) fn describe_agents(agents: &[KnownAgent], skill: Option<&str>) -> String {
    if agents.is_empty() {
        return match skill {
            Some(skill) => format!("No agents found with skill '{}'.", preview(skill)),
            None => "No agents have announced themselves yet.".to_owned(),
        };
    }
    let listed: Vec<_> = agents.iter().take(LISTED_MAX).map(list).collect();
    pretty(&listed)
}

fn list(agent: &KnownAgent) -> Listed<'_> {
    let skills = agent.card.skills.iter().flatten().map(|skill| ListedSkill {
        id: &skill.id,
        name: &skill.name,
        description: skill.description.as_deref(),
    });
    Listed {
        agent_name: &agent.card.agent_name,
        description: agent.card.description.as_deref(),
        last_seen: time(agent.seen_ms),
        skills: skills.collect(),
    }
}

/// All that is known of an agent.
pub(crate) fn describe_agent(agent: &KnownAgent) -> String {
    let card = &agent.card;
    pretty(&Details {
        agent_name: &card.agent_name,
        description: card.description.as_deref(),
        version: card.version.as_deref(),
        url: card.url.as_deref(),
        has_auth: card.auth_header_name.is_some(),
        is_well_known: agent.is_well_known,
        last_seen: time(agent.seen_ms),
        skills: card.skills.as_deref().unwrap_or_default(),
    })
}

/// What is said where there is no agent of that name.
pub(crate) fn describe_unknown(name: &str) -> String {
    format!("No agent named '{}' found in the directory.", preview(name))
}

/// The beginning of a text that a model has given.
fn preview(text: &str) -> String {
    match text.char_indices().nth(120) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn time(at_ms: Option<i64>) -> String {
    match at_ms.and_then(|at_ms| Timestamp::from_millisecond(at_ms).ok()) {
        Some(at) => at.strftime("%Y-%m-%dT%H:%M:%S+00:00").to_string(),
        None => NEVER.to_owned(),
    }
}

fn pretty<T: Serialize>(value: &T) -> String {
    serde_json::to_string_pretty(value).expect("it has texts, truth values and lists only")
}
