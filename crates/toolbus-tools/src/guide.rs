//! Guides: markdown pages that teach the model to use a group of tools.

use std::sync::Arc;

use parking_lot::RwLock;
use serde_json::json;

use crate::call::{Invocation, Output};
use crate::registry::{self, Registry};
use crate::tool::Tool;

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
    pub fn register(&self, registry: &Registry) -> Result<(), registry::Error> {
        let list = self.clone();
        registry.register(
            Tool::new(
                "list_tool_guides",
                "Lists the guides that explain how to use groups of tools. Read the guide of a \
                 group before you use it for the first time.",
                "guides",
            )
            .read_only()
            .with_alias("ListToolGuides"),
            move |_: Invocation| std::future::ready(Ok(Output::text(list.index()))),
        )?;
        let pages = self.clone();
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
                std::future::ready(Ok(Output::text(pages.page(name.unwrap_or_default()))))
            },
        )
    }

    fn index(&self) -> String {
        let guides = self.guides.read();
        if guides.is_empty() {
            return "No tool guides are registered in this agent.".to_owned();
        }
        let mut text = format!("Available tool guides ({}):", guides.len());
        for guide in guides.iter() {
            text.push_str(&format!("\n- {}: {}", guide.name, guide.summary));
        }
        text
    }

    fn page(&self, name: &str) -> String {
        let guides = self.guides.read();
        match guides.iter().find(|guide| guide.name.eq_ignore_ascii_case(name.trim())) {
            Some(guide) => guide.document.clone(),
            None => {
                let names: Vec<_> = guides.iter().map(|guide| guide.name.as_str()).collect();
                format!("No tool guide named '{name}'. Available guides: {}.", names.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests;
