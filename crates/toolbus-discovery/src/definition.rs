//! Definitions of tools: whether one can be found by what it says of itself, and the text that it
//! is found by.

use serde_json::Value;
use toolbus_json::Limits;
use toolbus_tools::Tool;
use toolbus_tools::id::ToolId;
use toolbus_tools::registry::ToolEntry;

/// Most problems that are reported of one tool.
const TOOL_PROBLEMS_MAX: usize = 8;
/// What a tool's definition in its server's words may have: as many bytes as a message.
const DEFINITION_LIMITS: Limits = Limits::of_bytes(16 << 20);
/// Longest text of parameters that a tool is found by.
const PARAMETERS_BYTES_MAX: usize = 8 << 10;
/// How deep parameters of parameters are read.
const PARAMETERS_DEPTH_MAX: usize = 4;
/// Longest name of a field that is repeated, in bytes.
const NAME_BYTES_MAX: usize = 100;

/// Why a tool cannot be found. It can be called all the same, where the registry has taken it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinitionProblem {
    /// The tool.
    pub tool: ToolId,
    /// The field of its definition, by its name in MCP, such as `inputSchema.required`.
    pub field: &'static str,
    /// What is wrong with it.
    pub problem: String,
}

/// What is wrong with the definition of a tool, if anything. `may_omit_required`: a schema with
/// properties and without `required` means that nothing is.
pub(crate) fn problems_of(entry: &ToolEntry, may_omit_required: bool) -> Vec<DefinitionProblem> {
    let tool = &entry.tool;
    let mut problems = Problems { tool: &entry.id, found: Vec::new() };
    // The registry takes no tool without a name, but one that nobody can read.
    if tool.name.trim().is_empty() {
        problems.add("name", "is missing");
    }
    if tool.description.trim().is_empty() {
        problems.add("description", "is missing");
    }

    if is_replaced_schema(tool) {
        problems.add("inputSchema", "is no JSON Schema that can be used");
        return problems.found;
    }
    check_schema(&tool.parameters, may_omit_required, &mut problems);
    problems.found
}

struct Problems<'a> {
    tool: &'a ToolId,
    found: Vec<DefinitionProblem>,
}

impl Problems<'_> {
    fn add(&mut self, field: &'static str, problem: impl Into<String>) {
        if self.found.len() < TOOL_PROBLEMS_MAX {
            let tool = self.tool.clone();
            self.found.push(DefinitionProblem { tool, field, problem: problem.into() });
        }
    }
}

/// Whether the registry has put any object in place of a schema that it could not read: the
/// server's own definition says something else.
fn is_replaced_schema(tool: &Tool) -> bool {
    let any_object = tool.parameters.as_object().is_some_and(|schema| schema.len() == 1);
    let Some(definition) = tool.mcp_definition.as_ref().filter(|_| any_object) else {
        return false;
    };
    let definition = toolbus_json::from_str::<Value>(definition.text(), &DEFINITION_LIMITS);
    let definition = definition.unwrap_or_default();
    definition.get("inputSchema").is_some_and(|schema| *schema != tool.parameters)
}

fn check_schema(schema: &Value, may_omit_required: bool, problems: &mut Problems<'_>) {
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        problems.add("inputSchema.type", "is not `object`");
    }
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        problems.add("inputSchema.properties", "is missing");
        return;
    };

    match schema.get("required") {
        // Without properties there is nothing that could be required.
        None if properties.is_empty() || may_omit_required => {}
        None => problems.add("inputSchema.required", "is missing"),
        Some(Value::Array(required)) => {
            for name in required {
                match name.as_str() {
                    Some(name) if properties.contains_key(name) => {}
                    Some(name) => {
                        let end = name.floor_char_boundary(NAME_BYTES_MAX);
                        let problem = format!("names '{}', which is no property", &name[..end]);
                        problems.add("inputSchema.required", problem);
                    }
                    None => problems.add("inputSchema.required", "has a value that is no name"),
                }
            }
        }
        Some(_) => problems.add("inputSchema.required", "is no list"),
    }
}

/// Names and descriptions of parameters, as one text.
pub(crate) fn parameter_text(schema: &Value) -> String {
    let mut text = String::new();
    push_parameters(schema, PARAMETERS_DEPTH_MAX, &mut text);
    text.truncate(text.floor_char_boundary(PARAMETERS_BYTES_MAX));
    text
}

fn push_parameters(schema: &Value, depth: usize, text: &mut String) {
    if depth == 0 || text.len() >= PARAMETERS_BYTES_MAX {
        return;
    }

    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        if text.len() >= PARAMETERS_BYTES_MAX {
            return;
        }
        for part in [Some(name.as_str()), property.get("description").and_then(Value::as_str)] {
            let Some(part) = part else { continue };
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(&part[..part.floor_char_boundary(PARAMETERS_BYTES_MAX)]);
        }
        push_parameters(property, depth - 1, text);
    }

    if let Some(items) = schema.get("items") {
        push_parameters(items, depth - 1, text);
    }
}

#[cfg(test)]
mod tests;
