//! The arguments of a call, as approvers see them: whole, or shortened with a digest.

use serde_json::{Value, json};
use toolbus_tools::canonical::sha256_hex;

/// Longest arguments that are shown whole, in bytes of their JSON text.
pub const SHOWN_BYTES_MAX: usize = 64 << 10;
/// Bytes shown from the beginning and from the end of longer ones.
const PART_BYTES: usize = 2 << 10;

/// The arguments of a call, as an approver sees them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShownArguments {
    /// All of them, as indented JSON.
    Whole(String),
    /// A shortened view of arguments over [`SHOWN_BYTES_MAX`]. The digest identifies the whole.
    Parts {
        /// Length of the indented JSON.
        bytes: usize,
        /// SHA-256 of the indented JSON, as 64 hexadecimal digits.
        sha256: String,
        /// Its first 2 KiB.
        beginning: String,
        /// Its last 2 KiB.
        end: String,
    },
}

impl ShownArguments {
    /// Creates the view of these arguments.
    #[must_use]
    pub fn of(arguments: &Value) -> Self {
        let text = Self::text_of(arguments);
        if text.len() <= SHOWN_BYTES_MAX {
            return Self::Whole(text);
        }
        let beginning = text[..text.floor_char_boundary(PART_BYTES)].to_owned();
        let end = text[text.ceil_char_boundary(text.len() - PART_BYTES)..].to_owned();
        Self::Parts { bytes: text.len(), sha256: sha256_hex(&text), beginning, end }
    }

    /// Returns the whole text. Sizes and digest are computed from it.
    #[must_use]
    pub fn text_of(arguments: &Value) -> String {
        serde_json::to_string_pretty(arguments).unwrap_or_default()
    }

    /// Returns the text for a person. `whole` says how to get the whole arguments.
    #[must_use]
    pub fn to_text(&self, whole: &str) -> String {
        match self {
            Self::Whole(text) => text.clone(),
            Self::Parts { bytes, sha256, beginning, end } => {
                format!("{beginning}\n… {bytes} bytes in all, SHA-256 {sha256}; {whole} …\n{end}")
            }
        }
    }

    /// Returns the member of a question: `arguments` if they are whole, else `argumentsParts`.
    pub(crate) fn to_member(&self, arguments: &Value) -> (&'static str, Value) {
        match self {
            Self::Whole(_) => ("arguments", arguments.clone()),
            Self::Parts { bytes, sha256, beginning, end } => (
                "argumentsParts",
                json!({"bytes": bytes, "sha256": sha256, "beginning": beginning, "end": end}),
            ),
        }
    }

    /// Reads the member that [`to_member`](Self::to_member) wrote.
    ///
    /// # Errors
    /// When the question has neither.
    pub fn read(question: &Value) -> Result<Self, &'static str> {
        if let Some(arguments) = question.get("arguments") {
            return Ok(Self::of(arguments));
        }
        let parts = &question["argumentsParts"];
        let text = |name: &str| parts[name].as_str().map(str::to_owned);
        let bytes = parts["bytes"].as_u64().and_then(|bytes| usize::try_from(bytes).ok());
        match (bytes, text("sha256"), text("beginning"), text("end")) {
            (Some(bytes), Some(sha256), Some(beginning), Some(end)) => {
                Ok(Self::Parts { bytes, sha256, beginning, end })
            }
            _ => Err("the question has no arguments"),
        }
    }
}

#[cfg(test)]
mod tests;
