//! What a server offers: its tools as it lists them, bounded, without those that the operator
//! hides.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;
use toolbus_json::Limits;
use toolbus_mcp_agent::is_method_name;
use toolbus_wire::json::RawJson;
use toolbus_wire::message::mcp::McpToolDetails;

use toolbus_tools::hidden_text::{self, HiddenCounts};
use toolbus_tools::subject::DefinitionDigest;

use crate::tool_filter::{ToolFilter, ToolPattern};
use crate::trust::definition::Definition;
use crate::trust::findings::{Findings, NameFault, quote_name};
use crate::written_definition::WrittenDefinition;

/// Most tools of one server; those after are not taken.
pub const TOOLS_MAX: usize = 10_000;
/// Most pages that one listing may have.
pub const PAGES_MAX: usize = 64;
/// Most bytes of names, descriptions and schemas that are kept of one server.
pub const CATALOGUE_BYTES_MAX: usize = 16 << 20;
/// What the icons of a tool, and its `_meta`, may have to be kept. Some icons are the picture
/// itself.
const BESIDE_LIMITS: Limits = Limits::of_bytes(64 << 10);
/// Longest name of a tool, in bytes, as the protocol has it (SEP-986).
pub const TOOL_NAME_BYTES_MAX: usize = 128;

/// The members of a definition that are shown to people and programs, and not to models.
const ICONS: &str = "icons";
const META: &str = "_meta";
/// The other members that have a field here.
const KNOWN_MEMBERS: [&str; 6] =
    ["name", "title", "description", "inputSchema", "outputSchema", "annotations"];

/// A tool of a server. Texts of JSON are as the server wrote them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
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
    pub(crate) annotations: Option<RawJson>,
    /// Its pictures. They are for people, so they are not part of what is pinned.
    pub(crate) icons: Option<RawJson>,
    /// Its `_meta`, which models are not shown either.
    pub(crate) meta: Option<RawJson>,
    /// What else its definition has, as an object.
    pub(crate) extra: Option<RawJson>,
    /// The server says that running it changes nothing.
    pub(crate) is_read_only: bool,
    /// The server says that running it twice is the same as once, or changes nothing.
    pub(crate) may_repeat: bool,
    /// True if the server declares that the tool deletes or overwrites.
    pub(crate) is_destructive: bool,
}

impl Tool {
    /// The length of what is kept of it, in bytes.
    fn bytes(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let json = |json: &Option<RawJson>| json.as_ref().map_or(0, |json| json.text().len());
        self.name.len()
            + self.description.len()
            + self.parameters_schema.len()
            + text(&self.title)
            + text(&self.output_schema)
            + [&self.annotations, &self.icons, &self.meta, &self.extra]
                .map(json)
                .iter()
                .sum::<usize>()
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
                extra_members: tool.extra.clone(),
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

    pub(crate) fn add_page(&mut self, page: Vec<RawJson>) {
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

    fn add_tool(&mut self, written: &RawJson) {
        let read = WrittenDefinition::read(written).filter(is_tool);
        let Some(read) = read else { return self.mark_cut("a tool that cannot be read") };
        let name = read.text("name").unwrap_or_default();
        if self.catalogue.by_name.contains_key(name) {
            return self.mark_cut("two tools of the same name");
        }

        self.unmatched.retain(|pattern| !pattern.matches(name));
        if !self.filter.permits(name) {
            return;
        }

        let Some((tool, definition)) = self.read_tool(read) else { return };
        let bytes = tool.bytes();
        if self.bytes + bytes > CATALOGUE_BYTES_MAX {
            return self.mark_cut("too many bytes of tools");
        }

        self.bytes += bytes;
        self.catalogue.by_name.insert(tool.name.clone(), self.catalogue.tools.len());
        self.catalogue.definitions.push((tool.name.clone(), definition));
        self.catalogue.tools.push(tool);
    }

    /// Reads a tool and removes hidden text from its texts. `None` if a name contains hidden text,
    /// or if the tool's own name is invalid or that of a protocol method: the tool would have the
    /// subject of reads by this method.
    fn read_tool(&mut self, mut read: WrittenDefinition<'_>) -> Option<(Tool, Definition)> {
        let findings = &mut self.catalogue.findings;
        let mut found = HiddenCounts::default();
        let name = read.text("name").unwrap_or_default().to_owned();
        let place = || format!("tool {}", quote_name(&name));

        if !is_tool_name(&name) {
            findings.refuse(place(), NameFault::Alphabet);
            return None;
        }
        if is_method_name(&name) {
            findings.refuse(place(), NameFault::Method);
            return None;
        }

        let icons = read.take(ICONS).and_then(clean_beside);
        let meta = read.take(META).and_then(clean_beside);
        if !read.clean(&mut found) {
            findings.refuse(place(), NameFault::Hidden);
            return None;
        }

        if !found.is_empty() {
            findings.hidden.push((place(), found));
        }

        let says = |hint| read.get("annotations").and_then(|all| all.get(hint)?.as_bool());
        let is_read_only = says("readOnlyHint") == Some(true);
        let text = |member| read.text(member).map(str::to_owned);
        let json_text = |member| read.written(member).map(|json| json.text().to_owned());
        let tool = Tool {
            title: text("title"),
            description: text("description").unwrap_or_default(),
            parameters_schema: json_text("inputSchema").unwrap_or_default(),
            output_schema: json_text("outputSchema"),
            annotations: read.written("annotations"),
            icons,
            meta,
            extra: read.without(&KNOWN_MEMBERS),
            is_read_only,
            may_repeat: is_read_only || says("idempotentHint") == Some(true),
            is_destructive: says("destructiveHint") == Some(true),
            name,
        };

        Some((tool, read.into_definition()))
    }
}

/// Whether a definition has what the protocol says of every tool.
fn is_tool(read: &WrittenDefinition<'_>) -> bool {
    read.text("name").is_some()
        && read.get("inputSchema").is_some_and(Value::is_object)
        && ["title", "description"].iter().all(|name| read.may_be_text(name))
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

/// What is beside a definition, such as icons or `_meta`, where nothing is hidden in it and it is
/// short.
pub(crate) fn clean_beside(member: RawJson) -> Option<RawJson> {
    let mut value: Value = toolbus_json::from_str(member.text(), &BESIDE_LIMITS).ok()?;
    let mut found = HiddenCounts::default();
    let is_clean = hidden_text::clean_json(&mut value, &mut found) && found.is_empty();
    is_clean.then_some(member)
}

#[cfg(test)]
mod tests;
