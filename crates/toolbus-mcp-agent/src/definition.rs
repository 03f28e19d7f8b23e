//! Definitions of tools for MCP clients, put together from what a bridge tells of them.

use serde_json::{Value, json};
use toolbus_wire::json::RawJson;
use toolbus_wire::message::mcp::McpToolDetails;

/// The definition of a tool as its server wrote it. What has another form than the protocol's is
/// nothing that a client could read, and is left out; a schema of arguments that is none takes
/// everything, for the server itself says what it does not take.
#[must_use]
pub fn definition_of(tool: &McpToolDetails) -> RawJson {
    let text = |text: &str| RawJson::of(&Value::from(text));
    let json = |text: &Option<String>| {
        text.as_ref().and_then(|text| RawJson::parse(text.clone()).ok()).filter(is_object)
    };
    let any_object = || RawJson::of(&json!({"type": "object"}));
    let object = |member: &Option<RawJson>| member.clone().filter(is_object);

    let known = [
        ("name", Some(text(&tool.name))),
        ("title", tool.title.as_deref().map(text)),
        ("description", Some(&*tool.description).filter(|said| !said.is_empty()).map(text)),
        ("inputSchema", Some(json(&tool.parameters_schema).unwrap_or_else(any_object))),
        ("outputSchema", json(&tool.output_schema)),
        ("annotations", object(&tool.annotations)),
        ("icons", tool.icons.clone().filter(|icons| icons.text().starts_with('['))),
        ("_meta", object(&tool.meta)),
    ];

    let extra = tool.extra_members.as_ref().and_then(RawJson::members).unwrap_or_default();
    let is_extra = |name: &str| known.iter().all(|(known, _)| *known != name);
    let extra = extra.into_iter().filter(|(name, _)| is_extra(name));
    let members =
        known.iter().filter_map(|(name, json)| Some(((*name).into(), json.as_ref()?.as_raw())));
    RawJson::of_members(members.chain(extra))
}

fn is_object(json: &RawJson) -> bool {
    json.text().starts_with('{')
}

#[cfg(test)]
mod tests;
