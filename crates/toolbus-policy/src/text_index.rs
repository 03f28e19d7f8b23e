//! An index of globs over one kind of text: which rules have one that matches.
//!
//! Ids are found by hash, prefixes by binary search, and of the other globs only those are tried
//! whose longest literal is in the text.

use std::collections::HashMap;

use aho_corasick::{AhoCorasick, MatchKind};

use crate::glob::Glob;
use crate::rule_set::RuleSet;

/// The globs of all rules, for one condition.
#[derive(Debug, Default)]
pub(crate) struct TextIndex {
    /// The rules that have no such condition.
    unconditional: RuleSet,
    /// Those, and the rules that have a glob which matches every text.
    any: RuleSet,
    exact: HashMap<Box<str>, RuleSet>,
    /// Sorted by their texts.
    prefixes: Vec<Prefix>,
    others: Option<OtherGlobs>,
}

#[derive(Debug)]
struct Prefix {
    text: Box<str>,
    /// The rules of this prefix and of those that it begins with itself.
    rules: RuleSet,
    /// The longest of those.
    parent: Option<usize>,
}

#[derive(Debug)]
struct OtherGlobs {
    /// Finds the longest literals, in the order of the globs.
    literals: AhoCorasick,
    globs: Vec<(Glob, RuleSet)>,
}

/// Collects what goes into an index.
#[derive(Default)]
pub(crate) struct TextIndexBuilder {
    unconditional: RuleSet,
    any: RuleSet,
    exact: HashMap<Box<str>, RuleSet>,
    prefixes: HashMap<Box<str>, RuleSet>,
    others: HashMap<Glob, RuleSet>,
}

impl TextIndexBuilder {
    /// Adds the condition of a rule.
    pub(crate) fn add(&mut self, rule: usize, globs: Option<&[Glob]>) {
        match globs {
            None => self.unconditional.insert(rule),
            Some(globs) => globs.iter().for_each(|glob| self.add_glob(rule, glob)),
        }
    }

    /// Adds a glob of a rule.
    pub(crate) fn add_glob(&mut self, rule: usize, glob: &Glob) {
        let rules = if glob.is_any() {
            &mut self.any
        } else if let Some(text) = glob.exact() {
            self.exact.entry(text.into()).or_default()
        } else if let Some(prefix) = glob.prefix_only() {
            self.prefixes.entry(prefix.into()).or_default()
        } else {
            self.others.entry(glob.clone()).or_default()
        };
        rules.insert(rule);
    }

    pub(crate) fn build(self) -> TextIndex {
        let mut any = self.any;
        any |= &self.unconditional;

        TextIndex {
            unconditional: self.unconditional,
            any,
            exact: self.exact,
            prefixes: link_prefixes(self.prefixes),
            others: OtherGlobs::of(self.others.into_iter().collect()),
        }
    }
}

impl TextIndex {
    /// The rules whose condition holds of a text.
    pub(crate) fn matching(&self, text: &str) -> RuleSet {
        let mut rules = self.any;
        if let Some(exact) = self.exact.get(text) {
            rules |= exact;
        }
        if let Some(prefix) = self.longest_prefix(text) {
            rules |= &prefix.rules;
        }
        if let Some(others) = &self.others {
            others.add_matching(text, &mut rules);
        }
        rules
    }

    /// The rules whose condition holds where there is no text.
    pub(crate) fn matching_nothing(&self) -> RuleSet {
        self.unconditional
    }

    /// Between a prefix of the text and the text itself, only texts sort that begin with the
    /// prefix too. So the last entry before the text leads to it by its parents.
    fn longest_prefix(&self, text: &str) -> Option<&Prefix> {
        let after = self.prefixes.partition_point(|prefix| &*prefix.text <= text);
        let mut candidate = self.prefixes.get(after.checked_sub(1)?)?;
        while !text.starts_with(&*candidate.text) {
            candidate = &self.prefixes[candidate.parent?];
        }
        Some(candidate)
    }
}

impl OtherGlobs {
    fn of(globs: Vec<(Glob, RuleSet)>) -> Option<Self> {
        if globs.is_empty() {
            return None;
        }
        let literals = globs.iter().map(|(glob, _)| glob.longest_literal());
        let literals = AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            .build(literals)
            .expect("a book has far fewer and shorter globs than an automaton can have");
        Some(Self { literals, globs })
    }

    fn add_matching(&self, text: &str, rules: &mut RuleSet) {
        for found in self.literals.find_overlapping_iter(text) {
            let (glob, of_glob) = &self.globs[found.pattern().as_usize()];
            if !rules.has_all(of_glob) && glob.matches(text) {
                *rules |= of_glob;
            }
        }
    }
}

fn link_prefixes(prefixes: HashMap<Box<str>, RuleSet>) -> Vec<Prefix> {
    let mut sorted: Vec<_> = prefixes.into_iter().collect();
    sorted.sort_by(|one, other| one.0.cmp(&other.0));

    let mut linked: Vec<Prefix> = Vec::with_capacity(sorted.len());
    for (text, mut rules) in sorted {
        let mut parent = linked.len().checked_sub(1);
        while let Some(at) = parent
            && !text.starts_with(&*linked[at].text)
        {
            parent = linked[at].parent;
        }
        if let Some(at) = parent {
            rules |= &linked[at].rules;
        }
        linked.push(Prefix { text, rules, parent });
    }
    linked
}
