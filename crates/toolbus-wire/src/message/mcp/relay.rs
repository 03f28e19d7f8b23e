//! Requests of MCP clients to MCP servers, as they are written.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::Message;
use crate::json::{self, RawJson};

/// Toolbus extension: has a bridge make a request to a server as an MCP client means it, and bring
/// the answer as the server wrote it.
///
/// What goes wrong at the bridge is a [`ToolError`](crate::message::tool::ToolError); so is a
/// JSON-RPC error of the server, which stands in its details as a
/// [`McpServerError`](super::McpServerError).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpRelayRequest {
    /// Id of the call.
    pub tool_call_id: String,
    /// The server, by the exact name that it is configured by.
    pub server_name: String,
    /// The method, as the protocol names it, such as `tools/call`.
    pub method: String,
    /// Its params, as the client wrote them.
    pub params: RawJson,
}

impl Message for McpRelayRequest {
    const TYPE: &'static str = "Toolbus.McpRelayRequest";
}

/// The result of a [`McpRelayRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpRelayResponse {
    /// Id of the call, from the request.
    pub tool_call_id: String,
    /// The result as the server wrote it, without credentials.
    pub result: RawJson,
}

impl Message for McpRelayResponse {
    const TYPE: &'static str = "Toolbus.McpRelayResponse";
}

impl McpRelayResponse {
    /// Reads a response from its body. The result stays where it is, as long as it may be.
    ///
    /// # Errors
    /// As of [`json::read`].
    pub fn read(body: Bytes) -> Result<Self, json::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Members<'a> {
            tool_call_id: String,
            #[serde(borrow)]
            result: &'a RawValue,
        }

        let mut mistake = None;
        // The same memory, where nobody else has the body.
        let taken = RawJson::take_out(Vec::from(body), |body| {
            let read = json::read_value::<Members<'_>>(body);
            let members = read.map_err(|error| mistake = Some(error)).ok()?;
            Some((members.tool_call_id, members.result))
        });
        match taken {
            Ok((tool_call_id, result)) => Ok(Self { tool_call_id, result }),
            Err(_) => Err(mistake.unwrap_or(json::Error::Null)),
        }
    }
}
