//! The section `agent` of the settings.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolbus_agent::TurnLimits;
use toolbus_config::{ByteSize, Mistakes};
use toolbus_models::settings::Tier;

/// Most rounds of calls that a turn may be allowed.
const ROUNDS_MAX: u32 = 100;
/// Most characters that the threshold of long results may be.
const LONG_RESULT_CHARACTERS_MAX: usize = 10_000_000;

/// The agent: a model that calls tools until it has an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AgentSettings {
    /// A folder whose Markdown files say who the agent is and how it works, in the order of their
    /// names. Without one it is told that it is an agent with tools.
    pub profile: Option<PathBuf>,
    /// Which of the models answers.
    pub tier: Tier,
    /// Rounds of calls in one turn, at most 100.
    #[schemars(range(min = 1, max = 100))]
    pub rounds_max: u32,
    /// Results that are longer than this are split, and the model gets an index of the parts:
    /// characters, as UTF-16 counts them.
    #[schemars(range(min = 1_000, max = 10_000_000))]
    pub long_result_characters: usize,
    /// How large the definitions of tools may be that a model is told of, in bytes of JSON. Tools
    /// beyond that are left out until it has found them with `tool_search`.
    pub definitions_max: ByteSize,
}

impl Default for AgentSettings {
    fn default() -> Self {
        Self {
            profile: None,
            tier: Tier::Balanced,
            rounds_max: TurnLimits::default().rounds_max,
            long_result_characters: 64_000,
            definitions_max: ByteSize::of_bytes(64 << 10),
        }
    }
}

impl AgentSettings {
    /// What a turn may take.
    pub(crate) fn limits(&self) -> TurnLimits {
        TurnLimits { rounds_max: self.rounds_max, ..TurnLimits::default() }
    }

    /// Adds what is wrong with them, under the key that they have.
    pub(crate) fn check(&self, key: &str, mistakes: &mut Mistakes<'_>) {
        if !(1..=ROUNDS_MAX).contains(&self.rounds_max) {
            mistakes.add(&format!("{key}.rounds_max"), "it is 1 to 100");
        }
        if !(1_000..=LONG_RESULT_CHARACTERS_MAX).contains(&self.long_result_characters) {
            mistakes.add(&format!("{key}.long_result_characters"), "it is 1,000 to 10,000,000");
        }
    }
}
