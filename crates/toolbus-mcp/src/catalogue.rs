//! What a server offers: its tools as it lists them, bounded, without those that the operator
//! hides.

use std::collections::{BTreeMap, HashMap};

use rmcp::model::Tool as McpTool;
use serde::Serialize;
use serde_json::{Map, Value};
use toolbus_wire::message::mcp::McpToolDetails;

use toolbus_tools::subject::DefinitionDigest;

use crate::tool_filter::{ToolFilter, ToolPattern};
use crate::trust::definition::Definition;
use crate::trust::findings::{Findings, NameFault, quote_name};
use crate::trust::hidden::{self, HiddenCounts};

/// Most tools of one server; those after are not taken.
pub const TOOLS_MAX: usize = 10_000;
/// Most pages that one listing may have.
pub const PAGES_MAX: usize = 64;
/// Most bytes of names, descriptions and schemas that are kept of one server.
pub const CATALOGUE_BYTES_MAX: usize = 16 << 20;
/// Longest list of the icons of a tool, and longest `_meta`, that is kept, in bytes. Some icons are
/// the picture itself.
const BESIDE_BYTES_MAX: usize = 64 << 10;
/// Longest name of a tool, in bytes, as the protocol has it (SEP-986).
pub const TOOL_NAME_BYTES_MAX: usize = 128;

/// A tool of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tool {
    /// Its name, exactly as the server has it.
    pub(crate) name: String,
    /// What it is called among people.
    pub(crate) title: Option<String>,
    /// What it does; empty when the server does not say.
    pub(crate) description: String,
    /// JSON Schema of its arguments, as text.
    pub(crate) parameters_schema: String,
    /// JSON Schema of the values that it gives, as text.
    pub(crate) output_schema: Option<String>,
    /// What it says of its effects.
    pub(crate) annotations: Option<Value>,
    /// Its pictures. They are for people, so they are not part of what is pinned.
    pub(crate) icons: Option<Value>,
    /// Its `_meta`, which models are not shown either.
    pub(crate) meta: Option<Value>,
    /// The server says that running it twice is the same as once, or changes nothing.
    pub(crate) may_repeat: bool,
}

impl Tool {
    /// The server says that it changes nothing.
    pub(crate) fn is_read_only(&self) -> bool {
        let hint = self.annotations.as_ref().and_then(|declared| declared.get("readOnlyHint"));
        hint.and_then(Value::as_bool) == Some(true)
    }

    /// A digest of the definition that callers decide about.
    fn fingerprint(&self) -> String {
        let output_schema = self.output_schema.as_deref().unwrap_or_default();
        let schemas = [self.parameters_schema.as_str(), output_schema];
        DefinitionDigest::of_texts(&self.name, &self.description, schemas).to_string()
    }
}

/// The tools of one server that may be seen, in the server's order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Catalogue {
    tools: Vec<Tool>,
    by_name: HashMap<String, usize>,
    /// What pins are compared with, until the listing has been looked through.
    definitions: Vec<(String, Definition)>,
    findings: Findings,
}

impl Catalogue {
    /// The tools.
    pub(crate) fn tools(&self) -> impl ExactSizeIterator<Item = &Tool> {
        self.tools.iter()
    }

    /// The tool of exactly this name.
    pub(crate) fn find(&self, name: &str) -> Option<&Tool> {
        self.by_name.get(name).map(|index| &self.tools[*index])
    }

    /// The digest of each tool's definition, by its name.
    pub(crate) fn fingerprints(&self) -> BTreeMap<String, String> {
        self.tools.iter().map(|tool| (tool.name.clone(), tool.fingerprint())).collect()
    }

    /// The names of the tools of which this holds; `None` where there are none.
    pub(crate) fn names_where(&self, holds: impl Fn(&Tool) -> bool) -> Option<Vec<String>> {
        let names: Vec<_> =
            self.tools.iter().filter(|tool| holds(tool)).map(|tool| tool.name.clone()).collect();
        (!names.is_empty()).then_some(names)
    }

    /// The number of tools.
    pub(crate) fn len(&self) -> usize {
        self.tools.len()
    }

    /// The definitions of its tools, which are not kept here.
    pub(crate) fn take_definitions(&mut self) -> Vec<(String, Definition)> {
        std::mem::take(&mut self.definitions)
    }

    /// Takes the findings of the listing itself.
    pub(crate) fn take_findings(&mut self) -> Findings {
        std::mem::take(&mut self.findings)
    }

    /// Hides these tools.
    pub(crate) fn hold_back(&mut self, is_held_back: impl Fn(&str) -> bool) {
        self.tools.retain(|tool| !is_held_back(&tool.name));
        let names = self.tools.iter().map(|tool| tool.name.clone());
        self.by_name = names.enumerate().map(|(index, name)| (name, index)).collect();
    }

    /// The tools as a bridge describes them to agents.
    pub(crate) fn details(&self) -> Vec<McpToolDetails> {
        self.tools()
            .map(|tool| McpToolDetails {
                name: tool.name.clone(),
                description: tool.description.clone(),
                parameters_schema: Some(tool.parameters_schema.clone()),
                title: tool.title.clone(),
                output_schema: tool.output_schema.clone(),
                annotations: tool.annotations.clone(),
                icons: tool.icons.clone(),
                meta: tool.meta.clone(),
            })
            .collect()
    }
}

/// Takes the pages of a listing, one after another, and stops at the limits.
pub(crate) struct Listing<'a> {
    filter: &'a ToolFilter,
    /// What of the filter has matched no tool so far.
    unmatched: Vec<&'a ToolPattern>,
    catalogue: Catalogue,
    taken: usize,
    bytes: usize,
    /// Why the listing is not the whole one, at the first reason.
    pub(crate) cut: Option<&'static str>,
}

impl<'a> Listing<'a> {
    pub(crate) fn new(filter: &'a ToolFilter) -> Self {
        Self {
            filter,
            unmatched: filter.patterns().collect(),
            catalogue: Catalogue::default(),
            taken: 0,
            bytes: 0,
            cut: None,
        }
    }

    pub(crate) fn add_page(&mut self, page: Vec<McpTool>) {
        for tool in page {
            if self.taken == TOOLS_MAX {
                return self.mark_cut("too many tools");
            }
            self.taken += 1;
            self.add_tool(&tool);
        }
    }

    pub(crate) fn mark_cut(&mut self, reason: &'static str) {
        self.cut.get_or_insert(reason);
    }

    pub(crate) fn is_full(&self) -> bool {
        self.taken == TOOLS_MAX || self.bytes > CATALOGUE_BYTES_MAX
    }

    pub(crate) fn finish(mut self) -> Catalogue {
        // What was cut off may have had it.
        if self.cut.is_none() {
            let unmatched = self.unmatched.iter().map(|pattern| pattern.as_str().to_owned());
            unmatched.for_each(|text| self.catalogue.findings.unmatched.push(text));
        }
        self.catalogue
    }

    fn add_tool(&mut self, mcp: &McpTool) {
        if self.catalogue.by_name.contains_key(&*mcp.name) {
            return self.mark_cut("two tools of the same name");
        }

        self.unmatched.retain(|pattern| !pattern.matches(&mcp.name));
        if !self.filter.permits(&mcp.name) {
            return;
        }

        let Some((tool, definition)) = self.read_tool(mcp) else { return };
        let bytes_of = |value: &Option<Value>| value.as_ref().map_or(0, |v| v.to_string().len());
        let bytes = definition.text.len() + bytes_of(&tool.icons) + bytes_of(&tool.meta);
        if self.bytes + bytes > CATALOGUE_BYTES_MAX {
            return self.mark_cut("too many bytes of tools");
        }

        self.bytes += bytes;
        self.catalogue.by_name.insert(tool.name.clone(), self.catalogue.tools.len());
        self.catalogue.definitions.push((tool.name.clone(), definition));
        self.catalogue.tools.push(tool);
    }

    /// Reads a tool without what is hidden in its texts. `None` when something is hidden in a name,
    /// or its own name is none that the protocol has.
    fn read_tool(&mut self, mcp: &McpTool) -> Option<(Tool, Definition)> {
        let says = |hint: Option<bool>| hint == Some(true);
        let hints = mcp.annotations.as_ref();
        let findings = &mut self.catalogue.findings;
        let mut members = definition_members(mcp);
        let mut found = HiddenCounts::default();
        let mut clean = true;

        if !is_tool_name(&mcp.name) {
            findings.refuse(format!("tool {}", quote_name(&mcp.name)), NameFault::Alphabet);
            return None;
        }

        for value in members.values_mut() {
            clean &= hidden::clean_json(value, &mut found);
        }

        if !clean {
            findings.refuse(format!("tool {}", quote_name(&mcp.name)), NameFault::Hidden);
            return None;
        }

        if !found.is_empty() {
            findings.hidden.push((format!("tool {}", quote_name(&mcp.name)), found));
        }

        let text = |member: &str| members.get(member).and_then(Value::as_str).map(str::to_owned);
        let tool = Tool {
            name: mcp.name.to_string(),
            title: text("title"),
            description: text("description").unwrap_or_default(),
            parameters_schema: members["inputSchema"].to_string(),
            output_schema: members.get("outputSchema").map(Value::to_string),
            annotations: members.get("annotations").cloned(),
            icons: clean_beside(mcp.icons.as_ref()),
            meta: clean_beside(mcp.meta.as_ref()),
            may_repeat: hints.is_some_and(|h| says(h.read_only_hint) || says(h.idempotent_hint)),
        };

        Some((tool, Definition::new(members)))
    }
}

/// Whether a tool may be called this, by the protocol (SEP-986, which has the slash, too).
///
/// Names stand in lists that models read, without quotation marks: a sentence must not be one. The
/// programs that call models allow no more, so that servers of another alphabet are hardly of use
/// to anybody.
fn is_tool_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte);
    (1..=TOOL_NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_allowed)
}

/// What is beside a tool's definition, its icons or its `_meta`, where nothing is hidden in it and
/// it is short.
fn clean_beside(member: Option<&impl Serialize>) -> Option<Value> {
    let mut member = serde_json::to_value(member?).ok()?;
    let mut found = HiddenCounts::default();
    let bytes = member.to_string().len();
    let is_clean = hidden::clean_json(&mut member, &mut found) && found.is_empty();
    (is_clean && bytes <= BESIDE_BYTES_MAX).then_some(member)
}

/// The members of a tool's definition. Its icons and what others may make of `_meta` are not shown
/// to models.
fn definition_members(mcp: &McpTool) -> Map<String, Value> {
    let mut members = Map::new();
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            members.insert(name.to_owned(), value);
        }
    };

    set("name", Some(Value::from(&*mcp.name)));
    set("title", mcp.title.clone().map(Value::from));
    set("description", mcp.description.as_deref().map(Value::from));
    set("inputSchema", Some(Value::Object((*mcp.input_schema).clone())));
    set("outputSchema", mcp.output_schema.as_ref().map(|schema| Value::Object((**schema).clone())));

    let annotations = mcp.annotations.as_ref().map(serde_json::to_value);
    set("annotations", annotations.and_then(Result::ok));
    members
}

#[cfg(test)]
mod tests;
