//! The section `policy` of the settings, as an operator writes it.

use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolbus_config::{Mistakes, TimeSpan};
use toolbus_tools::Door;
use toolbus_tools::tool::Risk;

use crate::book::RuleBook;
use crate::preset::Preset;

/// Who may call which tool, and how often. A call is decided by the first rule whose conditions it
/// meets. See docs/policy.md.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PolicySettings {
    /// Rule book of Toolbus that applies after the rules below: `open`, `careful` or `strict`.
    /// `agent-host policy show` prints it. Without a section `policy` it is `careful`; a section
    /// without `preset` has none.
    pub preset: Option<Preset>,
    /// What becomes of a call that no rule decides.
    pub default: Effect,
    /// Calls that no rule decides, and that `default` would allow, need an approval where the tool
    /// has at least this risk.
    pub approval_required_risk: Option<Risk>,
    /// The rules, in the order in which they are asked.
    #[schemars(length(max = 1000))]
    pub rules: Vec<RuleSettings>,
    /// How many calls there may be. Each limit whose conditions a call meets counts it.
    #[schemars(length(max = 100))]
    pub limits: Vec<LimitSettings>,
    /// What one run may spend. The first budget whose conditions a run meets is its own.
    #[schemars(length(max = 100))]
    pub budgets: Vec<BudgetSettings>,
}

/// What a rule says of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// It may run.
    #[default]
    Allow,
    /// It may run once somebody has approved just this call.
    Ask,
    /// The call may run once an approver has approved the tool for its owner and agent.
    AskOnce,
    /// It may not run.
    Deny,
}

/// One rule. It decides a call that meets all of its conditions; without any, every call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleSettings {
    /// What it is called by: letters, digits, `-`, `_` and `.`, at most 64 of them.
    pub name: String,
    /// What it says.
    pub effect: Effect,
    /// The reason, shown to callers and approvers. Required by `ask`, `ask-once` and `deny`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Where the call came in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub doors: Option<Vec<Door>>,
    /// Who calls, as globs over `PROOF:NAME`: `local:*`, `claimed:NAME`, `broker:USER`,
    /// `token:ISSUER/NAME`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub principals: Option<Vec<String>>,
    /// The agent that is called for, as globs over its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub agents: Option<Vec<String>>,
    /// The session that the call belongs to, as globs over its id. A call without one meets none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub sessions: Option<Vec<String>>,
    /// The tool that the call is about, as globs over its id, such as `mcp:github/*`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub tools: Option<Vec<String>>,
    /// The least risk of the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk: Option<Risk>,
    /// Whether the tool says that it changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// Whether the tool says that running it twice is the same as once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// The tool declares that it deletes, overwrites or sends data irreversibly. A tool without a
    /// declaration counts as not destructive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
}

/// How often calls may be made that meet all of its conditions; without any, all calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitSettings {
    /// What it is called by: letters, digits, `-`, `_` and `.`, at most 64 of them.
    pub name: String,
    /// How many calls there may be at once, and within the time of `per` from then on.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub calls: NonZeroU32,
    /// In which time they come back, evenly: 60 a minute are one a second. A month is one of the
    /// calendar, in UTC, and its calls come back at its end; they are kept in the store.
    pub per: Period,
    /// What has a count of its own each. One count for all when not set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4))]
    pub by: Vec<CountedBy>,
    /// Where the call came in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub doors: Option<Vec<Door>>,
    /// Who calls, as for rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub principals: Option<Vec<String>>,
    /// The agent that is called for, as for rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub agents: Option<Vec<String>>,
    /// The session that the call belongs to, as for rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub sessions: Option<Vec<String>>,
    /// The tool that the call is about, as for rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub tools: Option<Vec<String>>,
    /// The least risk of the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk: Option<Risk>,
    /// Whether the tool says that it changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// Whether the tool says that running it twice is the same as once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// The tool declares that it deletes, overwrites or sends data irreversibly. A tool without a
    /// declaration counts as not destructive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
}

/// What each run may spend that meets all of its conditions; without any, every run. A run is what
/// comes in by one door at a time, with everything that is called for it: a message on the bus, the
/// session of an MCP client, a command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BudgetSettings {
    /// What it is called by: letters, digits, `-`, `_` and `.`, at most 64 of them.
    pub name: String,
    /// Calls of tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
    /// Turns of an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
    /// Tokens of models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// What models may cost, in US dollars, counted in millionths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// How long after its beginning its last call must have begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<TimeSpan>,
    /// Where the run comes in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub doors: Option<Vec<Door>>,
    /// Whose it is, as for rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub principals: Option<Vec<String>>,
    /// The agent that it is for, as for rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub agents: Option<Vec<String>>,
    /// The session that it belongs to, as for rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub sessions: Option<Vec<String>>,
}

/// The time of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Period {
    /// A second.
    Second,
    /// A minute.
    Minute,
    /// An hour.
    Hour,
    /// 24 hours.
    Day,
    /// A month of the calendar, in UTC.
    Month,
}

/// What calls are counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CountedBy {
    /// The tool that the call is about.
    Tool,
    /// Who calls.
    Principal,
    /// The agent that is called for.
    Agent,
    /// The session that the call belongs to.
    Session,
}

impl Effect {
    /// Its name, as operators write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::AskOnce => "ask-once",
            Self::Deny => "deny",
        }
    }
}

impl PolicySettings {
    /// Returns the settings that apply if the operator wrote none: the preset [`Preset::Careful`].
    #[must_use]
    pub fn standard() -> Self {
        Self { preset: Some(Preset::Careful), ..Self::default() }
    }

    /// Adds what is wrong with them, under the key that they have.
    pub fn check(&self, key: &str, mistakes: &mut Mistakes<'_>) {
        if let Err(errors) = RuleBook::new(self) {
            for error in errors.iter() {
                mistakes.add(&format!("{key}.{}", error.key), &*error.what);
            }
        }
    }
}

/// The conditions of a rule, a limit or a budget, as they are written.
#[derive(Default)]
pub(crate) struct ConditionSettings<'a> {
    pub(crate) doors: Option<&'a [Door]>,
    pub(crate) principals: Option<&'a [String]>,
    pub(crate) agents: Option<&'a [String]>,
    pub(crate) sessions: Option<&'a [String]>,
    pub(crate) tools: Option<&'a [String]>,
    pub(crate) risk: Option<Risk>,
    pub(crate) read_only: Option<bool>,
    pub(crate) idempotent: Option<bool>,
    pub(crate) destructive: Option<bool>,
}

macro_rules! conditions_of {
    ($settings:ident) => {
        impl $settings {
            pub(crate) fn conditions(&self) -> ConditionSettings<'_> {
                ConditionSettings {
                    doors: self.doors.as_deref(),
                    principals: self.principals.as_deref(),
                    agents: self.agents.as_deref(),
                    sessions: self.sessions.as_deref(),
                    tools: self.tools.as_deref(),
                    risk: self.risk,
                    read_only: self.read_only,
                    idempotent: self.idempotent,
                    destructive: self.destructive,
                }
            }
        }
    };
}

conditions_of!(RuleSettings);
conditions_of!(LimitSettings);

impl BudgetSettings {
    pub(crate) fn conditions(&self) -> ConditionSettings<'_> {
        ConditionSettings {
            doors: self.doors.as_deref(),
            principals: self.principals.as_deref(),
            agents: self.agents.as_deref(),
            sessions: self.sessions.as_deref(),
            ..ConditionSettings::default()
        }
    }
}
