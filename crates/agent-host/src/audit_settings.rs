//! The section `audit` of the settings.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolbus_audit::AuditConfig;
use toolbus_config::{Mistakes, TimeSpan};

/// Longest time that rows are kept.
const KEEP_MAX: TimeSpan = TimeSpan::seconds(10 * 366 * 24 * 60 * 60);

/// The audit log: a row in the store for every call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AuditSettings {
    /// Whether there is one.
    pub enabled: bool,
    /// How long a row is kept, at most ten years.
    pub keep_for: TimeSpan,
    /// Most rows that are kept at one store; the oldest go first.
    #[schemars(range(min = 1))]
    pub rows_max: u64,
}

impl Default for AuditSettings {
    fn default() -> Self {
        let AuditConfig { keep_for, rows_max } = AuditConfig::default();
        Self { enabled: false, keep_for: TimeSpan::seconds(keep_for.as_secs()), rows_max }
    }
}

impl AuditSettings {
    /// How much is kept.
    pub(crate) fn config(&self) -> AuditConfig {
        AuditConfig { keep_for: self.keep_for.duration(), rows_max: self.rows_max }
    }

    /// Adds what is wrong with them, under the key that they have.
    pub(crate) fn check(&self, key: &str, mistakes: &mut Mistakes<'_>) {
        if self.keep_for.duration().is_zero() || self.keep_for > KEEP_MAX {
            mistakes.add(&format!("{key}.keep_for"), "it is more than nothing, at most ten years");
        }
        if self.rows_max == 0 {
            mistakes.add(&format!("{key}.rows_max"), "it is at least 1");
        }
    }
}
