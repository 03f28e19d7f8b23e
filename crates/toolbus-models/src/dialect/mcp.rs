//! MCP: a tool of a server as the server wrote it, and others in the protocol's words.

use serde_json::{Map, Value, json};
use toolbus_json::Limits;
use toolbus_tools::Tool;

use super::describe;

/// The definition of a tool, as its server wrote it: no larger than all that a server may define.
const DEFINITION_LIMITS: Limits = Limits::of_bytes(16 << 20);

/// The definition of a tool under this name.
pub(super) fn define(tool: &Tool, name: &str) -> Value {
    let written = tool.mcp_definition.as_ref();
    let read = written
        .and_then(|json| toolbus_json::from_str::<Map<_, _>>(json.text(), &DEFINITION_LIMITS).ok());
    match read {
        Some(mut members) => {
            members.insert("name".to_owned(), json!(name));
            Value::Object(members)
        }
        None => own_definition(tool, name),
    }
}

fn own_definition(tool: &Tool, name: &str) -> Value {
    let mut definition = json!({"name": name});
    if let Some(title) = &tool.title {
        definition["title"] = json!(title);
    }
    describe(&mut definition, &tool.description);
    definition["inputSchema"] = of_object(&tool.parameters);
    if let Some(output) = tool.output_schema.as_ref().filter(|schema| schema.is_object()) {
        definition["outputSchema"] = output.clone();
    }
    // What has another form than the protocol's is nothing that a client could read.
    let icons: Vec<_> = tool.icons.iter().filter(|icon| icon["src"].is_string()).collect();
    if !icons.is_empty() {
        definition["icons"] = json!(icons);
    }

    definition["annotations"] = json!({
        "readOnlyHint": tool.annotations.read_only,
        "idempotentHint": tool.annotations.idempotent
    });
    definition
}

/// The schema with the type that the protocol wants to be said. Arguments are an object anyway.
fn of_object(schema: &Value) -> Value {
    let mut schema = schema.clone();
    schema["type"] = json!("object");
    schema
}
