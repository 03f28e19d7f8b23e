//! What an agent and an MCP bridge tell each other about servers.
//!
//! The types of resources have the names that newer C# code gives them; their members are ours, in
//! the style of the others. Of that code, answering questions is not here: a bridge answers it as
//! it does any request that it does not know, see [`unknown_request_response`].

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::tool::ContentBlock;
use super::{Message, Secret, field};
use crate::frame::SHORT_STRING_BYTES_MAX;
use crate::json::RawJson;
use crate::{ErrorCode, Topic};

mod owner;
mod relay;
mod resource;
mod subscription;

pub use owner::*;
pub use relay::*;
pub use resource::*;
pub use subscription::*;

/// Which servers came, changed or went since the last such message: first `removed_servers` are
/// forgotten, then `servers` are put in place, by name without regard to case.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpServersIndexed {
    /// Servers that are there, as they are now.
    pub servers: Vec<McpServerSummary>,
    /// Names of servers that are gone.
    #[serde(default, deserialize_with = "field::or_default")]
    pub removed_servers: Vec<String>,
    /// Toolbus extension: the instance of the bridge that says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bridge: Option<String>,
}

impl Message for McpServersIndexed {
    const TYPE: &'static str = "RockBot.Tools.Mcp.McpServersIndexed";
}

/// An MCP server in few words.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpServerSummary {
    /// Name of the server in the bridge's configuration.
    pub server_name: String,
    /// Name for people.
    pub display_name: Option<String>,
    /// What the server is good for, in a line.
    pub summary: Option<String>,
    /// How many tools it has.
    #[serde(default, deserialize_with = "field::or_default")]
    pub tool_count: u32,
    /// Names of its tools.
    #[serde(default, deserialize_with = "field::or_default")]
    pub tool_names: Vec<String>,
    /// How many prompts it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_count: Option<u32>,
    /// Names of its prompts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_names: Option<Vec<String>>,
    /// Toolbus extension: why it cannot be reached now. What it listed before may still be listed
    /// with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
    /// Toolbus extension: it is being connected for the first time, and is unavailable only until
    /// that has succeeded or failed.
    #[serde(
        default,
        deserialize_with = "field::or_default",
        skip_serializing_if = "field::is_default"
    )]
    pub connecting: bool,
    /// Toolbus extension: how many resources it has, templates of resources included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_count: Option<u32>,
    /// Toolbus extension: what it can do beside giving what it lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub features: Option<Vec<McpFeature>>,
    /// Toolbus extension: how long calls of its tools may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<McpTimeouts>,
    /// Toolbus extension: the topic that takes every request to it, [`McpRelayRequest`]s among
    /// them, at whichever bridge has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_topic: Option<Topic>,
    /// Toolbus extension: which of its lists have changed, by numbers that are others then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revisions: Option<McpRevisions>,
    /// Id that outlives a change of its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_id: Option<String>,
    /// Digest of what it offers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// Digest of each tool, by the tool's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_fingerprints: Option<BTreeMap<String, String>>,
    /// Toolbus extension: the operator added the server. If false, an agent added it or the bridge
    /// does not say, and its tools do not count as read-only.
    #[serde(
        default,
        deserialize_with = "field::or_default",
        skip_serializing_if = "field::is_default"
    )]
    pub operator_added: bool,
    /// Toolbus extension: the tools that say of themselves that they change nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only_tools: Option<Vec<String>>,
    /// Toolbus extension: the tools that say of themselves that running them twice is as once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent_tools: Option<Vec<String>>,
    /// Toolbus extension: the tools that declare that they delete or overwrite.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive_tools: Option<Vec<String>>,
    /// Version that it tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Digest of who it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity_hash: Option<String>,
    /// Whether it may hand calls back to the agent.
    #[serde(
        default,
        deserialize_with = "field::or_default",
        skip_serializing_if = "field::is_default"
    )]
    pub handback: bool,
}

/// How long calls of a server's tools may take, as its bridge grants it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct McpTimeouts {
    /// Of its tools, in milliseconds.
    pub call_ms: u64,
    /// Of single tools, by name; they win.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tools_ms: BTreeMap<String, u64>,
    /// In all, while the server reports progress and the caller allows it to extend the call, in
    /// milliseconds; absent where it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub with_progress_ms: Option<u64>,
}

impl McpTimeouts {
    /// How long a call of this tool may take.
    #[must_use]
    pub fn of_tool(&self, tool: &str) -> Duration {
        Duration::from_millis(self.tools_ms.get(tool).copied().unwrap_or(self.call_ms))
    }
}

/// A number for each list of a server, and for what it says of itself. Nothing but whether it is
/// the same as before means anything. A bridge that was started again has the same numbers for what
/// is the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct McpRevisions {
    /// Of its tools.
    pub tools: u64,
    /// Of its prompts.
    pub prompts: u64,
    /// Of its resources and their templates.
    pub resources: u64,
    /// Of what it says of itself: its name, its instructions and the like.
    pub introduction: u64,
}

text_enum! {
    /// What an MCP server can do beside giving what it lists.
    pub enum McpFeature {
        /// It proposes values for arguments.
        Completions = "completions",
        /// It tells who asks of resources that have changed.
        ResourceSubscriptions = "resourceSubscriptions",
    }
}

/// Asks a bridge to tell its servers again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpMetadataRefreshRequest {
    /// The one server that is asked about; absent for all.
    pub server_name: Option<String>,
    /// Toolbus extension: the instance of the bridge that asks the others what they have. It is
    /// told what is known, and no server is asked for its lists again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bridge: Option<String>,
}

impl Message for McpMetadataRefreshRequest {
    const TYPE: &'static str = "RockBot.Tools.Mcp.McpMetadataRefreshRequest";
}

/// Asks a bridge for all about a server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpGetServiceDetailsRequest {
    /// The server.
    pub server_name: String,
    /// Toolbus extension: asks for a page of its tools, from the one with this index on, instead of
    /// all, which one message may have no room for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools_from: Option<u32>,
}

impl Message for McpGetServiceDetailsRequest {
    const TYPE: &'static str = "RockBot.Tools.Mcp.McpGetServiceDetailsRequest";
}

/// All about a server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpGetServiceDetailsResponse {
    /// The server, from the request.
    pub server_name: String,
    /// Its tools; none when there is an error.
    pub tools: Vec<McpToolDetails>,
    /// Toolbus extension: where the next page of tools begins; absent on the last one. What is no
    /// tool is on the first page only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools_next: Option<u32>,
    /// Why there are no details.
    pub error: Option<String>,
    /// Toolbus extension: which kind of error it is; absent for [`ErrorCode::ExecutionFailed`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<ErrorCode>,
    /// Toolbus extension: the server's own error, where it answered with one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_error: Option<McpServerError>,
    /// Name that the server's program tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub implementation_name: Option<String>,
    /// Name for people that it tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Version that it tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Description that it tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How to use it, for the model, as it tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Toolbus extension: the address of a page about it that it tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub website_url: Option<String>,
    /// Toolbus extension: its pictures, as MCP has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icons: Option<RawJson>,
    /// Its prompts, as the server describes them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompts: Option<Vec<RawJson>>,
    /// Id that outlives a change of its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_id: Option<String>,
    /// Digest of what it offers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// How many resources it has, templates of resources included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_count: Option<u32>,
    /// Toolbus extension: what to know of it beside its own words, such as tools that have changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notices: Option<Vec<String>>,
}

impl Message for McpGetServiceDetailsResponse {
    const TYPE: &'static str = "RockBot.Tools.Mcp.McpGetServiceDetailsResponse";
}

/// A tool of an MCP server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpToolDetails {
    /// Name of the tool.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema of its arguments, as text.
    #[serde(default, deserialize_with = "field::json_text")]
    pub parameters_schema: Option<String>,
    /// Toolbus extension: what it is called among people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Toolbus extension: JSON Schema of the values that it gives, as text.
    #[serde(
        default,
        deserialize_with = "field::json_text",
        skip_serializing_if = "Option::is_none"
    )]
    pub output_schema: Option<String>,
    /// Toolbus extension: what it says of its effects, as MCP has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<RawJson>,
    /// Toolbus extension: its pictures, as MCP has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icons: Option<RawJson>,
    /// Toolbus extension: its `_meta`, for clients that know what is in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meta: Option<RawJson>,
    /// Toolbus extension: what else its definition has, such as `execution`, as an object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra_members: Option<RawJson>,
}

/// Asks a bridge to take a server into its configuration and connect to it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpRegisterServerRequest {
    /// Name that the server gets.
    pub server_name: String,
    /// How it is reached, such as `sse` or `stdio`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Where it is.
    pub url: Option<String>,
    /// The program that is it.
    pub command: Option<String>,
    /// The program's arguments.
    #[serde(default, deserialize_with = "field::or_default")]
    pub args: Vec<String>,
    /// The program's environment.
    #[serde(default, deserialize_with = "field::or_default")]
    pub env: BTreeMap<String, Secret>,
}

impl Message for McpRegisterServerRequest {
    const TYPE: &'static str = "RockBot.Tools.Mcp.McpRegisterServerRequest";
}

/// What came of a [`McpRegisterServerRequest`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpRegisterServerResponse {
    /// The server, from the request.
    pub server_name: String,
    /// Whether it is registered now.
    #[serde(default, deserialize_with = "field::or_default")]
    pub success: bool,
    /// What it offers, in a line.
    pub summary: Option<String>,
    /// Why it is not registered.
    pub error: Option<String>,
    /// Toolbus extension: which kind of error it is; absent for [`ErrorCode::ExecutionFailed`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<ErrorCode>,
    /// Toolbus extension: the server's own error, where it answered with one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_error: Option<McpServerError>,
}

impl Message for McpRegisterServerResponse {
    const TYPE: &'static str = "RockBot.Tools.Mcp.McpRegisterServerResponse";
}

/// Asks a bridge to forget a server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpUnregisterServerRequest {
    /// The server.
    pub server_name: String,
}

impl Message for McpUnregisterServerRequest {
    const TYPE: &'static str = "RockBot.Tools.Mcp.McpUnregisterServerRequest";
}

/// What came of a [`McpUnregisterServerRequest`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpUnregisterServerResponse {
    /// The server, from the request.
    pub server_name: String,
    /// Whether it is gone, or never was there.
    #[serde(default, deserialize_with = "field::or_default")]
    pub success: bool,
    /// Why it is still there.
    pub error: Option<String>,
    /// Toolbus extension: which kind of error it is; absent for [`ErrorCode::ExecutionFailed`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<ErrorCode>,
    /// Toolbus extension: the server's own error, where it answered with one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_error: Option<McpServerError>,
}

impl Message for McpUnregisterServerResponse {
    const TYPE: &'static str = "RockBot.Tools.Mcp.McpUnregisterServerResponse";
}

/// Asks a bridge for a prompt of a server, filled in.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpGetPromptRequest {
    /// The server.
    pub server_name: String,
    /// The prompt.
    pub prompt_name: String,
    /// What it is filled in with.
    #[serde(default, deserialize_with = "field::or_default")]
    pub arguments: Map<String, Value>,
}

impl Message for McpGetPromptRequest {
    const TYPE: &'static str = "RockBot.Tools.Mcp.McpGetPromptRequest";
}

/// A prompt of a server, filled in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpGetPromptResponse {
    /// The server, from the request.
    #[serde(default, deserialize_with = "field::or_default")]
    pub server_name: String,
    /// The prompt, from the request.
    #[serde(default, deserialize_with = "field::or_default")]
    pub prompt_name: String,
    /// What the prompt is for.
    pub description: Option<String>,
    /// The messages that it consists of; none when there is an error.
    #[serde(default, deserialize_with = "field::or_default")]
    pub messages: Vec<McpPromptMessage>,
    /// Why there is no prompt.
    pub error: Option<String>,
    /// Toolbus extension: which kind of error it is; absent for [`ErrorCode::ExecutionFailed`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<ErrorCode>,
    /// Toolbus extension: the server's own error, where it answered with one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_error: Option<McpServerError>,
}

impl Message for McpGetPromptResponse {
    const TYPE: &'static str = "RockBot.Tools.Mcp.McpGetPromptResponse";
}

/// One message of a prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpPromptMessage {
    /// Who says it: `user` or `assistant`.
    #[serde(default, deserialize_with = "field::or_default")]
    pub role: String,
    /// What is said.
    pub content: Option<String>,
    /// What kind of content it is, such as `text`.
    pub content_type: Option<String>,
    /// Toolbus extension: the content itself, when it is more than text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<ContentBlock>,
}

/// Toolbus extension: the JSON-RPC error that an MCP server answered with, for programs to read. A
/// [`ToolError`](super::tool::ToolError) has it in its details, as [`McpServerError::DETAIL`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpServerError {
    /// The code.
    pub code: i32,
    /// The server's text.
    pub message: String,
    /// What the server adds for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl McpServerError {
    /// The member of an error's details that it stands in.
    pub const DETAIL: &'static str = "mcpError";

    /// The details that hold it.
    #[must_use]
    pub fn to_details(&self) -> Value {
        let error = serde_json::to_value(self).unwrap_or_default();
        Value::Object(Map::from_iter([(Self::DETAIL.to_owned(), error)]))
    }

    /// The error that such details hold.
    #[must_use]
    pub fn of_details(details: &Value) -> Option<Self> {
        serde_json::from_value(details.get(Self::DETAIL)?.clone()).ok()
    }
}

/// Toolbus extension: the names that are nearest to one that nobody has, for programs to read; the
/// text names them too. A [`ToolError`](super::tool::ToolError) has them in its details, as
/// [`McpNearestNames::DETAIL`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct McpNearestNames(pub Vec<String>);

impl McpNearestNames {
    /// The member of an error's details that they stand in.
    pub const DETAIL: &'static str = "mcpNearestNames";

    /// The details that hold them.
    #[must_use]
    pub fn to_details(&self) -> Value {
        let names = serde_json::to_value(self).unwrap_or_default();
        Value::Object(Map::from_iter([(Self::DETAIL.to_owned(), names)]))
    }

    /// The names that such details hold.
    #[must_use]
    pub fn of_details(details: &Value) -> Option<Self> {
        serde_json::from_value(details.get(Self::DETAIL)?.clone()).ok()
    }
}

/// A bridge's response to an agent, which can carry an error instead of what was asked for.
pub trait McpResponse: Message + Default {
    /// A response with this error and nothing else.
    #[must_use]
    fn from_error(code: ErrorCode, message: String) -> Self;

    /// The same response with the server's own error.
    #[must_use]
    fn with_server_error(self, error: Option<McpServerError>) -> Self;

    /// The text of its error, or `None` when there is no error.
    fn error_text(&self) -> Option<&str>;

    /// The code of its error, or `None` when there is no error.
    fn error_code(&self) -> Option<ErrorCode>;

    /// The server's own error, where it answered with one.
    fn server_error(&self) -> Option<&McpServerError>;
}

macro_rules! mcp_responses {
    ($($response:ty),+ $(,)?) => {
        $(impl McpResponse for $response {
            fn from_error(code: ErrorCode, message: String) -> Self {
                let error_code = (code != ErrorCode::ExecutionFailed).then_some(code);
                Self { error: Some(message), error_code, ..Self::default() }
            }

            fn with_server_error(self, server_error: Option<McpServerError>) -> Self {
                Self { server_error, ..self }
            }

            fn error_text(&self) -> Option<&str> {
                self.error.as_deref()
            }

            fn server_error(&self) -> Option<&McpServerError> {
                self.server_error.as_ref()
            }

            fn error_code(&self) -> Option<ErrorCode> {
                self.error.as_ref()?;
                Some(self.error_code.clone().unwrap_or(ErrorCode::ExecutionFailed))
            }
        })+
    };
}

mcp_responses![
    McpGetPromptResponse,
    McpGetServiceDetailsResponse,
    McpListResourcesResponse,
    McpReadResourceResponse,
    McpRegisterServerResponse,
    McpSubscribeResponse,
    McpUnregisterServerResponse,
];

/// The answer to a request at `mcp.manage` whose type nobody here knows, and that answer's own
/// type: the request's with `Request` replaced by `Response`.
///
/// So a newer caller gets an error of the form it reads instead of waiting in vain.
#[must_use]
pub fn unknown_request_response(request_type: &str) -> (String, McpGetServiceDetailsResponse) {
    let stem = request_type.strip_suffix("Request").unwrap_or(request_type);
    let response_type = format!("{stem}Response");
    let response = McpGetServiceDetailsResponse {
        error: Some(format!("unknown request type {request_type}")),
        ..McpGetServiceDetailsResponse::default()
    };
    if response_type.len() > SHORT_STRING_BYTES_MAX {
        return (McpGetServiceDetailsResponse::TYPE.to_owned(), response);
    }
    (response_type, response)
}
