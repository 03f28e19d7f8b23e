//! The registry: every tool by its name.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use serde_json::{Map, Value};

use crate::schema::{self, Schema};
use crate::tool::{Executor, Tool};

/// Most tools that a registry holds.
pub const TOOLS_MAX: usize = 20_000;

/// Tools by name. Names differ by case. Look-ups do not wait for each other.
#[derive(Default)]
pub struct Registry {
    tools: RwLock<Tools>,
}

#[derive(Default)]
struct Tools {
    by_name: HashMap<String, Arc<Registered>>,
    /// In the order of registration, which is the order in which models see them: a list that
    /// keeps its order keeps its place in prompt caches.
    order: Vec<Arc<Registered>>,
}

/// A tool with what runs it.
pub struct Registered {
    /// The tool.
    pub tool: Tool,
    /// What runs it.
    pub executor: Arc<dyn Executor>,
    /// Its schema, ready to check arguments.
    pub schema: Schema,
}

/// Why a tool was not registered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The name is taken.
    #[error(
        "Tool '{name}' is already registered. It is from '{taken_by}', the new one from '{source_name}'"
    )]
    Duplicate {
        /// The name.
        name: String,
        /// Source of the tool that has it.
        taken_by: String,
        /// Source of the tool that wants it.
        source_name: String,
    },
    /// A tool without a name cannot be called.
    #[error("a tool from '{0}' has no name")]
    NoName(String),
    /// The schema is none.
    #[error("the schema of tool '{name}' cannot be used")]
    Schema {
        /// The tool.
        name: String,
        /// What is wrong.
        #[source]
        source: schema::Error,
    },
    /// The registry is full.
    #[error("there are {TOOLS_MAX} tools already")]
    Full,
}

impl Registered {
    /// How long a call with these arguments may take when the caller does not say.
    #[must_use]
    pub fn budget(&self, arguments: &Map<String, Value>) -> Duration {
        self.executor.timeout(arguments).unwrap_or(self.tool.timeout)
    }
}

impl Registry {
    /// No tools.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool.
    ///
    /// # Errors
    /// When its name or an alias is taken, or its schema cannot be used.
    pub fn register(&self, tool: Tool, executor: impl Executor) -> Result<(), Error> {
        self.register_shared(tool, Arc::new(executor))
    }

    /// Adds a tool whose executor serves other tools as well.
    ///
    /// # Errors
    /// As [`Registry::register`].
    pub fn register_shared(&self, tool: Tool, executor: Arc<dyn Executor>) -> Result<(), Error> {
        if tool.name.is_empty() {
            return Err(Error::NoName(tool.source.into_owned()));
        }
        let schema = Schema::compile(&tool.parameters)
            .map_err(|source| Error::Schema { name: tool.name.clone(), source })?;
        let mut tools = self.tools.write();
        if tools.order.len() >= TOOLS_MAX {
            return Err(Error::Full);
        }
        for name in std::iter::once(&tool.name).chain(&tool.aliases) {
            if let Some(taken) = tools.by_name.get(name) {
                return Err(Error::Duplicate {
                    name: name.clone(),
                    taken_by: taken.tool.source.to_string(),
                    source_name: tool.source.to_string(),
                });
            }
        }
        let registered = Arc::new(Registered { tool, executor, schema });
        for name in std::iter::once(&registered.tool.name).chain(&registered.tool.aliases) {
            tools.by_name.insert(name.clone(), Arc::clone(&registered));
        }
        tools.order.push(registered);
        Ok(())
    }

    /// Removes a tool by its name, and says whether it was there. Calls that run go on.
    pub fn unregister(&self, name: &str) -> bool {
        let mut tools = self.tools.write();
        let Some(gone) = tools.by_name.get(name).cloned().filter(|r| r.tool.name == name) else {
            return false;
        };
        for name in std::iter::once(&gone.tool.name).chain(&gone.tool.aliases) {
            tools.by_name.remove(name);
        }
        tools.order.retain(|registered| !Arc::ptr_eq(registered, &gone));
        true
    }

    /// The tool of this name or alias.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<Arc<Registered>> {
        self.tools.read().by_name.get(name).cloned()
    }

    /// Every tool, in the order of registration.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<Registered>> {
        self.tools.read().order.clone()
    }
}

#[cfg(test)]
mod tests;
