//! Subjects: which tool a call is really about, by whatever name it was called.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::audience::Audience;
use crate::id::ToolId;
use crate::tool::{Annotations, Risk};

/// The tool that a call is about, once its arguments are read. Permission, limits, approvals and
/// records are about this one, never about the name that was called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// Which tool it is.
    pub id: ToolId,
    /// What the tool is defined as. `None` where its provider has not said.
    pub definition: Option<DefinitionDigest>,
    /// What it says of its side effects.
    pub annotations: Annotations,
    /// How much harm it can do.
    pub risk: Risk,
    /// For whom it is there.
    pub audience: Audience,
}

/// A digest of what a tool is defined as: its name, its description and its schemas. A tool whose
/// definition has changed is another one to whoever approved it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct DefinitionDigest(Arc<str>);

impl DefinitionDigest {
    /// The digest of these parts. Members of objects count in the order in which they stand.
    #[must_use]
    pub fn of(name: &str, description: &str, schemas: &[&Value]) -> Self {
        Self::of_texts(name, description, schemas.iter().map(ToString::to_string))
    }

    /// The digest of these parts, where the schemas are JSON text.
    #[must_use]
    pub fn of_texts<T: AsRef<str>>(
        name: &str,
        description: &str,
        schemas: impl IntoIterator<Item = T>,
    ) -> Self {
        let mut hash = Sha256::new();
        let mut add = |text: &str| {
            // With its length, so that no two lists of parts are the same bytes.
            hash.update(text.len().to_be_bytes());
            hash.update(text);
        };
        add(name);
        add(description);
        schemas.into_iter().for_each(|schema| add(schema.as_ref()));

        Self::from_text(&format!("{:x}", hash.finalize()))
    }

    /// The digest that a provider tells of its tool. It is compared, never read.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        let end = text.floor_char_boundary(crate::id::ID_BYTES_MAX);
        Self(text[..end].into())
    }
}

impl fmt::Display for DefinitionDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for DefinitionDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
