//! Completion of arguments: what a server proposes for a value that somebody has begun.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::McpServerError;
use crate::ErrorCode;
use crate::message::{Message, field};

/// Toolbus extension: asks a bridge what a server proposes for an argument of a prompt, or for a
/// place of a resource template. One of `prompt_name` and `uri_template` is there.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpCompleteRequest {
    /// The server.
    pub server_name: String,
    /// The prompt whose argument it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_name: Option<String>,
    /// The template whose place it is, as RFC 6570 writes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uri_template: Option<String>,
    /// The argument.
    #[serde(default, deserialize_with = "field::or_default")]
    pub argument_name: String,
    /// What there is of its value.
    #[serde(default, deserialize_with = "field::or_default")]
    pub argument_value: String,
    /// The arguments that are decided already, all of them text.
    #[serde(default, deserialize_with = "field::or_default")]
    pub arguments: Map<String, Value>,
}

impl Message for McpCompleteRequest {
    const TYPE: &'static str = "Toolbus.McpCompleteRequest";
}

/// Toolbus extension: what a server proposes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpCompleteResponse {
    /// The server, from the request.
    #[serde(default, deserialize_with = "field::or_default")]
    pub server_name: String,
    /// Values, the best first; at most a hundred, as MCP has it.
    #[serde(default, deserialize_with = "field::or_default")]
    pub values: Vec<String>,
    /// How many there are in all, as far as the server says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u32>,
    /// Whether there are more than these, as far as the server says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_more: Option<bool>,
    /// Why there are none.
    pub error: Option<String>,
    /// Toolbus extension: which kind of error it is; absent for [`ErrorCode::ExecutionFailed`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<ErrorCode>,
    /// Toolbus extension: the server's own error, where it answered with one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_error: Option<McpServerError>,
}

impl Message for McpCompleteResponse {
    const TYPE: &'static str = "Toolbus.McpCompleteResponse";
}
