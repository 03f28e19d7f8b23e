//! The section `agent` of the settings.

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolbus_agent::TurnLimits;
use toolbus_config::{ByteSize, Mistakes};
use toolbus_models::settings::{ModelSettings, Tier};

/// Turns at a time where nobody says. A turn mostly waits, for its model and its tools, but each of
/// them may be asked for by a message of 16 MiB.
const TURNS_MAX_DEFAULT: NonZeroU16 = NonZeroU16::new(8).expect("8 is not zero");
/// Most rounds of calls that a turn may be allowed.
const ROUNDS_MAX: u32 = 100;
/// Most turns of a run that notices may begin, as a setting.
const NOTICE_TURNS_LIMIT: u32 = 10_000;
/// How long a result may be that is given whole.
const LONG_RESULT_CHARACTERS: RangeInclusive<usize> = 1_000..=10_000_000;
const LONG_RESULT_IS: &str = "it is 1,000 to 10,000,000";

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
    /// Turns at a time, of users on the bus, and as many over HTTP.
    pub turns_max: NonZeroU16,
    /// Turns of one run that ends of subagents and answers of other agents begin, at most 10,000.
    /// Later ones wait for the next turn of the session.
    #[schemars(range(min = 0, max = 10_000))]
    pub notice_turns_max: u32,
    /// What is done with results that are too long for a model. `split`: they are kept in working
    /// memory, and the model gets an index of the parts. `cut`: it gets their beginning, and a
    /// notice of how much there is. `whole`: nothing, up to the 8 MiB that no result exceeds.
    pub long_results: LongResults,
    /// Results that are longer than this are too long: characters, as UTF-16 counts them. When not
    /// set: 64,000 where they are split, 40,000 where they are cut.
    #[schemars(range(min = 1_000, max = 10_000_000))]
    pub long_result_characters: Option<usize>,
    /// The same for models whose names begin so, such as `deepseek/`; the longest beginning holds.
    pub long_result_characters_by_model: BTreeMap<String, usize>,
    /// How large the definitions of tools may be that a model is told of, in bytes of JSON. Tools
    /// beyond that are left out until it has found them with `tool_search`.
    pub definitions_max: ByteSize,
}

/// What is done with results that are too long for a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LongResults {
    /// They are kept in working memory, and the model gets an index of the parts.
    #[default]
    Split,
    /// The model gets their beginning.
    Cut,
    /// The model gets all of them.
    Whole,
}

impl Default for AgentSettings {
    fn default() -> Self {
        Self {
            profile: None,
            tier: Tier::Balanced,
            rounds_max: TurnLimits::default().rounds_max,
            turns_max: TURNS_MAX_DEFAULT,
            notice_turns_max: TurnLimits::default().notice_turns_max,
            long_results: LongResults::Split,
            long_result_characters: None,
            long_result_characters_by_model: BTreeMap::new(),
            definitions_max: ByteSize::of_bytes(64 << 10),
        }
    }
}

impl AgentSettings {
    /// What a turn may take.
    pub(crate) fn limits(&self) -> TurnLimits {
        let Self { rounds_max, notice_turns_max, .. } = *self;
        TurnLimits { rounds_max, notice_turns_max, ..TurnLimits::default() }
    }

    /// The longest result that is given whole, in UTF-16 code units: what the smallest of the
    /// models takes that may answer.
    pub(crate) fn long_result_units(&self, models: &ModelSettings) -> usize {
        let names = models.endpoints_of(self.tier).into_iter();
        let models = names.filter_map(|name| models.endpoints.get(name));
        let by_default = self.long_result_characters.unwrap_or(match self.long_results {
            LongResults::Cut => 40_000,
            LongResults::Split | LongResults::Whole => 64_000,
        });
        let units = models.map(|endpoint| {
            let begins = |(prefix, _): &(&String, &usize)| endpoint.model.starts_with(*prefix);
            let by_model = self.long_result_characters_by_model.iter().filter(begins);
            let longest = by_model.max_by_key(|(prefix, _)| prefix.len());
            longest.map_or(by_default, |(_, units)| *units)
        });
        units.min().unwrap_or(by_default)
    }

    /// Adds what is wrong with them, under the key that they have.
    pub(crate) fn check(&self, key: &str, mistakes: &mut Mistakes<'_>) {
        if !(1..=ROUNDS_MAX).contains(&self.rounds_max) {
            mistakes.add(&format!("{key}.rounds_max"), "it is 1 to 100");
        }
        if self.notice_turns_max > NOTICE_TURNS_LIMIT {
            mistakes.add(&format!("{key}.notice_turns_max"), "it is at most 10,000");
        }
        let is_possible = |characters: &usize| LONG_RESULT_CHARACTERS.contains(characters);
        if self.long_result_characters.as_ref().is_some_and(|characters| !is_possible(characters)) {
            mistakes.add(&format!("{key}.long_result_characters"), LONG_RESULT_IS);
        }
        for (prefix, characters) in &self.long_result_characters_by_model {
            if !is_possible(characters) {
                let key = format!("{key}.long_result_characters_by_model.{prefix}");
                mistakes.add(&key, LONG_RESULT_IS);
            }
        }
    }
}

#[cfg(test)]
mod tests;
