//! The section `a2a` of the settings.

use std::num::NonZeroU16;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolbus_a2a::{A2aConfig, AgentHeader, AgentHeaderValue, HttpAgent};
use toolbus_config::{ConfiguredAddress, KeyReference, Mistakes, Secret, TimeSpan};
use toolbus_wire::message::a2a::{AgentCard, AgentSkill};
use toolbus_wire::name::AgentName;

/// The longest time that a task for another agent may be given.
const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Most agents that are asked over HTTP.
const AGENTS_MAX: usize = 100;
const AUTHORIZATION: &str = "Authorization";
const BEARER: &str = "Bearer";
/// Most skills that a card may have.
const SKILLS_MAX: usize = toolbus_a2a::SKILLS_MAX;

/// Other agents on the bus: the agent knows them, gives them tasks, and does theirs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct A2aSettings {
    /// Whether it does.
    pub enabled: bool,
    /// What the agent tells others that it is for.
    pub description: Option<String>,
    /// What it tells others that it can be asked for, at most 64. Without any it takes every task.
    #[schemars(length(max = 64))]
    pub skills: Vec<SkillSettings>,
    /// Agents that are known without having announced themselves.
    #[schemars(length(max = 1_000))]
    pub well_known: Vec<WellKnownAgent>,
    /// Agents that are asked over HTTP by the A2A protocol, at most 100.
    #[schemars(length(max = 100))]
    pub agents: Vec<RemoteAgent>,
    /// What others reach this agent by over HTTP, without a path, such as
    /// `https://agent.example.com`: its card says so. While it serves HTTP (`http.address`), tasks
    /// are taken there as well. When not set, the card says what it was asked by.
    pub public_url: Option<String>,
    /// How long a task for another agent may take, where the model does not say: a second to 24
    /// hours.
    pub timeout: TimeSpan,
    /// Tasks of others that are worked on at a time.
    pub tasks_max: NonZeroU16,
}

/// Something that the agent can be asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SkillSettings {
    /// What a task names it by.
    pub id: String,
    /// What it does.
    pub description: String,
    /// Words that it is found by.
    #[serde(default)]
    pub tags: Vec<String>,
    /// What the agent may be asked.
    #[serde(default)]
    pub examples: Vec<String>,
}

/// An agent that is known without having announced itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WellKnownAgent {
    /// The name that it has on the bus.
    pub name: String,
    /// What it is for.
    #[serde(default)]
    pub description: Option<String>,
    /// What it can be asked for.
    #[serde(default)]
    pub skills: Vec<SkillSettings>,
}

/// An agent that is asked over HTTP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoteAgent {
    /// The name that models know it by. No agent on the bus has it then.
    pub name: String,
    /// Where its card is, such as `https://agent.example.com/.well-known/agent-card.json`.
    pub card_url: ConfiguredAddress,
    /// The key by which it knows this one, if it needs one: `${NAME}` for a variable of the
    /// environment, `${vault:NAME}` for a credential of `a2a:AGENT` in the vault, or the key
    /// itself.
    #[serde(default)]
    pub api_key: Option<Secret>,
    /// The header that has the key, which goes to scheme, host and port of the card's address only.
    /// In `Authorization` it is a bearer token.
    #[serde(default = "authorization")]
    pub header: String,
    /// Whether it is in the operator's own network. Others are reached at public addresses only.
    #[serde(default)]
    pub internal: bool,
}

fn authorization() -> String {
    AUTHORIZATION.to_owned()
}

impl Default for A2aSettings {
    fn default() -> Self {
        let config = A2aConfig::new(&AgentName::standard());
        Self {
            enabled: true,
            description: None,
            skills: Vec::new(),
            well_known: Vec::new(),
            agents: Vec::new(),
            public_url: None,
            timeout: TimeSpan::seconds(config.timeout.as_secs()),
            tasks_max: config.tasks_max,
        }
    }
}

impl A2aSettings {
    /// The same for an agent of this name. `has_worker`: it does tasks of others.
    pub(crate) fn config(&self, agent: &AgentName, has_worker: bool) -> A2aConfig {
        let card = AgentCard {
            agent_name: agent.to_string(),
            description: self.description.clone(),
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            skills: Some(self.skills.iter().map(SkillSettings::skill).collect()),
            ..AgentCard::default()
        };
        A2aConfig {
            card: has_worker.then_some(card),
            well_known: self.well_known.iter().map(WellKnownAgent::card).collect(),
            timeout: self.timeout.duration(),
            tasks_max: self.tasks_max,
            ..A2aConfig::new(agent)
        }
    }

    /// The agents that are asked over HTTP. Those of the settings that cannot be are left out: that
    /// was told when they were checked.
    pub(crate) fn http_agents(&self) -> Vec<HttpAgent> {
        let agent = |agent: &RemoteAgent| {
            let name = AgentName::parse(&agent.name).ok()?;
            let value = agent.api_key.as_ref().and_then(|key| agent.header_value(key));
            let header = value.map(|value| AgentHeader { name: agent.header.clone(), value });
            let (card_url, is_internal) = (agent.card_url.expose().to_owned(), agent.internal);
            Some(HttpAgent { name, card_url, header, is_internal })
        };
        self.agents.iter().filter_map(agent).collect()
    }

    /// Adds what is wrong with them, under the key that they have.
    pub(crate) fn check(&self, key: &str, mistakes: &mut Mistakes<'_>) {
        let timeout = self.timeout.duration();
        if timeout.as_secs() < 1 || timeout > TIMEOUT_MAX {
            mistakes.add(&format!("{key}.timeout"), "it is a second to 24 hours");
        }
        check_skills(&format!("{key}.skills"), &self.skills, mistakes);
        if self.agents.len() > AGENTS_MAX {
            mistakes.add(&format!("{key}.agents"), format!("there are at most {AGENTS_MAX}"));
        }
        if let Some(url) = &self.public_url
            && !is_web_address(url)
        {
            mistakes.add(&format!("{key}.public_url"), "it is an address of http or https");
        }

        for (at, agent) in self.agents.iter().enumerate() {
            let key = format!("{key}.agents[{at}]");
            if let Err(error) = AgentName::parse(&agent.name) {
                mistakes.add(&format!("{key}.name"), error.to_string());
            }
            if !is_web_address(agent.card_url.expose()) {
                mistakes.add(&format!("{key}.card_url"), "it is an address of http or https");
            }
            if let Some(Err(problem)) = agent.api_key.as_ref().map(KeyReference::parse) {
                mistakes.add(&format!("{key}.api_key"), problem);
            }
        }
        for (at, known) in self.well_known.iter().enumerate() {
            let key = format!("{key}.well_known[{at}]");
            if let Err(error) = AgentName::parse(&known.name) {
                mistakes.add(&format!("{key}.name"), error.to_string());
            }
            check_skills(&format!("{key}.skills"), &known.skills, mistakes);
        }
    }
}

impl RemoteAgent {
    /// What says who asks. `None`: the key is nowhere, which is logged.
    fn header_value(&self, key: &Secret) -> Option<AgentHeaderValue> {
        let is_bearer = self.header.eq_ignore_ascii_case(AUTHORIZATION);
        let fixed = |key: &str| {
            let value = if is_bearer { format!("{BEARER} {key}") } else { key.to_owned() };
            AgentHeaderValue::Fixed(value.into())
        };

        // Checked when the settings were read.
        match KeyReference::parse(key).ok()? {
            KeyReference::Key(key) => Some(fixed(key.expose())),
            KeyReference::Vault(name) => {
                let scheme = is_bearer.then(|| BEARER.to_owned());
                Some(AgentHeaderValue::Credential { name, scheme })
            }
            KeyReference::Variable(name) => match std::env::var(&name) {
                Ok(key) => Some(fixed(&key)),
                Err(_) => {
                    tracing::error!(
                        agent = self.name,
                        variable = name,
                        "an agent's key is not set"
                    );
                    None
                }
            },
        }
    }
}

impl SkillSettings {
    fn skill(&self) -> AgentSkill {
        let Self { id, description, tags, examples } = self.clone();
        AgentSkill {
            name: id.clone(),
            id,
            description: Some(description),
            tags: Some(tags),
            examples: Some(examples),
        }
    }
}

impl WellKnownAgent {
    fn card(&self) -> AgentCard {
        AgentCard {
            agent_name: self.name.clone(),
            description: self.description.clone(),
            skills: Some(self.skills.iter().map(SkillSettings::skill).collect()),
            ..AgentCard::default()
        }
    }
}

fn is_web_address(url: &str) -> bool {
    url.starts_with("https://") || url.starts_with("http://")
}

fn check_skills(key: &str, skills: &[SkillSettings], mistakes: &mut Mistakes<'_>) {
    if skills.len() > SKILLS_MAX {
        mistakes.add(key, format!("there are at most {SKILLS_MAX}"));
    }
    for (at, skill) in skills.iter().enumerate() {
        let is_twin = |other: &SkillSettings| other.id.eq_ignore_ascii_case(&skill.id);
        if skill.id.trim().is_empty() {
            mistakes.add(&format!("{key}[{at}].id"), "it is empty");
        } else if skills[..at].iter().any(is_twin) {
            mistakes.add(&format!("{key}[{at}].id"), "another skill has it");
        }
    }
}
