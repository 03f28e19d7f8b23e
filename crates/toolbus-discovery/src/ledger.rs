//! Ledgers: totals by key, which several processes add to. Each keeps what is in the store, and
//! what it has counted itself and not written yet.

use std::collections::HashMap;
use std::hash::Hash;

/// Counts that add up.
pub(crate) trait Totals: Clone + Default {
    /// Adds other counts.
    fn add(&mut self, other: &Self);

    /// Whether nothing was counted.
    fn is_empty(&self) -> bool;

    /// How much they are worth: those that are worth least fall out first.
    fn rank(&self) -> (u64, i64);
}

/// Totals by key, bounded in their number.
#[derive(Debug)]
pub(crate) struct Ledger<K, V> {
    cells: HashMap<K, Cell<V>>,
    /// Keys with something that is not written.
    unsaved: Vec<K>,
    entries_max: usize,
}

#[derive(Debug, Default)]
struct Cell<V> {
    /// What the store has, as far as it is known here.
    stored: V,
    /// What is being written.
    saving: Option<V>,
    /// What was counted since.
    pending: Option<V>,
}

impl<V: Totals> Cell<V> {
    fn total(&self) -> V {
        let mut total = self.stored.clone();
        [&self.saving, &self.pending].into_iter().flatten().for_each(|more| total.add(more));
        total
    }
}

impl<K: Hash + Eq + Clone, V: Totals> Ledger<K, V> {
    /// An empty ledger of at most this many keys.
    pub(crate) fn new(entries_max: usize) -> Self {
        Self { cells: HashMap::new(), unsaved: Vec::new(), entries_max }
    }

    /// The total of a key, whoever has counted it.
    pub(crate) fn total(&self, key: &K) -> Option<V> {
        self.cells.get(key).map(Cell::total)
    }

    /// Every key with its total.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, V)> {
        self.cells.iter().map(|(key, cell)| (key, cell.total()))
    }

    /// How many keys there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.cells.len()
    }

    /// Whether there is something that is not written.
    pub(crate) fn has_unsaved(&self) -> bool {
        !self.unsaved.is_empty()
    }

    /// Counts for a key.
    pub(crate) fn count(&mut self, key: K, change: impl FnOnce(&mut V)) {
        let cell = self.cells.entry(key.clone()).or_default();
        if cell.pending.is_none() {
            self.unsaved.push(key);
        }
        change(cell.pending.get_or_insert_default());
        self.evict();
    }

    /// Takes up to this many keys with what is to be added to the store.
    pub(crate) fn take_unsaved(&mut self, keys_max: usize) -> Vec<(K, V)> {
        let rest = self.unsaved.len().saturating_sub(keys_max);
        let mut taken = Vec::new();
        for key in self.unsaved.split_off(rest) {
            // It may have fallen out.
            let Some(cell) = self.cells.get_mut(&key) else { continue };
            let Some(pending) = cell.pending.take() else { continue };
            cell.saving = Some(pending.clone());
            taken.push((key, pending));
        }
        taken
    }

    /// The store has this total now.
    pub(crate) fn saved(&mut self, key: &K, total: V) {
        if let Some(cell) = self.cells.get_mut(key) {
            cell.saving = None;
            cell.stored = total;
        }
    }

    /// It was not written, and is to be written again.
    pub(crate) fn not_saved(&mut self, key: K) {
        let Some(cell) = self.cells.get_mut(&key) else { return };
        let Some(saving) = cell.saving.take() else { return };
        if cell.pending.is_none() {
            self.unsaved.push(key);
        }
        cell.pending.get_or_insert_default().add(&saving);
    }

    /// Nobody knows whether it was written: it is not written again, for twice is worse.
    pub(crate) fn unknown_whether_saved(&mut self, key: &K) {
        if let Some(cell) = self.cells.get_mut(key) {
            cell.saving = None;
        }
    }

    /// The store was read, and has this total.
    pub(crate) fn read(&mut self, key: K, total: V) {
        self.cells.entry(key).or_default().stored = total;
        self.evict();
    }

    /// Forgets keys.
    pub(crate) fn retain(&mut self, keeps: impl Fn(&K) -> bool) {
        self.cells.retain(|key, _| keeps(key));
    }

    /// Lets the least used keys fall out, many at a time, where there are too many.
    fn evict(&mut self) {
        if self.cells.len() <= self.entries_max + self.entries_max / 8 {
            return;
        }
        let mut ranks: Vec<_> =
            self.cells.iter().map(|(key, cell)| (cell.total().rank(), key.clone())).collect();
        ranks.sort_by_key(|(rank, _)| *rank);
        let gone = ranks.len() - self.entries_max;
        for (_, key) in ranks.into_iter().take(gone) {
            self.cells.remove(&key);
        }
        self.unsaved.retain(|key| self.cells.contains_key(key));
    }
}

#[cfg(test)]
mod tests;
