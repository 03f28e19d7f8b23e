//! The tools of one moment.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value};
use toolbus_config::nearest_name;

use super::{Error, TOOLS_MAX, ToolEntry, ToolState};
use crate::scope::Scope;

/// Most tools whose names are compared with one that there is not.
const COMPARED_MAX: usize = 2_000;

/// The tools of one moment. It never changes.
#[derive(Clone, Default)]
pub struct Snapshot {
    pub(super) revision: u64,
    /// In the order of registration.
    order: Vec<Arc<ToolEntry>>,
    /// Where each name's tool stands in the order.
    places: HashMap<Arc<str>, usize>,
    /// Why tools that are expected are not there, by their names.
    expected: Arc<HashMap<Arc<str>, Arc<str>>>,
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
        self.places.get(name).map(|place| &self.order[*place])
    }

    /// Why there is no tool of this name, where one is expected.
    pub(crate) fn why_missing(&self, name: &str) -> Option<&str> {
        let why = self.expected.get(name).filter(|_| !self.places.contains_key(name))?;
        Some(why)
    }

    /// The name of a tool that a scope sees which was probably meant by one that there is not.
    #[must_use]
    pub fn nearest(&self, name: &str, scope: &Scope) -> Option<&str> {
        let seen = self.seen_by(scope).take(COMPARED_MAX);
        nearest_name(name, seen.map(|entry| entry.tool.name.as_str()))
    }

    /// Every tool, in the order of registration.
    #[must_use]
    pub fn tools(&self) -> &[Arc<ToolEntry>] {
        &self.order
    }

    /// Whether a call of this tool with these arguments may change something, as far as the tool
    /// that it is really about says. One that is not there changes nothing.
    #[must_use]
    pub fn may_change(&self, tool: &str, arguments: &Map<String, Value>) -> bool {
        let Some(entry) = self.find(tool) else { return false };
        match entry.executor.resolve(&mut arguments.clone()) {
            Ok(Some(subject)) => !subject.annotations.read_only,
            Ok(None) => !entry.tool.annotations.read_only,
            // What they name may yet come.
            Err(_) => true,
        }
    }

    /// The tool that answers calls of this type, which a model's provider makes.
    #[must_use]
    pub fn find_by_call_type(&self, call_type: &str) -> Option<&Arc<ToolEntry>> {
        self.order.iter().find(|entry| entry.tool.kind.answers(call_type))
    }

    /// The tools that a scope sees, in the order of registration.
    pub fn seen_by(&self, scope: &Scope) -> impl Iterator<Item = &Arc<ToolEntry>> {
        self.order.iter().filter(move |entry| entry.is_seen_by(scope))
    }

    /// Remembers why tools of these names are not there.
    pub(super) fn expect(&mut self, names: &[&str], why: &Arc<str>) {
        let expected = Arc::make_mut(&mut self.expected);
        expected.extend(names.iter().map(|name| (Arc::from(*name), Arc::clone(why))));
    }

    /// Adds a tool at the end.
    pub(super) fn add(&mut self, entry: Arc<ToolEntry>) -> Result<(), Error> {
        if self.order.len() >= TOOLS_MAX {
            return Err(Error::Full);
        }
        let place = self.order.len();
        self.check_names(&entry, place)?;

        self.insert_names(&entry, place);
        self.order.push(entry);
        Ok(())
    }

    /// Puts a provider's tool where the one of its name stands, or at the end. Answers whether
    /// anybody can see a difference.
    pub(super) fn put(&mut self, entry: Arc<ToolEntry>) -> Result<bool, Error> {
        let place = self.places.get(entry.name()).copied();
        let place = place.filter(|place| is_same_tool(&self.order[*place], &entry));
        let Some(place) = place else {
            return self.add(entry).map(|()| true);
        };
        self.check_names(&entry, place)?;

        self.insert_names(&entry, place);
        let known = std::mem::replace(&mut self.order[place], entry);
        let entry = &self.order[place];
        for name in known.names.iter().filter(|name| !entry.names.contains(name)) {
            self.places.remove(name);
        }
        Ok(known.tool != entry.tool || known.state != entry.state || known.id != entry.id)
    }

    /// Removes tools, and answers whether there were any.
    pub(super) fn remove(&mut self, is_gone: impl Fn(&ToolEntry) -> bool) -> bool {
        let before = self.order.len();
        self.order.retain(|entry| !is_gone(entry));
        if self.order.len() == before {
            return false;
        }

        // Those behind them have moved up.
        let order = std::mem::take(&mut self.order);
        self.places.clear();
        order.iter().enumerate().for_each(|(place, entry)| self.insert_names(entry, place));
        self.order = order;
        true
    }

    /// Sets the state of a provider's tools, and answers whether anybody can see a difference.
    pub(super) fn set_state(&mut self, provider: &str, state: ToolState) -> bool {
        let mut is_visible = false;
        for entry in &mut self.order {
            if &*entry.provider == provider && entry.state != state {
                *entry = Arc::new(ToolEntry { state, ..ToolEntry::clone(entry) });
                is_visible = true;
            }
        }
        is_visible
    }

    /// Refuses names that a tool has which does not stand at this place.
    fn check_names(&self, entry: &ToolEntry, own_place: usize) -> Result<(), Error> {
        for name in &*entry.names {
            let taken = self.places.get(name).filter(|place| **place != own_place);
            if let Some(place) = taken {
                return Err(Error::Duplicate {
                    name: name.to_string(),
                    taken_by: self.order[*place].tool.source.to_string(),
                    source_name: entry.tool.source.to_string(),
                });
            }
        }
        Ok(())
    }

    fn insert_names(&mut self, entry: &ToolEntry, place: usize) {
        for name in &*entry.names {
            self.places.insert(Arc::clone(name), place);
        }
    }
}

fn is_same_tool(known: &ToolEntry, entry: &ToolEntry) -> bool {
    known.provider == entry.provider && known.name() == entry.name()
}
