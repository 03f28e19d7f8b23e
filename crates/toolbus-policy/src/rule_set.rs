//! Sets of rules of one book, by their positions in it.

use std::ops::{BitAndAssign, BitOrAssign};

use crate::preset::PRESET_RULES_MAX;

/// Maximum number of an operator's rules in a book.
pub const RULES_MAX: usize = 1_000;

/// Capacity for the rules of an operator and of a preset.
const WORDS: usize = (RULES_MAX + PRESET_RULES_MAX).div_ceil(64);

/// Some of the rules of a book.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct RuleSet([u64; WORDS]);

impl RuleSet {
    /// The first rules, so many of them.
    pub(crate) fn first_of(count: usize) -> Self {
        let mut set = Self::default();
        (0..count).for_each(|rule| set.insert(rule));
        set
    }

    pub(crate) fn insert(&mut self, rule: usize) {
        self.0[rule / 64] |= 1 << (rule % 64);
    }

    pub(crate) fn contains(&self, rule: usize) -> bool {
        self.0[rule / 64] & (1 << (rule % 64)) != 0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Those that are in both.
    pub(crate) fn and(mut self, other: &Self) -> Self {
        self &= other;
        self
    }

    /// The rules that are in either set.
    pub(crate) fn or(mut self, other: &Self) -> Self {
        self |= other;
        self
    }

    /// The rules that are not in the other set.
    pub(crate) fn without(mut self, other: &Self) -> Self {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word &= !other);
        self
    }

    /// Whether all of these are in it.
    pub(crate) fn has_all(&self, others: &Self) -> bool {
        self.0.iter().zip(&others.0).all(|(word, other)| word & other == *other)
    }

    /// The first of them in the order of the book.
    pub(crate) fn first(&self) -> Option<usize> {
        let word = self.0.iter().position(|word| *word != 0)?;
        Some(word * 64 + self.0[word].trailing_zeros() as usize)
    }

    /// Each of them, in the order of the book.
    pub(crate) fn iter(mut self) -> impl Iterator<Item = usize> {
        std::iter::from_fn(move || {
            let rule = self.first()?;
            self.0[rule / 64] &= !(1 << (rule % 64));
            Some(rule)
        })
    }
}

impl BitAndAssign<&Self> for RuleSet {
    fn bitand_assign(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word &= other);
    }
}

impl BitOrAssign<&Self> for RuleSet {
    fn bitor_assign(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word |= other);
    }
}
