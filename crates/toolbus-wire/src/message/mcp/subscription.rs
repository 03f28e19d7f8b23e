//! Subscriptions of resources.
//!
//! A subscription is a request that is not answered while it holds: changes are reported as
//! progress, at the topic that the request names for that, and its first progress says that it
//! holds. It ends as any request does: with its deadline, when it is cancelled, when its caller is
//! gone, or when the server is, which is an answer with an error.

use serde::{Deserialize, Serialize};

use super::McpServerError;
use crate::ErrorCode;
use crate::message::{Message, field};

/// Toolbus extension: asks the bridge that has a server to report changes of a server's resources.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpSubscribeRequest {
    /// The server.
    pub server_name: String,
    /// The resources.
    #[serde(default, deserialize_with = "field::or_default")]
    pub uris: Vec<String>,
}

impl Message for McpSubscribeRequest {
    const TYPE: &'static str = "Toolbus.McpSubscribeRequest";
}

/// Toolbus extension: a subscription has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpSubscribeResponse {
    /// The server, from the request.
    #[serde(default, deserialize_with = "field::or_default")]
    pub server_name: String,
    /// Why.
    pub error: Option<String>,
    /// Toolbus extension: which kind of error it is; absent for [`ErrorCode::ExecutionFailed`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<ErrorCode>,
    /// Toolbus extension: the server's own error, where it answered with one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_error: Option<McpServerError>,
}

impl Message for McpSubscribeResponse {
    const TYPE: &'static str = "Toolbus.McpSubscribeResponse";
}
