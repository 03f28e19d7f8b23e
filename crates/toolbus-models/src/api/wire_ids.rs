//! Ids of calls as an API takes them. Sessions go on with other models, and an API may refuse what
//! another one gave out: an id that came twice, or one with characters that it does not know.

use std::collections::{HashMap, HashSet};

use crate::message::{AssistantMessage, ToolResult};

/// Longest id that is sent as it is, in bytes.
const ID_BYTES_MAX: usize = 64;

/// Gives every call of a session an id of its own.
#[derive(Debug, Default)]
pub(crate) struct WireIds {
    taken: HashSet<String>,
    /// What the ids of the last answer's calls became, where they did not stay.
    changed: HashMap<String, String>,
}

impl WireIds {
    /// The ids of an answer's calls, in order.
    pub(crate) fn of_answer(&mut self, answer: &AssistantMessage) -> Vec<String> {
        self.changed.clear();
        let ids: Vec<&str> = answer.calls().map(|call| call.id.as_str()).collect();
        ids.into_iter().map(|id| self.assign(id)).collect()
    }

    /// The id of the call that this is the result of.
    pub(crate) fn of_result(&self, result: &ToolResult) -> String {
        self.changed.get(&result.call_id).unwrap_or(&result.call_id).clone()
    }

    fn assign(&mut self, id: &str) -> String {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        let is_legal = (1..=ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(is_plain);
        if is_legal && self.taken.insert(id.to_owned()) {
            return id.to_owned();
        }

        // The same for the same session, so that prompt caches hold.
        let mut number = self.taken.len() + 1;
        let free = loop {
            let free = format!("toolcall_{number}");
            if self.taken.insert(free.clone()) {
                break free;
            }
            number += 1;
        };
        self.changed.insert(id.to_owned(), free.clone());
        free
    }
}
