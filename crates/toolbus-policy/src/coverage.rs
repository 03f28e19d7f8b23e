//! Finds rules that are never reached, because those before them decide all that they would.
//!
//! A rule's calls are split by what it lists: one part for each combination of its globs. A part is
//! covered when the rules before it whose globs cover the globs of the part have, together, every
//! combination of door, risk and annotations that the rule has. So several rules can cover one
//! together, as far as no single glob would have to be split between them. Nothing is ever found
//! that is reached; what only a union of globs covers is not found.

use crate::conditions::{Cells, Conditions};
use crate::glob::Glob;
use crate::principal::PrincipalPattern;
use crate::rule_set::RuleSet;

/// How many parts of one rule are looked at one by one. A rule with more is taken as one part.
const PARTS_MAX: usize = 256;

/// A rule that is never reached.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Covered {
    /// Its position.
    pub(crate) rule: usize,
    /// The positions of those that decide before it, together.
    pub(crate) by: Vec<usize>,
}

/// Finds the rules that are never reached. `allowing` has the positions of the rules that allow.
pub(crate) fn find_covered(rules: &[&Conditions], allowing: RuleSet) -> Vec<Covered> {
    // A rule that allows some doors does not match a call that also came through another door, so
    // later rules can decide that call.
    let is_partial = |at: usize| allowing.contains(at) && rules[at].doors.is_some();
    let cells = rules.iter().enumerate().map(|(at, rule)| match is_partial(at) {
        true => Cells::default(),
        false => rule.cells(),
    });
    let cells: Vec<Cells> = cells.collect();
    let covered_by = |rule: usize| {
        let parts = covering_of_parts(rules, rule)?;
        let mut by = RuleSet::default();
        for part in parts {
            for coverer in cover_cells(&cells, part, rules[rule].cells())? {
                by.insert(coverer);
            }
        }
        Some(Covered { rule, by: by.iter().collect() })
    };
    (1..rules.len()).filter_map(covered_by).collect()
}

/// For each part of a rule, the rules before it whose globs cover the part. `None` where something
/// that the rule lists is covered by none.
fn covering_of_parts(rules: &[&Conditions], at: usize) -> Option<Vec<RuleSet>> {
    let earlier = &rules[..at];
    let rule = rules[at];
    let globs = |list_of: fn(&Conditions) -> Option<&[Glob]>| {
        covering(earlier, rule, list_of, |glob, others| {
            let symbols = glob.symbols();
            others.iter().any(|other| other.covers(&symbols))
        })
    };
    let principals = covering(
        earlier,
        rule,
        |conditions| conditions.principals.as_deref(),
        |pattern: &PrincipalPattern, others| {
            let symbols = pattern.symbols();
            others.iter().any(|other| other.covers(&symbols))
        },
    );
    let dimensions = [
        globs(|conditions| conditions.tools.as_deref())?,
        principals?,
        globs(|conditions| conditions.agents.as_deref())?,
        globs(|conditions| conditions.sessions.as_deref())?,
    ];

    let all = RuleSet::first_of(at);
    let count = dimensions.iter().map(Vec::len).product::<usize>();
    if count > PARTS_MAX {
        let mut whole = all;
        dimensions.iter().flatten().for_each(|covering| whole &= covering);
        return Some(vec![whole]);
    }

    let combine = |parts: Vec<RuleSet>, dimension: &Vec<RuleSet>| {
        let pairs = parts.iter().flat_map(|part| dimension.iter().map(move |one| (*part, one)));
        pairs.map(|(part, one)| part.and(one)).collect()
    };
    Some(dimensions.iter().fold(vec![all], combine))
}

/// For each item of one condition of a rule, the earlier rules whose condition covers it; `None`
/// where there are none for one of them. A rule without the condition is covered only by those that
/// have none either, for it may hold of calls that have no such text.
fn covering<T>(
    earlier: &[&Conditions],
    rule: &Conditions,
    list_of: fn(&Conditions) -> Option<&[T]>,
    is_covered: impl Fn(&T, &[T]) -> bool,
) -> Option<Vec<RuleSet>> {
    let find = |item: Option<&T>| {
        let mut found = RuleSet::default();
        for (position, other) in earlier.iter().enumerate() {
            let covers = match (list_of(other), item) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(others), Some(item)) => is_covered(item, others),
            };
            if covers {
                found.insert(position);
            }
        }
        (!found.is_empty()).then_some(found)
    };

    match list_of(rule) {
        None => Some(vec![find(None)?]),
        Some(items) => items.iter().map(|item| find(Some(item))).collect(),
    }
}

/// Those of these rules that have the wanted cells, together: one where one is enough. `None` where
/// they have not.
fn cover_cells(cells: &[Cells], rules: RuleSet, wanted: Cells) -> Option<Vec<usize>> {
    let has_all = |rule: &usize| cells[*rule].has_all(wanted);
    if let Some(alone) = rules.iter().find(has_all) {
        return Some(vec![alone]);
    }

    let mut left = wanted;
    let mut used = Vec::new();
    for rule in rules.iter() {
        if cells[rule].has_any(left) {
            left = left.without(cells[rule]);
            used.push(rule);
        }
    }
    left.is_empty().then_some(used)
}

#[cfg(test)]
mod tests;
