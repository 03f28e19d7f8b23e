//! Finds out which of many conditions a call meets, all at once.
//!
//! For each thing that conditions are about there is an index from its value to the set of rules
//! whose condition on it holds. A call meets the rules that are in all of those sets. Nothing is
//! allocated, and how many rules there are hardly counts.

use std::collections::HashMap;

use toolbus_tools::policy::PolicyRequest;
use toolbus_tools::scope::{Door, DoorSet, Principal, Proof, Scope};

use crate::conditions::{Conditions, least_risk};
use crate::glob::Glob;
use crate::principal::PrincipalPattern;
use crate::rule_set::RuleSet;
use crate::text_index::{TextIndex, TextIndexBuilder};

/// The conditions of all rules of a book, or of all its limits.
#[derive(Debug, Default)]
pub(crate) struct Matcher {
    doors: [RuleSet; Door::ALL.len()],
    /// The rules that allow. They match only if every door of a call meets their condition; all
    /// other rules match if one door does.
    allowing: RuleSet,
    risks: [RuleSet; 4],
    read_only: [RuleSet; 2],
    idempotent: [RuleSet; 2],
    destructive: [RuleSet; 2],
    tools: TextIndex,
    agents: TextIndex,
    sessions: TextIndex,
    principals: PrincipalIndex,
}

/// Patterns over principals, by their proofs.
#[derive(Debug, Default)]
struct PrincipalIndex {
    anybody: RuleSet,
    local: TextIndex,
    claimed: TextIndex,
    broker: TextIndex,
    /// Names, by their exact issuers.
    issuers: HashMap<Box<str>, TextIndex>,
    /// Names, by globs over their issuers.
    issuer_globs: Vec<(Glob, TextIndex)>,
}

impl Matcher {
    /// Creates a matcher for at most [`RULES_MAX`](crate::RULES_MAX) conditions and those of a
    /// preset. `allowing` holds the positions of the rules that allow.
    pub(crate) fn new(all: &[&Conditions], allowing: RuleSet) -> Self {
        let principals = PrincipalIndex::new(all);
        let mut matcher = Self { principals, allowing, ..Self::default() };
        let [mut tools, mut agents, mut sessions] = [(); 3].map(|()| TextIndexBuilder::default());

        for (rule, conditions) in all.iter().enumerate() {
            for door in Door::ALL.into_iter().filter(|door| conditions.has_door(*door)) {
                matcher.doors[door.position()].insert(rule);
            }
            least_risk(conditions.risk).for_each(|risk| matcher.risks[risk].insert(rule));
            for flag in [false, true] {
                let holds = |wanted: Option<bool>| wanted.is_none_or(|wanted| wanted == flag);
                if holds(conditions.read_only) {
                    matcher.read_only[usize::from(flag)].insert(rule);
                }
                if holds(conditions.idempotent) {
                    matcher.idempotent[usize::from(flag)].insert(rule);
                }
                if holds(conditions.destructive) {
                    matcher.destructive[usize::from(flag)].insert(rule);
                }
            }
            tools.add(rule, conditions.tools.as_deref());
            agents.add(rule, conditions.agents.as_deref());
            sessions.add(rule, conditions.sessions.as_deref());
        }

        Self { tools: tools.build(), agents: agents.build(), sessions: sessions.build(), ..matcher }
    }

    /// The rules whose conditions a call meets.
    pub(crate) fn matching(&self, request: &PolicyRequest<'_>) -> RuleSet {
        let PolicyRequest { scope, subject } = request;
        let annotations = subject.annotations;
        let mut rules = self.matching_doors(scope.doors);
        rules &= &self.risks[subject.risk as usize];
        rules &= &self.read_only[usize::from(annotations.read_only)];
        rules &= &self.idempotent[usize::from(annotations.idempotent)];
        rules &= &self.destructive[usize::from(annotations.destructive)];
        if rules.is_empty() {
            return rules;
        }

        rules &= &self.tools.matching(subject.id.as_str());
        rules &= &self.matching_scope(scope);
        rules
    }

    /// Returns the rules whose condition on doors matches a call that came through these.
    fn matching_doors(&self, doors: DoorSet) -> RuleSet {
        let mut doors = doors.iter().map(|door| &self.doors[door.position()]);
        let Some(first) = doors.next() else { return RuleSet::default() };
        let (mut any, mut all) = (*first, *first);
        for rules in doors {
            any |= rules;
            all &= rules;
        }
        all &= &self.allowing;
        any.without(&self.allowing).or(&all)
    }

    /// The rules whose conditions on it a scope meets.
    pub(crate) fn matching_scope(&self, scope: &Scope) -> RuleSet {
        let mut rules = self.matching_doors(scope.doors);
        rules &= &self.principals.matching(&scope.principal);
        rules &= &self.agents.matching(scope.agent.as_str());
        rules &= &match &scope.session {
            Some(session) => self.sessions.matching(session.as_str()),
            None => self.sessions.matching_nothing(),
        };
        rules
    }
}

impl PrincipalIndex {
    fn new(all: &[&Conditions]) -> Self {
        let mut index = Self::default();
        let [mut local, mut claimed, mut broker] = [(); 3].map(|()| TextIndexBuilder::default());
        let mut issuers: HashMap<&Glob, TextIndexBuilder> = HashMap::new();

        for (rule, conditions) in all.iter().enumerate() {
            let Some(patterns) = &conditions.principals else {
                index.anybody.insert(rule);
                continue;
            };
            for pattern in patterns {
                match pattern {
                    PrincipalPattern::Anybody => index.anybody.insert(rule),
                    PrincipalPattern::Local(name) => local.add_glob(rule, name),
                    PrincipalPattern::Claimed(name) => claimed.add_glob(rule, name),
                    PrincipalPattern::Broker(user) => broker.add_glob(rule, user),
                    PrincipalPattern::Token { issuer, name } => {
                        issuers.entry(issuer).or_default().add_glob(rule, name);
                    }
                }
            }
        }

        index.local = local.build();
        index.claimed = claimed.build();
        index.broker = broker.build();
        for (issuer, names) in issuers {
            match issuer.exact() {
                Some(text) => drop(index.issuers.insert(text.into(), names.build())),
                None => index.issuer_globs.push((issuer.clone(), names.build())),
            }
        }
        index
    }

    fn matching(&self, principal: &Principal) -> RuleSet {
        let mut rules = self.anybody;
        let name = &*principal.name;

        match &principal.proof {
            Proof::Local => rules |= &self.local.matching(name),
            Proof::Claimed => rules |= &self.claimed.matching(name),
            Proof::Broker { user } => rules |= &self.broker.matching(user),
            Proof::Token { issuer, .. } => {
                if let Some(names) = self.issuers.get(&**issuer) {
                    rules |= &names.matching(name);
                }
                for (glob, names) in &self.issuer_globs {
                    if glob.matches(issuer) {
                        rules |= &names.matching(name);
                    }
                }
            }
            // A proof that no rule can name yet.
            _ => {}
        }

        rules
    }
}
