//! Definitions of tools and prompts as their servers wrote them.
//!
//! Values are looked through and pinned, texts are shown: a member that nobody here knows, and a
//! number that no `f64` holds, reach clients as they are. A text is shown only where it means the
//! very value that was looked through.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::value::RawValue;
use serde_json::{Map, Value};
use toolbus_json::Limits;
use toolbus_tools::hidden_text::{self, HiddenCounts};
use toolbus_wire::json::RawJson;

use crate::catalogue::CATALOGUE_BYTES_MAX;
use crate::trust::definition::Definition;

/// What a definition may have. One that is larger than the catalogue is counted there.
const DEFINITION_LIMITS: Limits = Limits::of_bytes(2 * CATALOGUE_BYTES_MAX);

/// One definition.
pub(crate) struct WrittenDefinition<'a> {
    /// The members as they were written; `None` of a name that stands twice.
    written: HashMap<Cow<'a, str>, Option<&'a RawValue>>,
    members: Map<String, Value>,
}

impl<'a> WrittenDefinition<'a> {
    /// Reads a definition. `None` when it is no object, or exceeds a limit.
    pub(crate) fn read(text: &'a RawJson) -> Option<Self> {
        let mut members: Map<String, Value> =
            toolbus_json::from_str(text.text(), &DEFINITION_LIMITS).ok()?;
        // As if it were not there, as readers of every kind have it.
        members.retain(|_, value| !value.is_null());

        let mut written = HashMap::new();
        for (name, value) in text.members()? {
            written.entry(name).and_modify(|only| *only = None).or_insert(Some(value));
        }
        Some(Self { written, members })
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.members.get(name)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(Value::as_str)
    }

    /// Whether a member is a text, or is not there.
    pub(crate) fn may_be_text(&self, name: &str) -> bool {
        self.get(name).is_none_or(Value::is_string)
    }

    /// Takes a member out.
    pub(crate) fn take(&mut self, name: &str) -> Option<RawJson> {
        let written = self.written(name);
        self.members.shift_remove(name);
        written
    }

    /// Takes hidden characters out of all texts. Answers whether all names of members were clean.
    pub(crate) fn clean(&mut self, found: &mut HiddenCounts) -> bool {
        let mut value = Value::Object(std::mem::take(&mut self.members));
        let is_clean = hidden_text::clean_json(&mut value, found);
        if let Value::Object(members) = value {
            self.members = members;
        }
        is_clean
    }

    /// A member as it was written, if that means what was looked through.
    pub(crate) fn written(&self, name: &str) -> Option<RawJson> {
        let value = self.members.get(name)?;
        let only = self.written.get(name).copied().flatten();
        let only = only.map(|text| RawJson::from(text.to_owned()));
        Some(only.filter(|text| text.means(value)).unwrap_or_else(|| RawJson::of(value)))
    }

    /// The definition without the members of these names; `None` where it has no other.
    pub(crate) fn without(&self, names: &[&str]) -> Option<RawJson> {
        let others = self.members.keys().filter(|name| !names.contains(&name.as_str()));
        let others: Vec<_> = others.filter_map(|name| Some((name, self.written(name)?))).collect();
        let members = others.iter().map(|(name, text)| (name, text.as_raw()));
        (!others.is_empty()).then(|| RawJson::of_members(members))
    }

    /// What is pinned: everything that was not taken out.
    pub(crate) fn into_definition(self) -> Definition {
        Definition::new(self.members)
    }
}

#[cfg(test)]
mod tests;
