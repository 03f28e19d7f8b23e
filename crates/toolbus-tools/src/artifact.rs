//! References to artifacts: large values that are kept outside a conversation.
//!
//! An object whose only member is `$artifact` stands for the artifact of that reference, wherever
//! it is among the arguments of a call. What it stands for is read by a [`ReadReferences`], such as
//! that of `toolbus-artifacts`, before the subject of the call is resolved: every check and every
//! approver sees what the tool will get.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::call::CallError;
use crate::id::Error;
use crate::registry::ToolEntry;
use crate::scope::Scope;

/// The member that makes an object a reference.
pub const REFERENCE_MEMBER: &str = "$artifact";
/// Longest reference, in bytes.
pub const REFERENCE_BYTES_MAX: usize = 64;

/// The name of an artifact: letters, digits, `_` and `-`. It says nothing of who may read it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ArtifactRef(Arc<str>);

/// What callers are told of an artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactInfo {
    /// Its name.
    pub reference: ArtifactRef,
    /// What its bytes are, such as `text/plain`.
    pub media_type: String,
    /// How many bytes it has.
    pub bytes: u64,
}

/// A picture, a sound or another file among the results of a call, kept as an artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactFile {
    /// Where a chain finds it, relative to the folder that it works in.
    pub path: String,
    /// The artifact.
    pub artifact: ArtifactInfo,
}

/// Which artifacts the calls of a scope may refer to, of those that are its own.
#[derive(Debug, Clone, Default)]
pub enum ArtifactReach {
    /// All of its session's.
    #[default]
    Session,
    /// Only these: those that were passed to a chain, and those that it has made.
    Only(ArtifactSet),
}

/// A set of artifacts that grows. Clones are the same set.
#[derive(Debug, Clone, Default)]
pub struct ArtifactSet(Arc<Mutex<BTreeSet<ArtifactRef>>>);

/// Reads the artifacts that arguments refer to.
pub trait ReadReferences: Send + Sync + 'static {
    /// Returns true if the tool reads artifacts itself and therefore receives references unchanged.
    fn keeps_references(&self, tool: &ToolEntry) -> bool;

    /// Replaces each reference that the scope may use by what it stands for. Others stay as they
    /// are: to the tool they are data.
    ///
    /// # Errors
    /// When there are too many, they are too large, or one cannot be read; and when the arguments
    /// do not fit the tool's schema with what they stand for.
    fn replace<'a>(
        &'a self,
        scope: &'a Scope,
        tool: &'a ToolEntry,
        arguments: &'a mut Value,
    ) -> BoxFuture<'a, Result<(), CallError>>;
}

impl ArtifactRef {
    /// Takes a name of at most [`REFERENCE_BYTES_MAX`] bytes.
    ///
    /// # Errors
    /// When it is longer, empty, or has other characters.
    pub fn parse(text: &str) -> Result<Self, Error> {
        const WHAT: &str = "an artifact reference";
        if text.len() > REFERENCE_BYTES_MAX {
            return Err(Error::TooLong { what: WHAT, bytes: text.len() });
        }
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if text.is_empty() || !text.bytes().all(is_plain) {
            return Err(Error::Malformed { what: WHAT, text: text.to_owned() });
        }
        Ok(Self(text.into()))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What stands for it among arguments.
    #[must_use]
    pub fn to_value(&self) -> Value {
        json!({ REFERENCE_MEMBER: self.as_str() })
    }
}

impl std::fmt::Display for ArtifactRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl ArtifactReach {
    /// Whether the scope may refer to it, if it is its own.
    #[must_use]
    pub fn contains(&self, reference: &ArtifactRef) -> bool {
        match self {
            Self::Session => true,
            Self::Only(set) => set.contains(reference),
        }
    }

    /// Lets the scope refer to what one of its calls has made.
    pub fn add(&self, reference: &ArtifactRef) {
        if let Self::Only(set) = self {
            set.insert(reference.clone());
        }
    }
}

impl FromIterator<ArtifactRef> for ArtifactSet {
    fn from_iter<I: IntoIterator<Item = ArtifactRef>>(references: I) -> Self {
        Self(Arc::new(Mutex::new(references.into_iter().collect())))
    }
}

impl ArtifactSet {
    /// Whether it is in the set.
    #[must_use]
    pub fn contains(&self, reference: &ArtifactRef) -> bool {
        self.0.lock().contains(reference)
    }

    /// Adds it, and says whether it is new.
    pub fn insert(&self, reference: ArtifactRef) -> bool {
        self.0.lock().insert(reference)
    }

    /// All of them.
    #[must_use]
    pub fn to_vec(&self) -> Vec<ArtifactRef> {
        self.0.lock().iter().cloned().collect()
    }
}

/// The text of a reference, where this value is one: an object whose only member is
/// [`REFERENCE_MEMBER`]. One with other members is data.
#[must_use]
pub fn reference_text(value: &Value) -> Option<&str> {
    let members = value.as_object()?;
    if members.len() != 1 {
        return None;
    }
    members.get(REFERENCE_MEMBER)?.as_str()
}

/// Returns true if the value contains a reference.
#[must_use]
pub fn has_reference(value: &Value) -> bool {
    if reference_text(value).is_some() {
        return true;
    }
    match value {
        Value::Array(items) => items.iter().any(has_reference),
        Value::Object(members) => members.values().any(has_reference),
        _ => false,
    }
}

/// The texts of the references in a value, in their order: the first `max` of them.
#[must_use]
pub fn find_references(value: &Value, max: usize) -> Vec<&str> {
    let mut found = Vec::new();
    collect_references(value, max, &mut found);
    found
}

fn collect_references<'a>(value: &'a Value, max: usize, found: &mut Vec<&'a str>) {
    if found.len() >= max {
        return;
    }
    if let Some(text) = reference_text(value) {
        found.push(text);
        return;
    }

    match value {
        Value::Array(items) => items.iter().for_each(|item| collect_references(item, max, found)),
        Value::Object(members) => {
            members.values().for_each(|member| collect_references(member, max, found));
        }
        _ => {}
    }
}

/// Replaces references in a value. `replacement` is asked for each, in the order of
/// [`find_references`], and with its text; `None` leaves it as it is. What takes the place of a
/// reference is not looked through.
pub fn replace_references(value: &mut Value, replacement: &mut impl FnMut(&str) -> Option<Value>) {
    if let Some(text) = reference_text(value) {
        if let Some(replaced) = replacement(text) {
            *value = replaced;
        }
        return;
    }

    match value {
        Value::Array(items) => {
            items.iter_mut().for_each(|item| replace_references(item, replacement));
        }
        Value::Object(members) => {
            members.values_mut().for_each(|member| replace_references(member, replacement));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
