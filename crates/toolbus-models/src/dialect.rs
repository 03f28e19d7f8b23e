//! Dialects: the same tools, as each API takes their definitions.
//!
//! [`lower`] writes the definitions for one API and keeps what leads back: the name that a model
//! calls is found in a map, never taken apart, and its arguments are raised to what the tool takes.
//! Whatever schema the registry accepts becomes a definition that the API accepts, because APIs
//! refuse a whole request for one tool that they do not understand. What a definition cannot say is
//! left to the gate that checks every call's arguments against the tool's own schema.
//!
//! The order of the tools is that of the toolbox, and what a search finds comes behind, so that a
//! list keeps its place in prompt caches.

#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod keywords;
mod loose;
mod mcp;
mod names;
mod strict;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Value, json};
use toolbus_tools::registry::ToolEntry;
use toolbus_tools::tool_spec::{FunctionSpec, ToolSpec, spec_of};

use loose::PropertyNames;
use names::{NameRule, Names};
use strict::Strict;

/// Longest description of a function that OpenAI's APIs take, in UTF-16 units.
const OPENAI_DESCRIPTION_MAX: usize = 1024;

/// The API that definitions are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// OpenAI's chat completions, and what imitates it.
    OpenAiChat,
    /// OpenAI's responses.
    OpenAiResponses,
    /// Anthropic's messages.
    Anthropic,
    /// MCP's `tools/list`.
    Mcp,
}

/// What becomes of tools that are found by a search only.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Deferral {
    /// They are left out, until a search of our own (`tool_search`) has found them.
    #[default]
    LeftOut,
    /// They are sent with the mark `defer_loading`, and the provider's own search with them. Where
    /// an API has none, they are left out.
    ProviderSearch,
}

/// What is to be listed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Listing<'a> {
    /// What becomes of deferred tools.
    pub deferral: Deferral,
    /// The names of deferred tools that a search has found, in the order in which it did.
    pub found: &'a [String],
}

/// Tools as an API is told of them, and the way back.
#[derive(Debug)]
pub struct LoweredTools {
    definitions: Vec<Value>,
    /// By the name that a model calls.
    calls: HashMap<String, LoweredTool>,
    /// The names that a model calls, by the tools' own.
    model_names: HashMap<String, String>,
    name_rule: NameRule,
}

/// A tool as a model calls it.
#[derive(Debug)]
pub struct LoweredTool {
    name: String,
    raise: Raise,
}

/// What a model's arguments are changed by, to be what the tool takes.
#[derive(Debug)]
enum Raise {
    /// Nothing.
    Nothing,
    /// Nulls stand for what is absent.
    Nulls(Strict),
    /// Members have other names, by those that the model was told.
    Members(HashMap<String, String>),
}

/// The tools in this dialect: the names of all of them lead back, also of those that are not listed
/// now.
#[must_use]
pub fn lower(dialect: Dialect, tools: &[Arc<ToolEntry>], listing: &Listing<'_>) -> LoweredTools {
    let specs = tools.iter().filter_map(|entry| {
        let spec = spec_of(&entry.tool, dialect.provider())?;
        Some((entry, spec))
    });
    let specs: Vec<_> = specs.collect();
    let names = Names::assign(&specs, dialect);

    let is_marked = listing.deferral == Deferral::ProviderSearch && dialect.has_search();
    let mut calls = HashMap::new();
    let mut model_names = HashMap::new();
    let mut definitions = Vec::new();
    let mut found = HashMap::new();
    for (entry, spec) in specs {
        let function = match spec {
            ToolSpec::Provider(provider) => {
                definitions.push(provider.spec);
                continue;
            }
            ToolSpec::Function(function) => function,
        };

        let model_name = names.of(&function.name).to_owned();
        let (definition, raise) = dialect.define(entry, &function, &model_name, is_marked);
        if !function.defer_loading || is_marked {
            definitions.push(definition);
        } else {
            found.insert(function.name.clone(), definition);
        }
        model_names.insert(function.name.clone(), model_name.clone());
        calls.insert(model_name, LoweredTool { name: function.name, raise });
    }

    definitions.extend(listing.found.iter().filter_map(|name| found.remove(name)));
    let is_any_marked = is_marked && tools.iter().any(|entry| entry.tool.defer);
    definitions.extend(dialect.search_tool().filter(|_| is_any_marked));
    LoweredTools { definitions, calls, model_names, name_rule: dialect.name_rule() }
}

impl Dialect {
    /// Every dialect.
    pub const ALL: [Self; 4] =
        [Self::OpenAiChat, Self::OpenAiResponses, Self::Anthropic, Self::Mcp];

    /// What tools call the provider whose API it is.
    #[must_use]
    pub fn provider(self) -> &'static str {
        match self {
            Self::OpenAiChat | Self::OpenAiResponses => "openai",
            Self::Anthropic => "anthropic",
            Self::Mcp => "mcp",
        }
    }

    fn has_search(self) -> bool {
        self.search_tool().is_some()
    }

    /// The search for tools that the provider runs itself.
    fn search_tool(self) -> Option<Value> {
        match self {
            Self::OpenAiChat | Self::Mcp => None,
            Self::OpenAiResponses => Some(json!({"type": "tool_search"})),
            Self::Anthropic => Some(json!({
                "type": "tool_search_tool_bm25_20251119",
                "name": "tool_search_tool_bm25"
            })),
        }
    }

    fn name_rule(self) -> NameRule {
        match self {
            Self::OpenAiChat | Self::OpenAiResponses | Self::Anthropic => {
                NameRule { length_max: 64, has_dots: false }
            }
            Self::Mcp => NameRule { length_max: 128, has_dots: true },
        }
    }

    /// The definition of a tool under this name, and what its arguments are raised by.
    fn define(
        self,
        entry: &ToolEntry,
        function: &FunctionSpec,
        name: &str,
        is_marked: bool,
    ) -> (Value, Raise) {
        match self {
            Self::OpenAiChat => {
                let (function, raise) = openai_function(function, name);
                (json!({"type": "function", "function": function}), raise)
            }
            Self::OpenAiResponses => {
                let (lowered, raise) = openai_function(function, name);
                let mut definition = json!({"type": "function"});
                merge(&mut definition, lowered);
                if function.defer_loading && is_marked {
                    definition["defer_loading"] = Value::Bool(true);
                }
                (definition, raise)
            }
            Self::Anthropic => anthropic_tool(function, name, is_marked),
            Self::Mcp => (mcp::define(&entry.tool, name), Raise::Nothing),
        }
    }
}

/// The members that both of OpenAI's APIs have.
fn openai_function(function: &FunctionSpec, name: &str) -> (Value, Raise) {
    let strict = function.strict.then(|| Strict::lower(&function.parameters)).transpose();
    let strict = strict.unwrap_or_else(|reason| {
        tracing::debug!(tool = function.name, %reason, "defined a tool without strict mode");
        None
    });

    let mut definition = json!({"name": name});
    describe(&mut definition, &cut(&function.description, OPENAI_DESCRIPTION_MAX));
    let Some(strict) = strict else {
        let loose = loose::lower(&function.parameters, PropertyNames::Any);
        definition["parameters"] = loose.schema;
        definition["strict"] = Value::Bool(false);
        return (definition, Raise::Nothing);
    };
    definition["parameters"] = strict.schema().clone();
    definition["strict"] = Value::Bool(true);
    let raise = if strict.needs_raising() { Raise::Nulls(strict) } else { Raise::Nothing };
    (definition, raise)
}

fn anthropic_tool(function: &FunctionSpec, name: &str, is_marked: bool) -> (Value, Raise) {
    let loose = loose::lower(&function.parameters, PropertyNames::Restricted);
    let mut definition = json!({"name": name});
    describe(&mut definition, &function.description);
    definition["input_schema"] = loose.schema;
    if function.defer_loading && is_marked {
        definition["defer_loading"] = Value::Bool(true);
    }
    let raise =
        if loose.renamed.is_empty() { Raise::Nothing } else { Raise::Members(loose.renamed) };
    (definition, raise)
}

impl LoweredTools {
    /// The definitions, in the order in which they are to be sent.
    #[must_use]
    pub fn definitions(&self) -> &[Value] {
        &self.definitions
    }

    /// The tool that a model calls by this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&LoweredTool> {
        self.calls.get(name)
    }

    /// The tool of this name of its own.
    #[must_use]
    pub fn find_own(&self, name: &str) -> Option<&LoweredTool> {
        self.find(self.model_names.get(name)?)
    }

    /// The name that a model calls a tool by, which has this name of its own. One that is not among
    /// the tools, because it is gone or never was, gets a name that the API takes.
    #[must_use]
    pub fn model_name<'a>(&'a self, name: &'a str) -> Cow<'a, str> {
        match self.model_names.get(name) {
            Some(name) => Cow::Borrowed(name),
            None => self.name_rule.legal_name(name),
        }
    }

    /// The names that a model may call, in no order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.calls.keys().map(String::as_str)
    }
}

impl LoweredTool {
    /// The tool's own name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The arguments as the tool takes them, of those that a model wrote. What does not fit the
    /// definition stays as it is, for the gate to refuse.
    #[must_use]
    pub fn raise(&self, mut arguments: Value) -> Value {
        match &self.raise {
            Raise::Nothing => {}
            Raise::Nulls(strict) => strict.raise(&mut arguments),
            Raise::Members(names) => rename_members(&mut arguments, names),
        }
        arguments
    }
}

fn rename_members(arguments: &mut Value, names: &HashMap<String, String>) {
    let Value::Object(members) = arguments else { return };
    let written: HashSet<String> = members.keys().cloned().collect();
    let renamed = std::mem::take(members).into_iter().map(|(name, value)| match names.get(&name) {
        // A model that writes both has the tool's own name count.
        Some(own) if !written.contains(own) => (own.clone(), value),
        _ => (name, value),
    });
    *members = renamed.collect();
}

fn describe(definition: &mut Value, description: &str) {
    if !description.is_empty() {
        definition["description"] = json!(description);
    }
}

/// A text of at most so many UTF-16 units, with a mark where it was cut.
fn cut(text: &str, units_max: usize) -> String {
    if text.encode_utf16().count() <= units_max {
        return text.to_owned();
    }

    let mut left = units_max - 1;
    let fits = |c: &char| {
        let units = c.len_utf16();
        let has_room = units <= left;
        left = left.saturating_sub(units);
        has_room
    };
    text.chars().take_while(fits).chain(['…']).collect()
}

fn merge(into: &mut Value, members: Value) {
    let (Value::Object(into), Value::Object(members)) = (into, members) else { return };
    into.extend(members);
}

#[cfg(test)]
mod tests;
