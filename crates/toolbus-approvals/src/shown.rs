//! What an approver is shown of the arguments of a call.

use serde_json::{Value, json};
use toolbus_tools::canonical::sha256_hex;

/// Longest arguments that are shown whole, in bytes of their JSON text.
pub const SHOWN_BYTES_MAX: usize = 64 << 10;
/// Bytes of the beginning and of the end that are shown of longer ones.
const PART_BYTES: usize = 2 << 10;

/// The arguments of a call, as an approver is shown them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShownArguments {
    /// All of them, as indented JSON.
    Whole(String),
    /// Of arguments longer than [`SHOWN_BYTES_MAX`], enough to compare them with a copy.
    Parts {
        /// How long their indented JSON is.
        bytes: usize,
        /// The SHA-256 of that, as 64 hexadecimal digits.
        sha256: String,
        /// Its first 2 KiB.
        beginning: String,
        /// Its last 2 KiB.
        end: String,
    },
}

impl ShownArguments {
    /// What is shown of these.
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

    /// The whole text, of which the sizes and the digest are.
    #[must_use]
    pub fn text_of(arguments: &Value) -> String {
        serde_json::to_string_pretty(arguments).unwrap_or_default()
    }

    /// For a person, who is told by `whole` where the rest is.
    #[must_use]
    pub fn to_text(&self, whole: &str) -> String {
        match self {
            Self::Whole(text) => text.clone(),
            Self::Parts { bytes, sha256, beginning, end } => {
                format!("{beginning}\n… {bytes} bytes in all, SHA-256 {sha256}; {whole} …\n{end}")
            }
        }
    }

    /// As a member of a question: `arguments` where they are whole, `argumentsParts` where not.
    pub(crate) fn to_member(&self, arguments: &Value) -> (&'static str, Value) {
        match self {
            Self::Whole(_) => ("arguments", arguments.clone()),
            Self::Parts { bytes, sha256, beginning, end } => (
                "argumentsParts",
                json!({"bytes": bytes, "sha256": sha256, "beginning": beginning, "end": end}),
            ),
        }
    }

    /// What [`to_member`](Self::to_member) has made of them, in a question.
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
