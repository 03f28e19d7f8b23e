//! The rule books that Toolbus ships: `open`, `careful` and `strict`.
//!
//! Each preset is TOML that an operator can read, paste and change, and the parser of the
//! operator's rules reads it. The rules of a preset follow the operator's rules.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolbus_tools::tool::Risk;

use crate::rule_set::RULES_MAX;
use crate::settings::{BudgetSettings, Effect, LimitSettings, PolicySettings, RuleSettings};

/// Maximum number of rules of a preset.
pub(crate) const PRESET_RULES_MAX: usize = 24;

/// A rule book that Toolbus ships.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// Every call is allowed.
    Open,
    /// In turns of agents, reads and computations run and a person approves the rest.
    Careful,
    /// Every call that is not read-only needs an approval, except at the command line.
    Strict,
}

/// A settings file with only a policy.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct PolicyFile {
    policy: PolicySettings,
}

/// A policy as it is printed. Empty members are left out, so that more rules can be appended.
#[derive(Serialize)]
struct WrittenFile<'a> {
    policy: WrittenPolicy<'a>,
}

#[derive(Serialize)]
struct WrittenPolicy<'a> {
    default: Effect,
    #[serde(skip_serializing_if = "Option::is_none")]
    approval_required_risk: Option<Risk>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    rules: &'a [RuleSettings],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    limits: &'a [LimitSettings],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    budgets: &'a [BudgetSettings],
}

impl Preset {
    /// Every preset, from the most permissive to the strictest.
    pub const ALL: [Self; 3] = [Self::Open, Self::Careful, Self::Strict];

    /// Returns the name in settings.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Careful => "careful",
            Self::Strict => "strict",
        }
    }

    /// Returns the preset with this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.as_str() == name)
    }

    /// Returns the rules with their comments, as TOML of a settings file.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Open => include_str!("preset/open.toml"),
            Self::Careful => include_str!("preset/careful.toml"),
            Self::Strict => include_str!("preset/strict.toml"),
        }
    }

    /// Returns the rules in order.
    pub(crate) fn rules(self) -> Vec<RuleSettings> {
        let file: PolicyFile =
            toml::from_str(self.text()).expect("a test reads the text of every preset");
        file.policy.rules
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl PolicySettings {
    /// Returns the same rule book without a preset: the rules of the preset follow the operator's.
    #[must_use]
    pub fn with_preset_rules(&self) -> Self {
        let own = self.rules.iter().take(RULES_MAX).cloned();
        let rules = own.chain(self.preset.map(Preset::rules).unwrap_or_default());
        Self { preset: None, rules: rules.collect(), ..self.clone() }
    }

    /// Formats the whole rule book as TOML, with the comments of its preset. Pasted into a settings
    /// file, the text decides the same without a preset.
    ///
    /// # Errors
    /// If TOML cannot represent a number of the settings.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        let Self { preset, default, approval_required_risk, rules, limits, budgets } = self;
        let policy = WrittenPolicy {
            default: *default,
            approval_required_risk: *approval_required_risk,
            rules,
            limits,
            budgets,
        };

        let own = toml::to_string(&WrittenFile { policy })?;
        Ok(match preset {
            Some(preset) => format!("{own}\n{}", preset.text()),
            None => own,
        })
    }
}

#[cfg(test)]
mod tests;
