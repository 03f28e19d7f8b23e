//! The rule book: which rule decides a call, and what it says.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use toolbus_tools::Scope;
use toolbus_tools::budget::RunLimits;
use toolbus_tools::policy::{ApprovalDemand, ApprovalExtent, Decision, PolicyRequest};
use toolbus_tools::tool::Risk;

use crate::budget::{BUDGETS_MAX, RunBudget, read_budgets};
use crate::conditions::Conditions;
use crate::coverage::find_covered;
use crate::limit::Limit;
use crate::matcher::Matcher;
use crate::mistake::{Mistake, Mistakes, Reporter};
use crate::preset::Preset;
use crate::rule_set::{RULES_MAX, RuleSet};
use crate::settings::{Effect, LimitSettings, PolicySettings, RuleSettings};

/// How many limits a book may have.
pub const LIMITS_MAX: usize = 100;
/// How many globs all rules, limits and budgets of a book may have together.
pub const PATTERNS_MAX: usize = 4_000;
/// Longest name of a rule, a limit or a budget, in bytes.
pub const NAME_BYTES_MAX: usize = 64;
/// Longest reason, in bytes.
pub const REASON_BYTES_MAX: usize = 500;

/// What a call that no rule decides is told it was decided by.
const DEFAULT_NAME: &str = "default";
/// The same where its tool is too risky for the default.
const REQUIRED_NAME: &str = "approval_required_risk";
/// The same where its tool is not there for its principal.
const AUDIENCE_NAME: &str = "principals";

/// Rules, limits and budgets, checked and indexed. It never changes.
#[derive(Debug)]
pub struct RuleBook {
    /// The rules of the operator, followed by those of the preset.
    rules: Vec<Rule>,
    /// Number of the operator's rules.
    own_rules: usize,
    preset: Option<Preset>,
    matcher: Matcher,
    default: Answer,
    approval_required: Option<(Risk, Answer)>,
    /// What is said of calls by those for whom the tool is not there.
    not_there: Answer,
    pub(crate) limits: Vec<Arc<Limit>>,
    pub(crate) limit_matcher: Matcher,
    budgets: Vec<RunBudget>,
    budget_matcher: Matcher,
    revision: Revision,
}

/// A rule that calls are matched to.
#[derive(Debug)]
struct Rule {
    name: Arc<str>,
    answer: Answer,
    conditions: Conditions,
}

/// A decision as a book keeps it.
#[derive(Debug, Clone)]
enum Answer {
    Allow,
    Ask { rule: Arc<str>, reason: Arc<str>, extent: ApprovalExtent, preset: Option<&'static str> },
    Deny { reason: Arc<str> },
}

/// Which version of the rules a book has: a digest of what its operator has written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revision(Arc<str>);

/// What decided a call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecidedBy {
    /// A rule, by its name.
    Rule(Arc<str>),
    /// No rule did, and its tool has the risk from which on an approval is needed.
    RequiredApproval,
    /// No rule did, so the default holds.
    Default,
    /// No rule was asked: the tool is not there for the principal.
    Audience,
}

/// A decision, and what made it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// The decision.
    pub decision: Decision,
    /// What made it.
    pub by: DecidedBy,
}

impl RuleBook {
    /// Reads a book.
    ///
    /// # Errors
    /// With everything that is wrong with it.
    pub fn new(settings: &PolicySettings) -> Result<Self, Mistakes> {
        let mut found = Vec::new();
        check_counts(settings, &mut found);
        let whole = settings.with_preset_rules();
        let own_rules = settings.rules.len().min(RULES_MAX);
        let of_preset = settings.preset.map(Preset::as_str);
        let rules = read_rules(&whole.rules, own_rules, of_preset, &mut found);
        let limits = read_limits(&settings.limits, &mut found);
        let budgets = read_budgets(&settings.budgets, &mut found);

        let patterns = rules.iter().take(own_rules).map(|rule| &rule.conditions);
        let patterns = patterns.chain(limits.iter().map(|(_, conditions)| conditions));
        let patterns = patterns.chain(budgets.iter().map(|budget| &budget.conditions));
        let patterns = patterns.map(Conditions::pattern_count).sum::<usize>();
        if patterns > PATTERNS_MAX {
            let what = format!("{patterns} globs in all rules are more than {PATTERNS_MAX}");
            found.push(Mistake { key: "rules".to_owned(), what });
        }

        // What is wrong already would make rules cover others that their operator did not mean to.
        Mistakes::of(found)?;
        let conditions: Vec<&Conditions> = rules.iter().map(|rule| &rule.conditions).collect();
        let names: Vec<&str> = rules.iter().map(|rule| &*rule.name).collect();
        let of_budgets: Vec<&Conditions> =
            budgets.iter().map(|budget| &budget.conditions).collect();
        let budget_names: Vec<&str> = budgets.iter().map(|budget| &*budget.name).collect();
        let mut allowing = RuleSet::default();
        let allow = rules.iter().enumerate().filter(|(_, rule)| rule.answer.is_allow());
        allow.for_each(|(position, _)| allowing.insert(position));
        // The operator's rules may cover every call that a rule of the preset would decide.
        let mut covered = tell_covered("rule", &conditions[..own_rules], &names, allowing);
        covered.extend(tell_covered("budget", &of_budgets, &budget_names, RuleSet::default()));
        Mistakes::of(covered)?;

        let of_limits: Vec<&Conditions> = limits.iter().map(|(_, conditions)| conditions).collect();
        Ok(Self {
            matcher: Matcher::new(&conditions, allowing),
            limit_matcher: Matcher::new(&of_limits, RuleSet::default()),
            limits: limits.into_iter().map(|(limit, _)| Arc::new(limit)).collect(),
            budget_matcher: Matcher::new(&of_budgets, RuleSet::default()),
            budgets,
            rules,
            own_rules,
            preset: settings.preset,
            default: default_answer(settings.default),
            approval_required: settings.approval_required_risk.map(required_approval),
            not_there: Answer::Deny { reason: "the tool is not there for this principal".into() },
            revision: Revision::of(&whole),
        })
    }

    /// What the book says of a call.
    #[must_use]
    pub fn decide(&self, request: &PolicyRequest<'_>) -> Decision {
        self.answer(request).0.decision()
    }

    /// What the book says of a call, and what it says so by.
    #[must_use]
    pub fn explain(&self, request: &PolicyRequest<'_>) -> Explanation {
        let (answer, by) = self.answer(request);
        let by = match by {
            Some(rule) => DecidedBy::Rule(Arc::clone(&rule.name)),
            None if std::ptr::eq(answer, &self.default) => DecidedBy::Default,
            None if std::ptr::eq(answer, &self.not_there) => DecidedBy::Audience,
            None => DecidedBy::RequiredApproval,
        };
        Explanation { decision: answer.decision(), by }
    }

    /// Which version of the rules it has.
    #[must_use]
    pub fn revision(&self) -> &Revision {
        &self.revision
    }

    /// Returns the preset whose rules follow the operator's.
    #[must_use]
    pub fn preset(&self) -> Option<Preset> {
        self.preset
    }

    /// Returns the number of rules, including those of the preset.
    #[must_use]
    pub fn rule_count(&self) -> usize {
        self.rules.len()
    }

    /// The names of its limits, in order.
    pub fn limit_names(&self) -> impl Iterator<Item = &str> {
        self.limits.iter().map(|limit| limit.name())
    }

    /// The names of the limits that count a call, in order.
    pub fn limits_of(&self, request: &PolicyRequest<'_>) -> impl Iterator<Item = &str> {
        self.limit_matcher.matching(request).iter().map(|limit| self.limits[limit].name())
    }

    /// How many budgets it has.
    #[must_use]
    pub fn budget_count(&self) -> usize {
        self.budgets.len()
    }

    /// The name of the budget that a run of this scope has.
    #[must_use]
    pub fn budget_of(&self, scope: &Scope) -> Option<&str> {
        self.find_budget(scope).map(|budget| &*budget.name)
    }

    /// What a run of this scope may spend.
    pub(crate) fn run_limits(&self, scope: &Scope) -> RunLimits {
        self.find_budget(scope).map(|budget| budget.limits).unwrap_or_default()
    }

    fn find_budget(&self, scope: &Scope) -> Option<&RunBudget> {
        // Most books have none.
        if self.budgets.is_empty() {
            return None;
        }
        let first = self.budget_matcher.matching_scope(scope).first()?;
        Some(&self.budgets[first])
    }

    /// Returns the conditions of the operator's rules, in order.
    pub(crate) fn own_conditions(&self) -> impl Iterator<Item = (&Arc<str>, &Conditions)> {
        self.rules.iter().take(self.own_rules).map(|rule| (&rule.name, &rule.conditions))
    }

    /// The same book, where limits that it has in common with another one go on from what was
    /// counted there. Otherwise a reload would let everybody start again.
    #[must_use]
    pub(crate) fn continuing(mut self, earlier: &Self) -> Self {
        for limit in &mut self.limits {
            if let Some(same) = earlier.limits.iter().find(|other| other.is_same(limit)) {
                *limit = Arc::clone(same);
            }
        }
        self
    }

    fn answer(&self, request: &PolicyRequest<'_>) -> (&Answer, Option<&Rule>) {
        // No rule allows what is not there.
        if !request.subject.audience.has(&request.scope.principal) {
            return (&self.not_there, None);
        }
        if let Some(rule) = self.matcher.matching(request).first() {
            let rule = &self.rules[rule];
            return (&rule.answer, Some(rule));
        }

        match (&self.default, &self.approval_required) {
            (Answer::Allow, Some((risk, answer))) if request.subject.risk >= *risk => {
                (answer, None)
            }
            (default, _) => (default, None),
        }
    }
}

impl Answer {
    fn is_allow(&self) -> bool {
        matches!(self, Self::Allow)
    }

    fn decision(&self) -> Decision {
        match self {
            Self::Allow => Decision::Allow,
            Self::Ask { rule, reason, extent, preset } => Decision::Ask(ApprovalDemand {
                rule: Arc::clone(rule),
                reason: Cow::Owned(reason.as_ref().to_owned()),
                extent: *extent,
                preset: *preset,
            }),
            Self::Deny { reason } => Decision::Deny(Cow::Owned(reason.as_ref().to_owned())),
        }
    }
}

impl Revision {
    fn of(settings: &PolicySettings) -> Self {
        let text = serde_json::to_string(settings).expect("settings are text, numbers and lists");
        let digest = format!("{:x}", Sha256::digest(text));
        Self(digest[..16].into())
    }

    /// Its text: 16 hexadecimal digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for DecidedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(name) => write!(f, "rule '{name}'"),
            Self::RequiredApproval => f.write_str(REQUIRED_NAME),
            Self::Default => f.write_str(DEFAULT_NAME),
            Self::Audience => f.write_str(AUDIENCE_NAME),
        }
    }
}

fn default_answer(effect: Effect) -> Answer {
    let reason: Arc<str> = "no rule allows it".into();
    let rule: Arc<str> = DEFAULT_NAME.into();
    let ask = |reason, extent| Answer::Ask { rule, reason, extent, preset: None };
    match effect {
        Effect::Allow => Answer::Allow,
        Effect::Ask => ask(reason, ApprovalExtent::Call),
        Effect::AskOnce => ask(reason, ApprovalExtent::Tool),
        Effect::Deny => Answer::Deny { reason },
    }
}

fn required_approval(risk: Risk) -> (Risk, Answer) {
    let reason = format!("tools of risk {} and above need one", risk.as_str()).into();
    let extent = ApprovalExtent::Call;
    (risk, Answer::Ask { rule: REQUIRED_NAME.into(), reason, extent, preset: None })
}

fn check_counts(settings: &PolicySettings, found: &mut Vec<Mistake>) {
    for (key, count, max) in [
        ("rules", settings.rules.len(), RULES_MAX),
        ("limits", settings.limits.len(), LIMITS_MAX),
        ("budgets", settings.budgets.len(), BUDGETS_MAX),
    ] {
        if count > max {
            found.push(Mistake {
                key: key.to_owned(),
                what: format!("{count} are more than {max}"),
            });
        }
    }
}

/// Parses the rules: the operator's, whose number is given, and then those of the preset.
fn read_rules<'a>(
    all: &'a [RuleSettings],
    own_rules: usize,
    preset: Option<&'static str>,
    found: &mut Vec<Mistake>,
) -> Vec<Rule> {
    let mut names = HashMap::new();
    let mut read_rule = |position: usize, settings: &'a RuleSettings| {
        let key = format!("rules[{position}]");
        let owner = format!("rule '{}'", settings.name);
        let mut reporter = Reporter { key, owner, found };
        check_name(&settings.name, position, &mut names, &mut reporter);
        check_reason(settings, &mut reporter);

        let name: Arc<str> = settings.name.as_str().into();
        let reason = settings.reason.as_deref().unwrap_or_default();
        let preset = preset.filter(|_| position >= own_rules);
        let rule = Arc::clone(&name);
        let ask = |extent| Answer::Ask { rule, reason: reason.into(), extent, preset };
        let answer = match settings.effect {
            Effect::Allow => Answer::Allow,
            Effect::Ask => ask(ApprovalExtent::Call),
            Effect::AskOnce => ask(ApprovalExtent::Tool),
            Effect::Deny => Answer::Deny { reason: format!("{reason} (rule '{name}')").into() },
        };
        let conditions = Conditions::read(&settings.conditions(), &mut reporter);
        Rule { name, answer, conditions }
    };
    let read = all.iter().enumerate();
    read.map(|(position, settings)| read_rule(position, settings)).collect()
}

fn read_limits<'a>(all: &'a [LimitSettings], found: &mut Vec<Mistake>) -> Vec<(Limit, Conditions)> {
    let mut names = HashMap::new();
    let mut read_limit = |position: usize, settings: &'a LimitSettings| {
        let key = format!("limits[{position}]");
        let owner = format!("limit '{}'", settings.name);
        let mut reporter = Reporter { key, owner, found };
        check_name(&settings.name, position, &mut names, &mut reporter);

        let conditions = Conditions::read(&settings.conditions(), &mut reporter);
        (Limit::new(settings), conditions)
    };
    let read = all.iter().take(LIMITS_MAX).enumerate();
    read.map(|(position, settings)| read_limit(position, settings)).collect()
}

pub(crate) fn check_name<'a>(
    name: &'a str,
    position: usize,
    names: &mut HashMap<&'a str, usize>,
    reporter: &mut Reporter<'_>,
) {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(is_allowed) {
        let what = format!("a name is 1 to {NAME_BYTES_MAX} letters, digits, `-`, `_` and `.`");
        reporter.add("name", what);
    } else if [DEFAULT_NAME, REQUIRED_NAME].contains(&name) {
        reporter.add("name", "this name is what stands for calls that no rule decides");
    }

    if let Some(first) = names.insert(name, position) {
        reporter.add("name", format!("number {first}, counted from 0, has the same name"));
    }
}

fn check_reason(settings: &RuleSettings, reporter: &mut Reporter<'_>) {
    let reason = settings.reason.as_deref();
    match reason {
        Some(text) if text.trim().is_empty() => reporter.add("reason", "it is empty"),
        Some(text) if text.len() > REASON_BYTES_MAX => {
            let bytes = text.len();
            reporter.add("reason", format!("{bytes} bytes are more than {REASON_BYTES_MAX}"));
        }
        Some(text) if text.chars().any(char::is_control) => {
            reporter.add("reason", "it has a control character");
        }
        None if settings.effect != Effect::Allow => {
            let what = "who asks or denies says why: the caller, or whoever is asked, reads it";
            reporter.add("reason", what);
        }
        _ => {}
    }
}

/// What is never reached of these rules or budgets.
fn tell_covered(
    what: &str,
    conditions: &[&Conditions],
    names: &[&str],
    allowing: RuleSet,
) -> Vec<Mistake> {
    let covered = find_covered(conditions, allowing);
    let tell = |covered: crate::coverage::Covered| {
        let name = names[covered.rule];
        let by: Vec<String> =
            covered.by.iter().map(|earlier| format!("'{}'", names[*earlier])).collect();
        let (noun, verb) = match (what, by.len()) {
            ("budget", 1) => ("budget", "takes"),
            ("budget", _) => ("budgets", "take"),
            (_, 1) => ("rule", "decides"),
            _ => ("rules", "decide"),
        };
        let whom = if what == "budget" { "every run" } else { "every call" };

        let text = format!(
            "{what} '{name}' is never reached: {noun} {} before it {verb} {whom} that meets its \
             conditions",
            by.join(", ")
        );
        Mistake { key: format!("{what}s[{}]", covered.rule), what: text }
    };
    covered.into_iter().map(tell).collect()
}

#[cfg(test)]
mod tests;
