//! Resources of MCP servers: what a server lets be read, beside its tools.

use serde::{Deserialize, Serialize};

use super::McpServerError;
use crate::ErrorCode;
use crate::message::{Message, field};

/// Asks a bridge for one page of a server's resources.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpListResourcesRequest {
    /// The server.
    pub server_name: String,
    /// Which page: `nextCursor` of the page before it, absent for the first.
    pub cursor: Option<String>,
}

impl Message for McpListResourcesRequest {
    const TYPE: &'static str = "RockBot.Tools.Mcp.McpListResourcesRequest";
}

/// One page of a server's resources.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpListResourcesResponse {
    /// The server, from the request.
    #[serde(default, deserialize_with = "field::or_default")]
    pub server_name: String,
    /// The resources of this page; none when there is an error.
    #[serde(default, deserialize_with = "field::or_default")]
    pub resources: Vec<McpResource>,
    /// Templates of resources, all of them with the first page.
    #[serde(default, deserialize_with = "field::or_default")]
    pub templates: Vec<McpResourceTemplate>,
    /// What asks for the next page; absent when this is the last.
    pub next_cursor: Option<String>,
    /// How many entries of this page did not fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<u32>,
    /// Why there is no page.
    pub error: Option<String>,
    /// Toolbus extension: which kind of error it is; absent for [`ErrorCode::ExecutionFailed`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<ErrorCode>,
    /// Toolbus extension: the server's own error, where it answered with one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_error: Option<McpServerError>,
}

impl Message for McpListResourcesResponse {
    const TYPE: &'static str = "RockBot.Tools.Mcp.McpListResourcesResponse";
}

/// Something that a server lets be read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpResource {
    /// What it is read by.
    pub uri: String,
    /// Its name.
    #[serde(default, deserialize_with = "field::or_default")]
    pub name: String,
    /// Its name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What its bytes are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// How many they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

/// A kind of resource whose URI has places to fill in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpResourceTemplate {
    /// The URI with its places, as RFC 6570 writes them.
    pub uri_template: String,
    /// Its name.
    #[serde(default, deserialize_with = "field::or_default")]
    pub name: String,
    /// Its name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What the bytes are of every one of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
}

/// Asks a bridge for the contents of a resource.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpReadResourceRequest {
    /// The server.
    pub server_name: String,
    /// The resource.
    pub uri: String,
}

impl Message for McpReadResourceRequest {
    const TYPE: &'static str = "RockBot.Tools.Mcp.McpReadResourceRequest";
}

/// The contents of a resource.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpReadResourceResponse {
    /// The server, from the request.
    #[serde(default, deserialize_with = "field::or_default")]
    pub server_name: String,
    /// The resource, from the request.
    #[serde(default, deserialize_with = "field::or_default")]
    pub uri: String,
    /// Its contents, one or several; none when there is an error.
    #[serde(default, deserialize_with = "field::or_default")]
    pub contents: Vec<McpResourceContents>,
    /// How many bytes did not fit: of texts that are cut, and of contents that are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out_bytes: Option<u64>,
    /// Why there are none.
    pub error: Option<String>,
    /// Toolbus extension: which kind of error it is; absent for [`ErrorCode::ExecutionFailed`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<ErrorCode>,
    /// Toolbus extension: the server's own error, where it answered with one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_error: Option<McpServerError>,
}

impl Message for McpReadResourceResponse {
    const TYPE: &'static str = "RockBot.Tools.Mcp.McpReadResourceResponse";
}

/// One of the contents of a resource: text or bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpResourceContents {
    /// What it is read by.
    pub uri: String,
    /// What the text or the bytes are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The bytes, in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
}
