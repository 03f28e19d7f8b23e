//! Dry runs: what a chain would write.

use parking_lot::Mutex;
use serde_json::{Value, json};

/// Most writes that a dry run lists.
const LISTED_MAX: usize = 200;
/// Longest arguments in the list, in bytes of JSON.
const ARGUMENTS_BYTES_MAX: usize = 2_048;

/// The writes that a dry run has not made.
#[derive(Default)]
pub(crate) struct SkippedWrites(Mutex<Vec<Value>>);

impl SkippedWrites {
    /// Writes down a call, and gives what the chain gets in the place of its result.
    pub(crate) fn skip(&self, tool: &str, arguments: &Value) -> Value {
        let mut skipped = self.0.lock();
        if skipped.len() < LISTED_MAX {
            let written = arguments.to_string();
            let arguments = match written.len() > ARGUMENTS_BYTES_MAX {
                true => json!(format!("{} bytes of arguments", written.len())),
                false => arguments.clone(),
            };
            skipped.push(json!({"tool": tool, "arguments": arguments}));
        }
        json!({"status": "ok", "text": format!("[dry run: {tool} was not run]")})
    }

    /// All of them, in their order.
    pub(crate) fn take(&self) -> Vec<Value> {
        std::mem::take(&mut self.0.lock())
    }
}
