//! Guides: markdown pages that teach the model to use a group of tools.

use std::collections::HashSet;
use std::sync::{Arc, Weak};

use parking_lot::RwLock;
use serde_json::json;

use crate::call::{Invocation, Output};
use crate::registry::{self, Registry};
use crate::scope::Scope;
use crate::tool::Tool;

/// What the name of a guide may end in, beside the name of its group.
const NAME_ENDINGS: [&str; 3] = ["-tool-guide", "-guide", "-tools"];

/// A page about a group of tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guide {
    /// What it is asked for by, without regard to case.
    pub name: String,
    /// One line.
    pub summary: String,
    /// The page, in markdown.
    pub document: String,
}

/// Every guide there is. Clones are the same guides.
#[derive(Clone, Default)]
pub struct Guides {
    guides: Arc<RwLock<Vec<Guide>>>,
}

impl Guides {
    /// Adds a guide, in place of the one that has its name.
    pub fn add(&self, guide: Guide) {
        let mut guides = self.guides.write();
        guides.retain(|other| !other.name.eq_ignore_ascii_case(&guide.name));
        let at = guides.partition_point(|other| other.name < guide.name);
        guides.insert(at, guide);
    }

    /// Registers the two tools that models read guides with.
    ///
    /// # Errors
    /// When their names are taken.
    pub fn register(&self, registry: &Arc<Registry>) -> Result<(), registry::Error> {
        let list = self.clone();
        // The registry has the tools, so the tools must not have the registry.
        let tools = Arc::downgrade(registry);
        registry.register(
            Tool::new(
                "list_tool_guides",
                "Lists the guides that explain how to use groups of tools. Read the guide of a \
                 group before you use it for the first time.",
                "guides",
            )
            .read_only()
            .with_alias("ListToolGuides"),
            move |call: Invocation| {
                let index = list.index(&SeenGroups::of(&call.scope, &tools));
                std::future::ready(Ok(Output::text(index)))
            },
        )?;

        let pages = self.clone();
        let tools = Arc::downgrade(registry);
        registry.register(
            Tool::new("get_tool_guide", "Returns one guide in full, as markdown.", "guides")
                .read_only()
                .with_alias("GetToolGuide")
                .with_parameters(json!({
                    "type": "object",
                    "properties": {
                        "name": {"type": "string", "description": "Name of the guide, as listed"}
                    },
                    "required": ["name"]
                })),
            move |call: Invocation| {
                let name = call.arguments.get("name").and_then(|name| name.as_str());
                let seen = SeenGroups::of(&call.scope, &tools);
                let page = pages.page(name.unwrap_or_default(), &seen);
                std::future::ready(Ok(Output::text(page)))
            },
        )
    }

    fn index(&self, seen: &SeenGroups) -> String {
        let guides = self.guides.read();
        let guides: Vec<_> = guides.iter().filter(|guide| seen.has_guide(&guide.name)).collect();
        if guides.is_empty() {
            return "No tool guides are registered in this agent.".to_owned();
        }

        let mut text = format!("Available tool guides ({}):", guides.len());
        for guide in guides {
            text.push_str(&format!("\n- {}: {}", guide.name, guide.summary));
        }
        text
    }

    fn page(&self, name: &str, seen: &SeenGroups) -> String {
        let guides = self.guides.read();
        let guides = guides.iter().filter(|guide| seen.has_guide(&guide.name));
        let named = |name: &str| guides.clone().find(|guide| guide.name.eq_ignore_ascii_case(name));
        let asked = name.trim();
        let found = named(asked).or_else(|| named(without_ending(asked)?));
        match found {
            Some(guide) => guide.document.clone(),
            None => {
                let names: Vec<_> = guides.map(|guide| guide.name.as_str()).collect();
                format!("No tool guide named '{name}'. Available guides: {}.", names.join(", "))
            }
        }
    }
}

/// The name of a group, where the name of its guide has one of the endings that RockBot's documents
/// write: `mcp-tool-guide` is the guide to `mcp`, and `web-tools` that to `web`.
fn without_ending(name: &str) -> Option<&str> {
    let lower = name.to_ascii_lowercase();
    let ending = NAME_ENDINGS.iter().find(|ending| lower.ends_with(**ending))?;
    Some(&name[..name.len() - ending.len()])
}

/// The groups of which a caller sees at least one tool: it sees their guides and no others. Where
/// its view has everything, it also sees the guides of groups without tools.
struct SeenGroups {
    seen: HashSet<String>,
    /// Those with tools that are not there for the caller.
    of_others: HashSet<String>,
    is_view_all: bool,
}

impl SeenGroups {
    fn of(scope: &Scope, tools: &Weak<Registry>) -> Self {
        let (mut seen, mut of_others) = (HashSet::new(), HashSet::new());
        let snapshot = tools.upgrade().map(|registry| registry.snapshot()).unwrap_or_default();
        for entry in snapshot.tools() {
            let Some(group) = entry.tool.group.as_deref() else { continue };
            if entry.is_seen_by(scope) {
                seen.insert(group.to_ascii_lowercase());
            } else if !entry.tool.audience.has(&scope.principal) {
                of_others.insert(group.to_ascii_lowercase());
            }
        }

        Self { seen, of_others, is_view_all: scope.view.is_all() }
    }

    fn has_guide(&self, guide: &str) -> bool {
        let group = guide.to_ascii_lowercase();
        self.seen.contains(&group) || (self.is_view_all && !self.of_others.contains(&group))
    }
}

#[cfg(test)]
mod tests;
