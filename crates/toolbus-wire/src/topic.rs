//! Topics: where a message is sent. The catalogue of every topic of the fleet is here.
//!
//! A constant is a topic that all share; a function gives the topic of one agent or process. Topics
//! of the C# code that no program of ours publishes to or hears are not in it.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

mod catalogue;

pub use catalogue::*;

/// Longest topic, in bytes: what AMQP carries as a routing key.
pub const TOPIC_BYTES_MAX: usize = 255;

/// A topic that a message is published to: dot-separated segments, AMQP's routing key.
///
/// Any text of 1 to 255 bytes is one, because a reply topic may be chosen by a stranger. Cloning
/// one copies no text.
#[derive(Clone)]
pub struct Topic(Text);

#[derive(Clone)]
enum Text {
    Static(&'static str),
    Shared(Arc<str>),
}

/// Why a text is not a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text is empty.
    #[error("a topic is never empty")]
    Empty,
    /// AMQP carries a routing key in at most 255 bytes.
    #[error("a topic has at most {TOPIC_BYTES_MAX} bytes, this one has {0}")]
    TooLong(usize),
}

impl Topic {
    /// Checks `text` and takes it as a topic.
    ///
    /// # Errors
    /// When it is empty or longer than 255 bytes.
    pub fn parse(text: impl AsRef<str>) -> Result<Self, Error> {
        let text = text.as_ref();
        match text.len() {
            0 => Err(Error::Empty),
            1..=TOPIC_BYTES_MAX => Ok(Self(Text::Shared(text.into()))),
            length => Err(Error::TooLong(length)),
        }
    }

    /// The text of the topic.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Text::Static(text) => text,
            Text::Shared(text) => text,
        }
    }

    /// The topic with its names left out, such as `tool.result.{agent}`; `other` for a topic that
    /// is not in the catalogue. For metrics, where the number of values must be bounded whatever
    /// peers publish to.
    #[must_use]
    pub fn template(&self) -> &'static str {
        catalogue::find_template(self.as_str())
    }

    const fn from_static(text: &'static str) -> Self {
        assert!(!text.is_empty() && text.len() <= TOPIC_BYTES_MAX);
        Self(Text::Static(text))
    }

    /// `prefix` and the names behind it, with dots between them. Names are checked and short, so
    /// that it is always a topic.
    fn from_names(prefix: &'static str, names: &[&str]) -> Self {
        let mut text = prefix.to_owned();
        for name in names {
            text.push('.');
            text.push_str(name);
        }

        Self(Text::Shared(text.into()))
    }
}

impl PartialEq for Topic {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Topic {}

impl PartialOrd for Topic {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Topic {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl Hash for Topic {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Topic({})", self.as_str())
    }
}

impl TryFrom<String> for Topic {
    type Error = Error;
    fn try_from(text: String) -> Result<Self, Error> {
        Self::parse(text)
    }
}

impl Serialize for Topic {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Topic {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl AsRef<str> for Topic {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

#[cfg(test)]
mod tests;
