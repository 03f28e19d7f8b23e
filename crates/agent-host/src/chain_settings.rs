//! The section `chains` of the settings.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolbus_chain::ChainPolicy;
use toolbus_config::{Mistakes, TimeSpan};
use toolbus_scripts::ScriptAllowance;

/// Most calls that a chain may be allowed.
const TOOL_CALLS_MAX: u64 = 100_000;

/// Chains: the tool `tool_chain` runs Python that a model writes, in which other tools are
/// functions. Each call passes the same gates as any other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ChainSettings {
    /// Whether the tool is there.
    pub enabled: bool,
    /// Calls of tools in one chain, at most 100,000.
    #[schemars(range(min = 1, max = 100_000))]
    pub tool_calls_max: u64,
    /// How long the tool of one call may run. What its approval takes does not count.
    pub call_timeout: TimeSpan,
    /// How long a chain may take as a whole, at most 20 minutes.
    pub total_timeout: TimeSpan,
}

impl Default for ChainSettings {
    fn default() -> Self {
        let policy = ChainPolicy::default();
        Self {
            enabled: true,
            tool_calls_max: policy.tool_calls_max,
            call_timeout: TimeSpan::seconds(policy.call_timeout.as_secs()),
            total_timeout: TimeSpan::seconds(policy.total_timeout.as_secs()),
        }
    }
}

impl ChainSettings {
    /// What a chain may take.
    pub(crate) fn policy(&self) -> ChainPolicy {
        ChainPolicy {
            tool_calls_max: self.tool_calls_max,
            call_timeout: self.call_timeout.duration(),
            total_timeout: self.total_timeout.duration(),
        }
    }

    /// Adds what is wrong with them, under the key that they have.
    pub(crate) fn check(&self, key: &str, mistakes: &mut Mistakes<'_>) {
        if !(1..=TOOL_CALLS_MAX).contains(&self.tool_calls_max) {
            mistakes.add(&format!("{key}.tool_calls_max"), "it is 1 to 100,000");
        }
        if self.call_timeout.duration().is_zero() {
            mistakes.add(&format!("{key}.call_timeout"), "it is more than nothing");
        }
        let total = self.total_timeout.duration();
        if total.as_secs() < 1 || total > ScriptAllowance::TIMEOUT_MAX {
            mistakes.add(&format!("{key}.total_timeout"), "it is a second to 20 minutes");
        }
    }
}
