//! The sections `subagents` and `wisps` of the settings.

use std::num::NonZeroU16;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolbus_config::{Mistakes, TimeSpan};
use toolbus_subagents::SubagentsConfig;
use toolbus_wisps::WispsConfig;

/// The longest that a subagent may be given.
const SUBAGENT_TIMEOUT_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// The longest that a call of `spawn_wisps` may be given: its turn ends before that.
const WISPS_TIMEOUT_MAX: Duration = Duration::from_secs(24 * 60);

/// Subagents, among which the agent splits its work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SubagentSettings {
    /// Whether there are any.
    pub enabled: bool,
    /// Subagents of one session that are active at a time.
    pub concurrent_max: NonZeroU16,
    /// How long one may take, where the model does not say.
    pub timeout: TimeSpan,
    /// The longest that the model may say, at most 24 hours.
    pub timeout_max: TimeSpan,
}

/// Wisps: pipelines of steps that the agent has run in one call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WispSettings {
    /// Whether there are any.
    pub enabled: bool,
    /// Wisps of one call that run at a time.
    pub concurrent_max: NonZeroU16,
    /// How long one call may take, all its wisps together: at most 24 minutes.
    pub timeout: TimeSpan,
}

impl Default for SubagentSettings {
    fn default() -> Self {
        let config = SubagentsConfig::default();
        Self {
            enabled: true,
            concurrent_max: const { NonZeroU16::new(3).expect("3 is not zero") },
            timeout: TimeSpan::seconds(config.timeout.as_secs()),
            timeout_max: TimeSpan::seconds(config.timeout_max.as_secs()),
        }
    }
}

impl SubagentSettings {
    /// What subagents may take.
    pub(crate) fn config(&self) -> SubagentsConfig {
        SubagentsConfig {
            concurrent_max: self.concurrent_max.get().into(),
            timeout: self.timeout.duration(),
            timeout_max: self.timeout_max.duration(),
            ..SubagentsConfig::default()
        }
    }

    /// Adds what is wrong with them, under the key that they have.
    pub(crate) fn check(&self, key: &str, mistakes: &mut Mistakes<'_>) {
        let (timeout, max) = (self.timeout.duration(), self.timeout_max.duration());
        if max.as_secs() < 60 || max > SUBAGENT_TIMEOUT_MAX {
            mistakes.add(&format!("{key}.timeout_max"), "it is a minute to 24 hours");
        }
        if timeout.is_zero() || timeout > max {
            let what = format!("it is more than nothing, and at most {key}.timeout_max");
            mistakes.add(&format!("{key}.timeout"), what);
        }
    }
}

impl Default for WispSettings {
    fn default() -> Self {
        let config = WispsConfig::default();
        Self {
            enabled: true,
            concurrent_max: const { NonZeroU16::new(10).expect("10 is not zero") },
            timeout: TimeSpan::seconds(config.timeout.as_secs()),
        }
    }
}

impl WispSettings {
    /// What a call may take.
    pub(crate) fn config(&self) -> WispsConfig {
        WispsConfig {
            concurrent_max: self.concurrent_max.into(),
            timeout: self.timeout.duration(),
            ..WispsConfig::default()
        }
    }

    /// Adds what is wrong with them, under the key that they have.
    pub(crate) fn check(&self, key: &str, mistakes: &mut Mistakes<'_>) {
        let timeout = self.timeout.duration();
        if timeout.as_secs() < 1 || timeout > WISPS_TIMEOUT_MAX {
            mistakes.add(&format!("{key}.timeout"), "it is a second to 24 minutes");
        }
    }
}
