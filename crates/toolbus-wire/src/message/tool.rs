//! Calls of tools and their outcomes.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Message, field};
use crate::json::RawJson;
use crate::{ErrorCode, Execution, json};

/// Longest id of a call and longest name of a tool, in bytes.
pub const ID_BYTES_MAX: usize = 256;

/// Asks for a tool to be run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolInvokeRequest {
    /// Id of the call, any text. Ours are GUIDs; models number theirs anew in each session.
    pub tool_call_id: String,
    /// Name of the tool; at an MCP server, the name that it has there.
    pub tool_name: String,
    /// The arguments, as a text that should be a JSON object. When it is sent as another JSON
    /// value than a string, it is that value's text.
    #[serde(default, deserialize_with = "field::json_text")]
    pub arguments: Option<String>,
    /// Namespace of the caller's session, such as `session/abc`.
    pub session_id: Option<String>,
}

impl Message for ToolInvokeRequest {
    const TYPE: &'static str = "RockBot.Tools.ToolInvokeRequest";
}

/// What a tool answered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolInvokeResponse {
    /// Id of the call, from the request.
    pub tool_call_id: String,
    /// Name of the tool, from the request.
    pub tool_name: String,
    /// The answer as text; absent when there is no text in it.
    pub content: Option<String>,
    /// Whether the tool itself says that it failed.
    #[serde(default, deserialize_with = "field::or_default")]
    pub is_error: bool,
    /// The parts of the answer, when it is more than text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_blocks: Option<Vec<ContentBlock>>,
    /// Ours: the answer as a value, when the tool gives one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<RawJson>,
}

impl Message for ToolInvokeResponse {
    const TYPE: &'static str = "RockBot.Tools.ToolInvokeResponse";
}

/// One part of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContentBlock {
    /// What the part is.
    #[serde(rename = "type")]
    pub kind: ContentKind,
    /// Its text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Its bytes, in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// What the bytes or the text are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Where it can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
}

impl ContentBlock {
    /// The part in words: a text is its own, and anything else is named by what it is.
    #[must_use]
    pub fn to_text(&self) -> Cow<'_, str> {
        if let Some(text) = &self.text {
            return Cow::Borrowed(text);
        }
        let kind = match &self.kind {
            ContentKind::Image => "Image",
            ContentKind::Audio => "Audio",
            ContentKind::Resource => "Resource",
            _ => "Part",
        };
        let which = self.uri.as_deref().or(self.mime_type.as_deref());
        Cow::Owned(format!("[{kind}: {}]", which.unwrap_or("of no known type")))
    }
}

text_enum! {
    /// What a [`ContentBlock`] is.
    pub enum ContentKind {
        /// Text.
        Text = "text",
        /// A picture.
        Image = "image",
        /// Sound.
        Audio = "audio",
        /// A resource, by its place and perhaps with its content.
        Resource = "resource",
    }
}

/// Why a call has no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolError {
    /// Id of the call, from the request; empty when the request had none.
    pub tool_call_id: String,
    /// Name of the tool, from the request; empty when the request had none.
    pub tool_name: String,
    /// What kind of failure it is.
    pub code: ErrorCode,
    /// What went wrong, for the model and for people.
    pub message: String,
    /// Whether the same call may succeed when it is made again.
    #[serde(default, deserialize_with = "field::or_default")]
    pub is_retryable: bool,
    /// Toolbus extension: whether the work was started. Absent from other peers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<Execution>,
    /// Toolbus extension: how long to wait before the call is made again, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// Toolbus extension: what a program may read of the failure, beside the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

impl Message for ToolError {
    const TYPE: &'static str = "RockBot.Tools.ToolError";
}

impl ToolError {
    /// The error that ends a call. It may be retried where its code says so and it says nothing of
    /// a call that was started.
    #[must_use]
    pub fn new(ids: impl Into<CallIds>, code: ErrorCode, message: impl Into<String>) -> Self {
        let CallIds { tool_call_id, tool_name } = ids.into();
        let execution = code.execution();

        Self {
            tool_call_id,
            tool_name,
            is_retryable: code.is_retryable() && execution == Execution::NotStarted,
            code,
            message: message.into(),
            execution: Some(execution),
            retry_after_ms: None,
            details: None,
        }
    }
}

/// What an outcome repeats of its request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallIds {
    /// Id of the call.
    #[serde(default, deserialize_with = "field::text_or_empty")]
    pub tool_call_id: String,
    /// Name of the tool.
    #[serde(default, deserialize_with = "field::text_or_empty")]
    pub tool_name: String,
}

impl CallIds {
    /// Whatever ids there are in the body of a request that may be malformed; the others are empty.
    /// They are cut to [`ID_BYTES_MAX`]: an id without a bound is a way to be malformed.
    #[must_use]
    pub fn of_malformed(body: &[u8]) -> Self {
        json::read_value::<Self>(body).unwrap_or_default().truncate()
    }

    /// The same ids, each cut to [`ID_BYTES_MAX`].
    #[must_use]
    pub fn truncate(mut self) -> Self {
        for id in [&mut self.tool_call_id, &mut self.tool_name] {
            id.truncate(id.floor_char_boundary(ID_BYTES_MAX));
        }
        self
    }
}

impl From<&ToolInvokeRequest> for CallIds {
    fn from(request: &ToolInvokeRequest) -> Self {
        Self { tool_call_id: request.tool_call_id.clone(), tool_name: request.tool_name.clone() }
    }
}
