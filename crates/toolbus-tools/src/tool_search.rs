//! `tool_search`: models find tools by a part of their names or descriptions, those too that they
//! are not shown at first ([`Tool::defer`]).
//!
//! It finds what its caller's scope sees and can call by name, and not itself. Texts in lower case
//! are made when a tool is registered, so a search only compares. Where nothing has the text, and
//! somebody can find tools by what they are for ([`FindTools`]), it answers those. What it answers
//! is bounded: what has no room is counted.

use std::sync::{Arc, Weak};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use crate::call::{Invocation, Output};
use crate::registry::{self, Registry, Snapshot, ToolEntry};
use crate::scope::Scope;
use crate::search_text::lower_case;
use crate::tool::Tool;
use crate::tool_spec::function_schema;

/// Its name.
pub const NAME: &str = "tool_search";
/// Longest answer, in bytes.
pub const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Longest query, in characters.
pub const QUERY_CHARS_MAX: usize = 500;

/// Room for what an answer has beside the tools: the query, quoted and escaped, and the count of
/// tools that had no room.
const FRAME_BYTES: usize = 4 << 10;
/// Longest description and longest summary of parameters in a list, in bytes. The schema has all.
const SUMMARY_BYTES_MAX: usize = 1 << 10;

/// In which form tools are told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// A list for reading.
    #[default]
    Text,
    /// JSON with the schema of each.
    Schema,
}

/// Finds tools by what they are for.
pub trait FindTools: Send + Sync + 'static {
    /// The tools for a task that a caller may use, the best first; none where there is none.
    fn find<'a>(&'a self, scope: &'a Scope, task: &'a str) -> BoxFuture<'a, Vec<Arc<ToolEntry>>>;
}

/// Registers the tool. `finder` is asked where no name and no description has the text.
///
/// # Errors
/// When its name is taken.
pub fn register(
    registry: &Arc<Registry>,
    finder: Option<Arc<dyn FindTools>>,
) -> Result<(), registry::Error> {
    // The registry has the tool, so the tool must not have the registry.
    let tools: Weak<Registry> = Arc::downgrade(registry);
    registry.register(definition(), move |call: Invocation| {
        let snapshot = tools.upgrade().map(|registry| registry.snapshot()).unwrap_or_default();
        let finder = finder.clone();
        async move {
            let argument = |name: &str| call.arguments.get(name).and_then(Value::as_str);
            let format = match argument("format") {
                Some("schema") => Format::Schema,
                _ => Format::Text,
            };
            let query = argument("query").unwrap_or_default().trim();
            let scope = &*call.scope;

            if let Some(finder) = finder.filter(|_| !has_match(&snapshot, scope, query)) {
                let mut found = finder.find(scope, query).await;
                found.retain(|entry| is_offered(entry, scope));
                let answer = write(&snapshot, scope, query, format, found.iter());
                return Ok(Output::text(answer));
            }
            Ok(Output::text(search(&snapshot, scope, query, format)))
        }
    })
}

fn definition() -> Tool {
    Tool::new(
        NAME,
        "Finds tools by a part of their names or descriptions, those too that are not listed. \
         Search before you conclude that there is no tool for a task.",
        "tools",
    )
    .read_only()
    .with_parameters(json!({
        "type": "object",
        "properties": {
            "query": {
                "type": "string",
                "maxLength": QUERY_CHARS_MAX,
                "description": "A part of a name or description, in any case. Empty lists all tools"
            },
            "format": {
                "type": "string",
                "enum": ["text", "schema"],
                "default": "text",
                "description": "`text` for a list, `schema` for JSON with the parameters of each"
            }
        }
    }))
}

/// What a search for a query answers to this scope.
#[must_use]
pub fn search(tools: &Snapshot, scope: &Scope, query: &str, format: Format) -> String {
    let query = query.trim();
    write(tools, scope, query, format, matching(tools, scope, query))
}

/// The tools that have a text, in the order of the registry.
fn matching<'a>(
    tools: &'a Snapshot,
    scope: &'a Scope,
    query: &str,
) -> impl Iterator<Item = &'a Arc<ToolEntry>> {
    let wanted = lower_case(query);
    let is_found = move |entry: &&Arc<ToolEntry>| entry.search_text.has(&wanted);
    // Whether a tool is seen takes longer to say than whether it is found.
    tools.tools().iter().filter(is_found).filter(move |entry| is_offered(entry, scope))
}

fn has_match(tools: &Snapshot, scope: &Scope, query: &str) -> bool {
    matching(tools, scope, query).next().is_some()
}

/// What a search answers that has found these tools.
fn write<'a>(
    tools: &Snapshot,
    scope: &Scope,
    query: &str,
    format: Format,
    found: impl Iterator<Item = &'a Arc<ToolEntry>>,
) -> String {
    match format {
        Format::Text => {
            let shown = Shown::collect(found, text_of);
            if shown.count() == 0 {
                return no_match(tools, scope, query);
            }
            to_text(&shown, query)
        }
        Format::Schema => {
            let to_schema = |tool: &Tool| Value::Object(function_schema(tool)).to_string();
            let shown = Shown::collect(found, to_schema);
            let is_empty = shown.count() == 0 && !has_tools(tools, scope);
            to_json(&shown, query, is_empty)
        }
    }
}

/// Whether a scope may find a tool.
fn is_offered(entry: &ToolEntry, scope: &Scope) -> bool {
    entry.tool.kind.is_local() && entry.tool.name != NAME && entry.is_seen_by(scope)
}

fn has_tools(tools: &Snapshot, scope: &Scope) -> bool {
    tools.tools().iter().any(|entry| is_offered(entry, scope))
}

/// The tools that an answer has room for, each in its form, and how many more there are.
struct Shown {
    parts: Vec<String>,
    more: usize,
}

impl Shown {
    /// Takes tools in order until one has no room. One that is too long for any answer is left out.
    fn collect<'a>(
        mut found: impl Iterator<Item = &'a Arc<ToolEntry>>,
        write: impl Fn(&Tool) -> String,
    ) -> Self {
        let mut shown = Self { parts: Vec::new(), more: 0 };
        let mut left = ANSWER_BYTES_MAX - FRAME_BYTES;
        for entry in found.by_ref() {
            let part = write(&entry.tool);
            // With what parts it from the next.
            let bytes = part.len() + 1;
            if bytes <= left {
                left -= bytes;
                shown.parts.push(part);
                continue;
            }
            shown.more += 1;
            if bytes <= ANSWER_BYTES_MAX - FRAME_BYTES {
                break;
            }
        }

        shown.more += found.count();
        shown
    }

    fn count(&self) -> usize {
        self.parts.len() + self.more
    }
}

fn no_match(tools: &Snapshot, scope: &Scope, query: &str) -> String {
    if has_tools(tools, scope) {
        format!("no tools match '{query}'")
    } else {
        "no tools registered".to_owned()
    }
}

fn to_text(shown: &Shown, query: &str) -> String {
    let count = shown.count();
    let noun = if count == 1 { "tool" } else { "tools" };
    let mut text = if query.is_empty() {
        format!("{count} {noun}:")
    } else {
        format!("{count} {noun} for '{query}':")
    };

    for part in &shown.parts {
        text.push('\n');
        text.push_str(part);
    }
    if shown.more > 0 {
        text.push_str(&format!("\n… and {} more: search for less", shown.more));
    }
    text
}

fn to_json(shown: &Shown, query: &str, is_empty: bool) -> String {
    let mut json = format!(r#"{{"tools":[{}],"query":{}"#, shown.parts.join(","), json!(query));
    if shown.more > 0 {
        json.push_str(&format!(r#","more":{}"#, shown.more));
    }
    if is_empty {
        json.push_str(r#","message":"no tools registered""#);
    }
    json.push('}');
    json
}

/// A tool in one line.
fn text_of(tool: &Tool) -> String {
    let name = cut(single_line(&tool.name));
    let description = cut(single_line(&tool.description));
    let parameters = cut(parameters_of(&tool.parameters));
    if description.is_empty() {
        format!("- {name} | {parameters}")
    } else {
        format!("- {name}: {description} | {parameters}")
    }
}

/// The parameters in one line, such as `title (string, req), body (string, opt)`.
fn parameters_of(schema: &Value) -> String {
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let Some(properties) = schema["properties"].as_object().filter(|known| !known.is_empty())
    else {
        return "no parameters".to_owned();
    };

    let mut text = String::new();
    for (name, schema) in properties {
        if text.len() > SUMMARY_BYTES_MAX {
            break;
        }
        if !text.is_empty() {
            text.push_str(", ");
        }
        let need = if required.contains(&name.as_str()) { "req" } else { "opt" };
        text.push_str(&format!("{} ({}, {need})", single_line(name), type_of(schema)));
    }
    text
}

/// The type of a parameter, as far as its schema says it in so many words.
fn type_of(schema: &Value) -> String {
    let types = match &schema["type"] {
        Value::String(one) => return one.clone(),
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect::<Vec<_>>(),
        _ => Vec::new(),
    };
    let branches = ["anyOf", "oneOf"].into_iter().filter_map(|keyword| schema[keyword].as_array());
    let branches = branches.flatten().filter_map(|branch| branch["type"].as_str());
    let types: Vec<_> = types.into_iter().chain(branches).collect();
    if types.is_empty() { "any".to_owned() } else { types.join("|") }
}

fn single_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn cut(mut text: String) -> String {
    if text.len() > SUMMARY_BYTES_MAX {
        text.truncate(text.floor_char_boundary(SUMMARY_BYTES_MAX));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests;
