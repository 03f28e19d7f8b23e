//! Outcomes of calls in the protocol's words.
//!
//! An error of the protocol is only what the client's author has to mend: a tool that there is not.
//! Everything else is a result that says it failed, so that the model reads it and can do better.
//! A resource without contents is a link: the bus has no other sign of one.

use rmcp::model::{
    CallToolResult, ContentBlock as Block, ErrorData, MetaObject, Resource, ResourceContents,
};
use serde_json::Map;
use toolbus_mcp_agent::is_error_result;
use toolbus_tools::call::{CallError, Outcome, Output};
use toolbus_wire::ErrorCode;
use toolbus_wire::json::RawJson;
use toolbus_wire::message::mcp::McpServerError;
use toolbus_wire::message::tool::{ContentBlock, ContentKind};

use crate::written_results::ResultSlot;

/// The member of a result's `_meta` that has the error, as it is on the wire.
const ERROR_META: &str = "toolbus/error";
/// The member of a result that has its value.
const VALUE: &str = "structuredContent";

/// Whose errors a client is told as errors of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerErrors {
    /// Those of the one server behind the path: the client speaks with it.
    AsTheyAre,
    /// None: the client speaks with an agent, whose tools reach servers.
    InWords,
}

/// The answer to a call that ended so.
pub(crate) fn to_result(outcome: Outcome, errors: ServerErrors) -> Result<RawJson, ErrorData> {
    let error = match outcome {
        Ok(output) => return Ok(call_result(output)),
        Err(error) => error,
    };
    match server_error(&error) {
        Some(error) if errors == ServerErrors::AsTheyAre || is_incapable(&error) => {
            Err(protocol_error(error))
        }
        _ if error.code == ErrorCode::ToolNotFound => {
            Err(ErrorData::invalid_params(error.message, None))
        }
        _ => Ok(error_result(&error)),
    }
}

/// The server's own error, where it answered with one.
pub(crate) fn server_error(error: &CallError) -> Option<McpServerError> {
    McpServerError::of_details(error.details.as_deref()?)
}

/// Whether the server has to ask something that the client does not answer.
pub(crate) fn is_incapable(error: &McpServerError) -> bool {
    error.code == rmcp::model::ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY.0
}

/// The server's own error, as it told it.
pub(crate) fn protocol_error(error: McpServerError) -> ErrorData {
    ErrorData::new(rmcp::model::ErrorCode(error.code), error.message, error.data)
}

/// The result for a client of the older era, which takes no values but objects.
pub(crate) fn without_bare_values(result: RawJson) -> RawJson {
    match result.member(VALUE) {
        Some(value) if !value.text().starts_with('{') => result.with_member(VALUE, None),
        _ => result,
    }
}

/// What stands in for the result of a tool, which goes into the slot.
pub(crate) fn tool_stand_in(result: RawJson, slot: &ResultSlot) -> CallToolResult {
    let mut stand_in = match is_error_result(&result) {
        true => CallToolResult::error(Vec::new()),
        false => CallToolResult::success(Vec::new()),
    };
    stand_in.meta = Some(slot.keep(result));
    stand_in
}

/// A result that tells of an error: in words for the model, and in [`ERROR_META`] for programs. A
/// structured value would have to be what the tool's output schema says.
pub(crate) fn error_result(error: &CallError) -> RawJson {
    let text = format!("{}: {}", error.code, error.message);
    let mut result = CallToolResult::error(vec![Block::text(text)]);
    result.meta = Some(MetaObject(Map::from_iter([(ERROR_META.to_owned(), error.to_json())])));
    RawJson::of(&result)
}

/// What a server wrote goes as it is. Without blocks the text is all there is; with blocks it is in
/// them. The value goes beside them.
fn call_result(output: Output) -> RawJson {
    if let Some(result) = output.mcp {
        return result;
    }
    let content = if output.blocks.is_empty() {
        output.content.into_iter().map(Block::text).collect()
    } else {
        output.blocks.into_iter().map(to_content_block).collect()
    };
    let result = if output.is_error {
        CallToolResult::error(content)
    } else {
        CallToolResult::success(content)
    };
    let result = RawJson::of(&result);
    match &output.structured {
        Some(value) => result.with_member(VALUE, Some(value)),
        None => result,
    }
}

pub(crate) fn to_content_block(block: ContentBlock) -> Block {
    let ContentBlock { kind, text, data, mime_type, uri } = block;
    let kind_of_data = || mime_type.clone().unwrap_or_else(|| "application/octet-stream".into());
    match (kind, text, data) {
        (ContentKind::Image, _, Some(data)) => Block::image(data, kind_of_data()),
        (ContentKind::Audio, _, Some(data)) => Block::audio(data, kind_of_data()),
        (ContentKind::Resource, text, data) => {
            to_resource_contents(uri.unwrap_or_default(), mime_type, text, data)
        }
        (_, text, _) => Block::text(text.unwrap_or_default()),
    }
}

fn to_resource_contents(
    uri: String,
    mime_type: Option<String>,
    text: Option<String>,
    data: Option<String>,
) -> Block {
    // Not by rmcp's functions, which say that a text without a kind is plain.
    let contents = match (text, data) {
        (Some(text), _) => {
            ResourceContents::TextResourceContents { uri, mime_type, text, meta: None }
        }
        (None, Some(blob)) => {
            ResourceContents::BlobResourceContents { uri, mime_type, blob, meta: None }
        }
        (None, None) => {
            let mut link = Resource::new(uri.clone(), uri);
            link.mime_type = mime_type;
            return Block::resource_link(link);
        }
    };
    Block::resource(contents)
}

#[cfg(test)]
mod tests;
