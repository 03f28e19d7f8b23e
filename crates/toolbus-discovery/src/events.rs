//! Events: what is learned from, and kept for whoever looks back.

use serde::{Deserialize, Serialize};
use toolbus_tools::id::ToolId;

/// One execution of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ExecutionEvent {
    /// The tool, by the name that it has at its server.
    pub tool_name: String,
    /// Who provides it.
    pub server: String,
    /// Who called, as rules of the policy name principals.
    pub user_id: String,
    /// When it ended: UTC in ISO 8601.
    pub timestamp: String,
    /// How long the tool ran, by a clock that does not jump.
    pub duration_ms: u64,
    /// `success`, `error` or `timeout`.
    pub status: String,
    /// About how many tokens the arguments are, by the length of their JSON. `None`: it is not
    /// known.
    pub input_tokens: Option<u64>,
    /// About how many tokens the text is that a model is given of the result, by its length.
    /// `None`: there is no result.
    pub output_tokens: Option<u64>,
    /// The code of the error.
    pub error: Option<String>,
}

/// One query of somebody who is known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct QueryEvent {
    /// Its id.
    pub id: String,
    /// Who asked, as rules of the policy name principals.
    pub user_id: String,
    /// What for.
    pub query: String,
    /// Where it came from, such as `api`.
    pub source: String,
    /// The tools that were answered, the best first.
    pub selected_tools: Vec<String>,
    /// The tools that were ranked.
    pub retrieved_tools: Vec<String>,
    /// The factors of each tool that was ranked, by its id, as JSON.
    pub scores: serde_json::Value,
    /// When: UTC in ISO 8601.
    pub created_at: String,
}

/// A moment in UTC, as ISO 8601 writes it.
pub(crate) fn timestamp(unix_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(unix_ms).unwrap_or_default().to_string()
}

/// The server of a tool and the name that the tool has there: `github` and `create_issue` of
/// `mcp:github/create_issue`.
#[must_use]
pub fn split_id(id: &ToolId) -> (&str, &str) {
    let (provider, name) = id.as_str().split_once('/').unwrap_or(("", id.as_str()));
    let prefix = toolbus_tools::id::SERVER_PROVIDER_PREFIX;
    (provider.strip_prefix(prefix).unwrap_or(provider), name)
}
