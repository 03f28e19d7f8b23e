//! What is asked of a server beside calls: a prompt, a page of resources, a resource.
//!
//! All of these read, so one whose outcome is unknown is made again. Answers are bounded as those
//! of calls are, and free of rmcp's types.

use std::borrow::Cow;

use rmcp::model::{
    CompleteRequestParams, GetPromptRequestParams, GetPromptResult, ReadResourceResult, Reference,
    Resource, ResourceContents, ResourceTemplate, Role,
};
use serde_json::{Map, Value};
use toolbus_bus::CallContext;
use toolbus_json::count_values;
use toolbus_tools::hidden_text::{self, HiddenCounts};
use toolbus_wire::json::{RawJson, ValueError};
use toolbus_wire::message::mcp::{
    McpGetPromptResponse, McpListResourcesResponse, McpPromptMessage, McpReadResourceResponse,
    McpResource, McpResourceContents, McpResourceTemplate,
};

use crate::call::{Caller, Naming};
use crate::call_result::{BLOCKS_MAX, RESULT_BYTES_MAX, to_wire};
use crate::method::{Method, read_params};

/// Longest URI or cursor that is passed on to a server, in bytes.
pub(crate) const URI_BYTES_MAX: usize = 64 << 10;
/// Longest params of a request that is relayed, in bytes.
const RELAYED_BYTES_MAX: usize = 8 << 20;
/// Most resources of one page that are passed on, and bytes of them.
const PAGE_MAX: usize = 1_000;
const PAGE_BYTES_MAX: usize = 4 << 20;
/// Most values of a page that is passed on as its server wrote it.
const PAGE_VALUES_MAX: usize = 256 << 10;

/// Who asks for something, and until when.
#[derive(Debug, Clone)]
pub struct Lookup {
    /// The server, in any case.
    pub server: String,
    /// Whether the name is exact, or may be what a model made of it.
    pub naming: Naming,
    /// Who asks.
    pub caller: Caller,
    /// What the lookup brings along. The configuration may grant less time.
    pub context: CallContext,
}

/// What is asked for.
#[derive(Debug, Clone)]
pub(crate) enum ReadRequest {
    Prompt {
        name: String,
        arguments: Map<String, Value>,
    },
    /// The page with this cursor, or the first one with the templates.
    Resources {
        cursor: Option<String>,
    },
    Resource {
        uri: String,
    },
    /// What these params ask for, as their caller wrote them.
    Relay(Method, RawJson),
}

/// What a server gave. Its name and the request's are the caller's to fill in.
#[derive(Debug)]
pub(crate) enum ReadResponse {
    Prompt(McpGetPromptResponse),
    Resources(McpListResourcesResponse),
    Resource(McpReadResourceResponse),
    Relay(RawJson),
}

impl ReadRequest {
    /// The method that asks for it, for people.
    pub(crate) fn method(&self) -> &'static str {
        match self {
            Self::Prompt { .. } => "prompts/get",
            Self::Resources { .. } => "resources/list",
            Self::Resource { .. } => "resources/read",
            Self::Relay(method, _) => method.name(),
        }
    }

    /// The prompt that it is about. Params that name none, or several, are none of their method,
    /// and are not sent.
    pub(crate) fn prompt_name(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Prompt { name, .. } => Some(name.into()),
            Self::Relay(Method::GetPrompt, params) => {
                let params: GetPromptRequestParams = read_params(params).ok()?;
                Some(params.name.into())
            }
            Self::Relay(Method::Complete, params) => {
                let params: CompleteRequestParams = read_params(params).ok()?;
                match params.r#ref {
                    Reference::Prompt(prompt) => Some(prompt.name.into()),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// The longest text of it that a server gets as it is.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Prompt { name, .. } => name.len(),
            Self::Resources { cursor } => cursor.as_ref().map_or(0, String::len),
            Self::Resource { uri } => uri.len(),
            Self::Relay(_, params) => params.text().len().saturating_sub(RELAYED_BYTES_MAX),
        }
    }
}

/// A prompt, whole or an error: a conversation without its end is another one.
pub(crate) fn prompt(result: GetPromptResult) -> Result<McpGetPromptResponse, String> {
    let mut room = RESULT_BYTES_MAX;
    if result.messages.len() > BLOCKS_MAX {
        return Err(format!("the prompt has {} messages, too many", result.messages.len()));
    }

    let mut messages = Vec::new();
    for message in result.messages {
        let block = to_wire(message.content);
        let bytes = crate::call_result::block_bytes(&block);
        room = room.checked_sub(bytes).ok_or("the prompt is too long")?;
        let is_text = block.kind == toolbus_wire::message::tool::ContentKind::Text;
        messages.push(McpPromptMessage {
            role: role_name(&message.role).to_owned(),
            content: block.text.clone(),
            content_type: Some(block.kind.to_string()),
            block: (!is_text).then_some(block),
        });
    }

    Ok(McpGetPromptResponse {
        description: clean_text(result.description),
        messages,
        ..McpGetPromptResponse::default()
    })
}

fn role_name(role: &Role) -> &'static str {
    match role {
        Role::Assistant => "assistant",
        _ => "user",
    }
}

/// The contents of a resource. A text that is too long is cut; other contents that do not fit are
/// left out, and how much is passed on.
pub(crate) fn contents(result: ReadResourceResult) -> McpReadResourceResponse {
    let mut room = RESULT_BYTES_MAX;
    let mut left_out = 0;
    let mut contents = Vec::new();

    for one in result.contents {
        let Some(mut one) = to_contents(one) else { continue };
        let body = one.text.as_ref().or(one.blob.as_ref()).map_or(0, String::len);
        let rest = one.uri.len() + one.mime_type.as_ref().map_or(0, String::len);

        if contents.len() >= BLOCKS_MAX || rest > room {
            left_out += body;
            continue;
        }

        room -= rest;
        if body > room {
            let Some(text) = &mut one.text else {
                left_out += body;
                continue;
            };
            text.truncate(text.floor_char_boundary(room));
            left_out += body - text.len();
        }

        room -= body.min(room);
        contents.push(one);
    }

    McpReadResourceResponse {
        contents,
        left_out_bytes: (left_out > 0).then_some(left_out as u64),
        ..McpReadResourceResponse::default()
    }
}

fn to_contents(contents: ResourceContents) -> Option<McpResourceContents> {
    let empty = McpResourceContents::default();
    match contents {
        ResourceContents::TextResourceContents { uri, mime_type, text, .. } => {
            Some(McpResourceContents { uri, mime_type, text: Some(text), ..empty })
        }
        ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
            Some(McpResourceContents { uri, mime_type, blob: Some(blob), ..empty })
        }
        _ => None,
    }
}

/// One page of resources.
pub(crate) fn page(
    resources: Vec<Resource>,
    templates: Vec<ResourceTemplate>,
    next_cursor: Option<String>,
) -> McpListResourcesResponse {
    let mut room = Room { bytes: PAGE_BYTES_MAX, left_out: 0 };
    let resources = resources.into_iter().map(|resource| {
        is_address(&resource.uri).then(|| McpResource {
            uri: resource.uri,
            name: clean_text(Some(resource.name)).unwrap_or_default(),
            title: clean_text(resource.title),
            description: clean_text(resource.description),
            mime_type: clean_text(resource.mime_type),
            size: resource.size,
        })
    });

    let resources = room.take(resources);
    let templates = templates.into_iter().map(|template| {
        is_address(&template.uri_template).then(|| McpResourceTemplate {
            uri_template: template.uri_template,
            name: clean_text(Some(template.name)).unwrap_or_default(),
            title: clean_text(template.title),
            description: clean_text(template.description),
            mime_type: clean_text(template.mime_type),
        })
    });

    let templates = room.take(templates);
    McpListResourcesResponse {
        resources,
        templates,
        // A server whose cursors are endless ends here.
        next_cursor: next_cursor.filter(|cursor| cursor.len() <= URI_BYTES_MAX),
        left_out: (room.left_out > 0).then_some(room.left_out),
        ..McpListResourcesResponse::default()
    }
}

/// A page of a list as the server wrote it, where nothing is hidden in it; else without that, and
/// without what is listed under an address with something hidden in it.
///
/// # Errors
/// When it has too many values to look through, or one that cannot be read.
pub(crate) fn clean_page(page: RawJson) -> Result<RawJson, ValueError> {
    let mut value = page.to_value(PAGE_VALUES_MAX)?;
    // A member that stands twice is looked at once; another reader may take the other one.
    let values = count_values(RawJson::of(&value).text().as_bytes());
    let mut is_clean = values == count_values(page.text().as_bytes());
    for (list, address) in [("resources", "uri"), ("resourceTemplates", "uriTemplate")] {
        let Some(entries) = value.get_mut(list).and_then(Value::as_array_mut) else { continue };
        let listed = entries.len();
        entries.retain(|entry| entry.get(address).and_then(Value::as_str).is_none_or(is_address));
        is_clean &= entries.len() == listed;
    }

    let mut found = HiddenCounts::default();
    hidden_text::clean_json(&mut value, &mut found);
    Ok(if is_clean && found.is_empty() { page } else { RawJson::of(&value) })
}

struct Room {
    bytes: usize,
    left_out: u32,
}

impl Room {
    /// The entries that there are and that fit.
    fn take<T: serde::Serialize>(&mut self, entries: impl Iterator<Item = Option<T>>) -> Vec<T> {
        let mut taken = Vec::new();
        for entry in entries {
            let bytes = serde_json::to_string(&entry).map_or(usize::MAX, |text| text.len());
            match entry {
                Some(entry) if taken.len() < PAGE_MAX && bytes <= self.bytes => {
                    self.bytes -= bytes;
                    taken.push(entry);
                }
                _ => self.left_out += 1,
            }
        }

        taken
    }
}

/// A text of a server about itself, without what is hidden in it.
fn clean_text(text: Option<String>) -> Option<String> {
    let mut found = HiddenCounts::default();
    text.map(|text| hidden_text::clean_text(&text, &mut found).into_owned())
}

/// Whether a resource can be listed under this: with something hidden in it, what a person sees is
/// not what is read.
fn is_address(uri: &str) -> bool {
    hidden_text::is_clean_name(uri)
}

#[cfg(test)]
mod tests;
