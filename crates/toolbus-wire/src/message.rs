//! Message bodies, one module a family, each type with the name it has on the wire.
//!
//! Members that the C# code has always had are written even when they are null, as it does. Members
//! of newer C# code and our own are left out when there is nothing to say: an older peer does not
//! know them, and a newer one refuses some of them as null.

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{Envelope, json};

pub mod a2a;
mod field;
pub mod mcp;
pub mod script;
pub mod subagent;
pub mod tool;
pub mod toolbus;
pub mod user;

/// A body that has a name on the wire.
pub trait Message: Serialize + DeserializeOwned {
    /// The message type, as the envelope carries it. Compared without case.
    const TYPE: &'static str;
}

/// Whether the envelope says that its body is a `T`.
#[must_use]
pub fn is<T: Message>(envelope: &Envelope) -> bool {
    envelope.message_type.eq_ignore_ascii_case(T::TYPE)
}

/// Reads the body of an envelope as a `T`, whatever type the envelope names.
///
/// # Errors
/// When the body is no such message.
pub fn read<T: Message>(envelope: &Envelope) -> Result<T, json::Error> {
    json::read(&envelope.body)
}

/// A text that must not be seen: its `Debug` form leaves it out. On the wire it is a string.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// The text itself, for the one place that needs it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests;
