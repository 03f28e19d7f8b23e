//! The tools of one moment.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Error, TOOLS_MAX, ToolEntry, ToolState};
use crate::view::View;

/// The tools of one moment. It never changes.
#[derive(Clone, Default)]
pub struct Snapshot {
    pub(super) revision: u64,
    by_name: HashMap<String, Arc<ToolEntry>>,
    /// In the order of registration.
    order: Vec<Arc<ToolEntry>>,
}

impl Snapshot {
    /// Grows with every change that somebody could see.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The tool of this name or alias.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Arc<ToolEntry>> {
        self.by_name.get(name)
    }

    /// Every tool, in the order of registration.
    #[must_use]
    pub fn tools(&self) -> &[Arc<ToolEntry>] {
        &self.order
    }

    /// The tools that a view sees, in the order of registration.
    pub fn seen_by(&self, view: &View) -> impl Iterator<Item = &Arc<ToolEntry>> {
        self.order.iter().filter(|entry| view.sees(&entry.id))
    }

    /// Adds a tool at the end.
    pub(super) fn add(&mut self, entry: Arc<ToolEntry>) -> Result<(), Error> {
        if self.order.len() >= TOOLS_MAX {
            return Err(Error::Full);
        }
        self.check_names(&entry, None)?;

        self.insert_names(&entry);
        self.order.push(entry);
        Ok(())
    }

    /// Puts a provider's tool where the one of its name stands, or at the end. Answers whether
    /// anybody can see a difference.
    pub(super) fn put(&mut self, entry: Arc<ToolEntry>) -> Result<bool, Error> {
        let known = self.by_name.get(&entry.tool.name).cloned();
        let Some(known) = known.filter(|known| is_same_tool(known, &entry)) else {
            return self.add(entry).map(|()| true);
        };
        self.check_names(&entry, Some(&known))?;

        let is_visible = known.tool != entry.tool || known.state != entry.state;
        for name in known.names() {
            self.by_name.remove(name);
        }
        self.insert_names(&entry);
        if let Some(place) = self.order.iter_mut().find(|other| Arc::ptr_eq(other, &known)) {
            *place = entry;
        }
        Ok(is_visible)
    }

    /// Removes tools, and answers whether there were any.
    pub(super) fn remove(&mut self, is_gone: impl Fn(&ToolEntry) -> bool) -> bool {
        let before = self.order.len();
        self.order.retain(|entry| !is_gone(entry));
        if self.order.len() == before {
            return false;
        }

        self.by_name.retain(|_, entry| !is_gone(entry));
        true
    }

    /// Sets the state of a provider's tools, and answers whether anybody can see a difference.
    pub(super) fn set_state(&mut self, provider: &str, state: ToolState) -> bool {
        let mut is_visible = false;
        for place in &mut self.order {
            if &*place.provider == provider && place.state != state {
                *place = Arc::new(ToolEntry { state, ..ToolEntry::clone(place) });
                is_visible = true;
            }
        }
        if is_visible {
            let order = std::mem::take(&mut self.order);
            order.iter().for_each(|entry| self.insert_names(entry));
            self.order = order;
        }
        is_visible
    }

    fn check_names(&self, entry: &ToolEntry, beside: Option<&Arc<ToolEntry>>) -> Result<(), Error> {
        for name in entry.names() {
            let taken = self.by_name.get(name);
            let taken = taken.filter(|taken| beside.is_none_or(|own| !Arc::ptr_eq(own, taken)));
            if let Some(taken) = taken {
                return Err(Error::Duplicate {
                    name: name.clone(),
                    taken_by: taken.tool.source.to_string(),
                    source_name: entry.tool.source.to_string(),
                });
            }
        }
        Ok(())
    }

    fn insert_names(&mut self, entry: &Arc<ToolEntry>) {
        for name in entry.names() {
            self.by_name.insert(name.clone(), Arc::clone(entry));
        }
    }
}

fn is_same_tool(known: &ToolEntry, entry: &ToolEntry) -> bool {
    known.provider == entry.provider && known.name == entry.name
}
