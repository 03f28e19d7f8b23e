//! The section `a2a` of the settings.

use std::num::NonZeroU16;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolbus_a2a::A2aConfig;
use toolbus_config::{Mistakes, TimeSpan};
use toolbus_wire::message::a2a::{AgentCard, AgentSkill};
use toolbus_wire::name::AgentName;

/// The longest time that a task for another agent may be given.
const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 60 * 60);
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

impl Default for A2aSettings {
    fn default() -> Self {
        let config = A2aConfig::new(&AgentName::standard());
        Self {
            enabled: true,
            description: None,
            skills: Vec::new(),
            well_known: Vec::new(),
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

    /// Adds what is wrong with them, under the key that they have.
    pub(crate) fn check(&self, key: &str, mistakes: &mut Mistakes<'_>) {
        let timeout = self.timeout.duration();
        if timeout.as_secs() < 1 || timeout > TIMEOUT_MAX {
            mistakes.add(&format!("{key}.timeout"), "it is a second to 24 hours");
        }
        check_skills(&format!("{key}.skills"), &self.skills, mistakes);
        for (at, known) in self.well_known.iter().enumerate() {
            let key = format!("{key}.well_known[{at}]");
            if let Err(error) = AgentName::parse(&known.name) {
                mistakes.add(&format!("{key}.name"), error.to_string());
            }
            check_skills(&format!("{key}.skills"), &known.skills, mistakes);
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
