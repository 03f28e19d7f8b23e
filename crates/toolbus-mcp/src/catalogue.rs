//! What a server offers: its tools as it lists them, bounded, without those that the operator hides.

use std::collections::HashMap;

use rmcp::model::Tool as McpTool;
use toolbus_wire::message::mcp::McpToolDetails;

use crate::tool_filter::ToolFilter;

/// Most tools of one server; those after are not taken.
pub const TOOLS_MAX: usize = 10_000;
/// Most pages that one listing may have.
pub const PAGES_MAX: usize = 64;
/// Most bytes of names, descriptions and schemas that are kept of one server.
pub const CATALOGUE_BYTES_MAX: usize = 16 << 20;
/// Longest name of a tool, in bytes. A tool with a longer one is not taken.
pub const TOOL_NAME_BYTES_MAX: usize = 256;

/// A tool of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tool {
    /// Its name, exactly as the server has it.
    pub(crate) name: String,
    /// What it does; empty when the server does not say.
    pub(crate) description: String,
    /// JSON Schema of its arguments, as text.
    pub(crate) parameters_schema: String,
    /// The server says that running it twice is the same as once, or changes nothing.
    pub(crate) may_repeat: bool,
}

/// The tools of one server that may be seen, in the server's order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Catalogue {
    tools: Vec<Tool>,
    by_name: HashMap<String, usize>,
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

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.tools.len()
    }

    /// The tools as a bridge tells about them.
    pub(crate) fn details(&self) -> Vec<McpToolDetails> {
        self.tools()
            .map(|tool| McpToolDetails {
                name: tool.name.clone(),
                description: tool.description.clone(),
                parameters_schema: Some(tool.parameters_schema.clone()),
            })
            .collect()
    }
}

/// Takes the pages of a listing, one after another, and stops at the limits.
pub(crate) struct Listing<'a> {
    filter: &'a ToolFilter,
    catalogue: Catalogue,
    taken: usize,
    bytes: usize,
    /// Why the listing is not the whole one, at the first reason.
    pub(crate) cut: Option<&'static str>,
}

impl<'a> Listing<'a> {
    pub(crate) fn new(filter: &'a ToolFilter) -> Self {
        Self { filter, catalogue: Catalogue::default(), taken: 0, bytes: 0, cut: None }
    }

    pub(crate) fn take(&mut self, page: Vec<McpTool>) {
        for tool in page {
            if self.taken == TOOLS_MAX {
                return self.cut_for("too many tools");
            }
            self.taken += 1;
            self.take_one(&tool);
        }
    }

    pub(crate) fn cut_for(&mut self, reason: &'static str) {
        self.cut.get_or_insert(reason);
    }

    pub(crate) fn is_full(&self) -> bool {
        self.taken == TOOLS_MAX || self.bytes > CATALOGUE_BYTES_MAX
    }

    pub(crate) fn finish(self) -> Catalogue {
        self.catalogue
    }

    fn take_one(&mut self, mcp: &McpTool) {
        if mcp.name.is_empty() || mcp.name.len() > TOOL_NAME_BYTES_MAX {
            return self.cut_for("a tool without a usable name");
        }
        if self.catalogue.by_name.contains_key(&*mcp.name) {
            return self.cut_for("two tools of the same name");
        }
        if !self.filter.permits(&mcp.name) {
            return;
        }
        let tool = read(mcp);
        let bytes = tool.name.len() + tool.description.len() + tool.parameters_schema.len();
        if self.bytes + bytes > CATALOGUE_BYTES_MAX {
            return self.cut_for("too many bytes of tools");
        }
        self.bytes += bytes;
        self.catalogue.by_name.insert(tool.name.clone(), self.catalogue.tools.len());
        self.catalogue.tools.push(tool);
    }
}

fn read(mcp: &McpTool) -> Tool {
    let says = |hint: Option<bool>| hint == Some(true);
    let hints = mcp.annotations.as_ref();
    Tool {
        name: mcp.name.to_string(),
        description: mcp.description.as_deref().unwrap_or_default().to_owned(),
        parameters_schema: serde_json::to_string(&mcp.input_schema)
            .expect("a map of JSON values is always JSON"),
        may_repeat: hints.is_some_and(|h| says(h.read_only_hint) || says(h.idempotent_hint)),
    }
}

#[cfg(test)]
mod tests;
