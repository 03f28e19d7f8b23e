//! Whether a call that failed had been started.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Whether the work of a call that has no result was started: what a caller needs to know before
/// it makes the call again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Execution {
    /// It was not: nothing has happened, and the call may be made again.
    NotStarted,
    /// It was: it may have taken effect.
    Started,
    /// Nobody who answers knows. Also any word that this version does not know.
    Unknown,
}

impl Execution {
    /// The text on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotStarted => "not_started",
            Self::Started => "started",
            Self::Unknown => "unknown",
        }
    }
}

impl Serialize for Execution {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Execution {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        Ok(match &*text {
            "not_started" => Self::NotStarted,
            "started" => Self::Started,
            _ => Self::Unknown,
        })
    }
}
