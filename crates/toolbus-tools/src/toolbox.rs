//! The toolbox: the tools that an agent is given, in an order that stays.
//!
//! It is a selection and holds no tool of its own: entries come out of a [`Registry`], which is the
//! one home of tools, and the invoker finds what it runs there. So a toolbox may be stricter or
//! older than the registry, and never runs anything. It has one rule that the registry has not: a
//! second tool of a name takes the place of the first, where the registry refuses it. That way an
//! entry of a newer snapshot replaces the one that it was made from.
//!
//! It is as large as the registries that its entries come from, and those are bounded.
//!
//! [`Registry`]: crate::Registry

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;
use serde_json::{Value, json};

use crate::registry::{Snapshot, ToolEntry};
use crate::scope::Scope;
use crate::tool::Risk;
use crate::tool_kind::ToolKind;
use crate::tool_spec::{ToolSpec, function_schema, spec_of};

/// The name of the tool that runs chains. A chain cannot call it: see [`crate::gate::RightKind`].
pub const TOOL_CHAIN: &str = "tool_chain";

/// The tools of an agent. Clones are the same toolbox, so that agents can share one; a list of
/// entries becomes a toolbox of its own.
#[derive(Clone, Default)]
pub struct Toolbox {
    contents: Arc<RwLock<Contents>>,
}

#[derive(Default)]
struct Contents {
    /// In the order in which the names came.
    order: Vec<Arc<ToolEntry>>,
    /// Where the tool of each name stands in the order.
    places: HashMap<String, usize>,
}

/// Whether schemas end with the mark of a provider's own search for tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchMark {
    /// They end with `{"type": "tool_search"}`.
    Appended,
    /// They do not.
    Absent,
}

impl Toolbox {
    /// No tools.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The tools that a scope sees, in the order of registration.
    #[must_use]
    pub fn of(tools: &Snapshot, scope: &Scope) -> Self {
        tools.seen_by(scope).cloned().collect::<Vec<_>>().into()
    }

    /// Whether both are the same toolbox, not only alike.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.contents, &other.contents)
    }

    /// Adds a tool at the end, or in the place of the one that has its name.
    pub fn add(&self, entry: Arc<ToolEntry>) {
        self.contents.write().add(entry);
    }

    /// The tool of this name. Aliases are the registry's.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Arc<ToolEntry>> {
        let contents = self.contents.read();
        contents.places.get(name).map(|place| Arc::clone(&contents.order[*place]))
    }

    /// Every tool, in order; the list is the caller's own.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<ToolEntry>> {
        self.contents.read().order.clone()
    }

    /// Every name, in order; the list is the caller's own.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.collect(|entry| Some(entry.tool.name.clone()))
    }

    /// How many tools there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.contents.read().order.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether there is a tool of this name.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.contents.read().places.contains_key(name)
    }

    /// The tools that declare this risk. One that declares none counts as the lowest here, where
    /// tools are only listed; gates take it for [`Risk::UNDECLARED`].
    #[must_use]
    pub fn by_risk(&self, risk: Risk) -> Vec<Arc<ToolEntry>> {
        self.collect(|entry| {
            let declared = entry.tool.risk.unwrap_or(Risk::ALL[0]);
            (declared == risk).then(|| Arc::clone(entry))
        })
    }

    /// The names that a chain may call: local tools, and not the one that runs chains.
    #[must_use]
    pub fn chain_names(&self) -> Vec<String> {
        self.collect(|entry| {
            let tool = &entry.tool;
            (tool.kind.is_local() && tool.name != TOOL_CHAIN).then(|| tool.name.clone())
        })
    }

    /// The schemas of the tools: name, description and parameters of a local one, and
    /// `defer_loading` where it asks for that; the first definition of one that a provider knows,
    /// as it is. A tool without any definition is left out.
    #[must_use]
    pub fn schemas(&self) -> Vec<Value> {
        self.collect(|entry| schema_of(entry, entry.tool.defer))
    }

    /// The full schema of one tool, which never has the mark `defer_loading`. `None` where there is
    /// no such tool, or it has no definition.
    #[must_use]
    pub fn schema_for(&self, name: &str) -> Option<Value> {
        schema_of(&*self.get(name)?, false)
    }

    /// The schemas of the tools, every local one marked `defer_loading`: they are found by a
    /// search, the provider's own where the mark of that is appended.
    #[must_use]
    pub fn deferred_schemas(&self, mark: SearchMark) -> Vec<Value> {
        let mut schemas = self.collect(|entry| schema_of(entry, true));
        if mark == SearchMark::Appended {
            schemas.push(json!({"type": "tool_search"}));
        }
        schemas
    }

    /// What this provider is told of the tools, in order, without those that it lacks: see
    /// [`spec_of`].
    #[must_use]
    pub fn specs_for(&self, provider: &str) -> Vec<ToolSpec> {
        self.collect(|entry| spec_of(&entry.tool, provider))
    }

    fn collect<T>(&self, pick: impl FnMut(&Arc<ToolEntry>) -> Option<T>) -> Vec<T> {
        self.contents.read().order.iter().filter_map(pick).collect()
    }
}

impl From<Vec<Arc<ToolEntry>>> for Toolbox {
    fn from(entries: Vec<Arc<ToolEntry>>) -> Self {
        let mut contents = Contents::default();
        entries.into_iter().for_each(|entry| contents.add(entry));
        Self { contents: Arc::new(RwLock::new(contents)) }
    }
}

impl Contents {
    fn add(&mut self, entry: Arc<ToolEntry>) {
        match self.places.get(&entry.tool.name) {
            Some(place) => self.order[*place] = entry,
            None => {
                self.places.insert(entry.tool.name.clone(), self.order.len());
                self.order.push(entry);
            }
        }
    }
}

fn schema_of(entry: &ToolEntry, is_deferred: bool) -> Option<Value> {
    match &entry.tool.kind {
        ToolKind::Local => {
            let mut schema = function_schema(&entry.tool);
            if is_deferred {
                schema.insert("defer_loading".to_owned(), Value::Bool(true));
            }
            Some(Value::Object(schema))
        }
        ToolKind::ProviderHosted(specs) | ToolKind::ProviderDefined { specs, .. } => {
            specs.first().cloned()
        }
    }
}

#[cfg(test)]
mod tests;
