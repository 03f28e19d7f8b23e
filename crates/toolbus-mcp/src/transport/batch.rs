//! Batches: several messages in one JSON array, as servers of 2025-03-26 may send them wherever one
//! message can stand. Each is taken as if it had come alone.

use std::collections::VecDeque;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::PARTS_LIMITS;

/// Most messages of one batch that are taken. A server answers at most as many calls at a time.
pub(super) const BATCH_MAX: usize = 64;

/// The messages of one batch.
#[derive(Debug)]
pub(super) struct Batch<'a> {
    /// The first [`BATCH_MAX`] of them.
    pub(super) messages: Vec<&'a RawValue>,
    /// How many there are.
    pub(super) length: usize,
}

impl<'a> Batch<'a> {
    /// Reads a text as a batch. `None` where it is none, or no JSON.
    pub(super) fn read(text: &'a [u8]) -> Option<Self> {
        // Most texts are none, and their first byte shows it.
        let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text).trim_ascii_start();
        let read = || toolbus_json::from_slice(text, &PARTS_LIMITS).ok();
        text.starts_with(b"[").then(read).flatten()
    }

    /// Logs how many messages of it are not taken.
    pub(super) fn log_dropped(&self, server: &str) {
        let dropped = self.length - self.messages.len();
        if dropped > 0 {
            tracing::warn!(server, dropped, "dropping messages of a long batch of MCP server");
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Batch<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(BatchVisitor)
    }
}

struct BatchVisitor;

impl<'de> Visitor<'de> for BatchVisitor {
    type Value = Batch<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Batch<'de>, A::Error> {
        let mut messages = Vec::new();
        while messages.len() < BATCH_MAX {
            let Some(message) = items.next_element()? else { break };
            messages.push(message);
        }

        let mut length = messages.len();
        while items.next_element::<IgnoredAny>()?.is_some() {
            length += 1;
        }
        Ok(Batch { messages, length })
    }
}

/// The messages of a batch that wait for their turn.
#[derive(Debug, Default)]
pub(super) struct BatchQueue(VecDeque<Box<RawValue>>);

impl BatchQueue {
    /// Takes the messages of a text, if it is a batch. False where it is none.
    pub(super) fn try_take(&mut self, server: &str, text: &[u8]) -> bool {
        let Some(batch) = Batch::read(text) else { return false };
        batch.log_dropped(server);
        self.0.extend(batch.messages.into_iter().map(ToOwned::to_owned));
        true
    }

    /// The next of them.
    pub(super) fn next_message(&mut self) -> Option<Box<RawValue>> {
        self.0.pop_front()
    }
}

#[cfg(test)]
mod tests;
