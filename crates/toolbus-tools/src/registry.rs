//! The registry: every tool by its name.
//!
//! Whoever provides tools has a [`Provider`] and publishes its whole offer at once; the registry
//! makes one new [`Snapshot`] of that, and readers keep the one that they have. A tool keeps its
//! place for as long as it is there, because that is the order in which models see them, and a list
//! that keeps its order keeps its place in prompt caches.

mod snapshot;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use toolbus_config::nearest_name;
use toolbus_wire::ErrorCode;

use crate::call::{CallError, Invocation, Output};
use crate::gate;
use crate::id::{self, ToolId, ToolName};
use crate::schema::{self, Schema, Violation, drop_nulls};
use crate::scope::Scope;
use crate::search_text::SearchText;
use crate::subject::{DefinitionDigest, Subject};
use crate::tool::{Executor, Tool};
pub use snapshot::Snapshot;

/// Most tools that a registry holds.
pub const TOOLS_MAX: usize = 20_000;
/// Most arguments that are compared with those of a schema.
const ARGUMENTS_COMPARED_MAX: usize = 100;

/// Tools by name. Names differ by case. Look-ups do not wait for each other, nor for changes that
/// are being made.
pub struct Registry {
    snapshot: RwLock<Arc<Snapshot>>,
    /// Changes are made one after the other; whoever makes one holds this.
    changing: Mutex<()>,
    revision: watch::Sender<u64>,
}

/// A tool that somebody offers, with what runs it.
pub struct Offer {
    /// The tool.
    pub tool: Tool,
    /// What runs it.
    pub executor: Arc<dyn Executor>,
    /// Which tool it is. `None`: the one of this name at its source.
    id: Option<ToolId>,
    /// The digest of its definition. `None`: that of the tool as it is offered.
    definition: Option<DefinitionDigest>,
    /// Whether any object will do as its arguments where its schema cannot be used.
    falls_back_to_any_object: bool,
}

/// A tool in the registry.
#[derive(Clone)]
pub struct ToolEntry {
    /// The tool.
    pub tool: Arc<Tool>,
    /// Which tool it is, whatever it is called by.
    pub id: ToolId,
    /// The digest of its definition.
    pub definition: DefinitionDigest,
    /// Whether it can be called.
    pub state: ToolState,
    /// Every name that it answers to, its own first.
    names: Arc<[Arc<str>]>,
    /// Its schema, ready to check arguments.
    pub(crate) schema: Arc<Schema>,
    /// What it is found by.
    pub(crate) search_text: Arc<SearchText>,
    pub(crate) executor: Arc<dyn Executor>,
    provider: Arc<str>,
}

/// Whether a tool can be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolState {
    /// It can.
    Available,
    /// Whoever runs it cannot be reached for now. It is listed, and calls are refused as
    /// unroutable.
    Away,
}

/// Somebody who offers tools. Its tools are withdrawn when it is dropped; calls that run go on.
pub struct Provider {
    registry: Arc<Registry>,
    name: Arc<str>,
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
    /// The name is none that could be called.
    #[error(transparent)]
    Name(#[from] id::Error),
    /// The schema is none.
    #[error("the schema of tool '{name}' cannot be used")]
    Schema {
        /// The tool.
        name: String,
        /// What is wrong.
        #[source]
        source: schema::Error,
    },
    /// What it says of its kind cannot be used.
    #[error("the kind of tool '{name}' cannot be used: {reason}")]
    Kind {
        /// The tool.
        name: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// The registry is full.
    #[error("there are {TOOLS_MAX} tools already")]
    Full,
}

impl Offer {
    /// This tool, run by that executor.
    #[must_use]
    pub fn new(tool: Tool, executor: impl Executor) -> Self {
        Self::with_shared(tool, Arc::new(executor))
    }

    /// This tool, which the model's provider runs: nobody runs it here, and a gate refuses calls of
    /// it.
    #[must_use]
    pub fn hosted(tool: Tool) -> Self {
        Self::new(tool, |call: Invocation| {
            let text = format!("tool '{}' is not run here", call.tool);
            std::future::ready(Err::<Output, _>(CallError::new(ErrorCode::Denied, text)))
        })
    }

    /// This tool, run by an executor that others have too.
    #[must_use]
    pub fn with_shared(tool: Tool, executor: Arc<dyn Executor>) -> Self {
        Self { tool, executor, id: None, definition: None, falls_back_to_any_object: false }
    }

    /// The same offer of a tool that has this id, whatever it is called here. Without a digest its
    /// definition is what is offered.
    #[must_use]
    pub fn with_identity(self, id: ToolId, definition: Option<DefinitionDigest>) -> Self {
        Self { id: Some(id), definition, ..self }
    }

    /// The same offer, which takes any object as arguments where its schema cannot be used: whoever
    /// runs the tool checks them anyway.
    #[must_use]
    pub fn or_any_object(self) -> Self {
        Self { falls_back_to_any_object: true, ..self }
    }
}

impl ToolEntry {
    /// Checks arguments against the tool's schema.
    ///
    /// # Errors
    /// Everything that is wrong with them.
    pub fn check_arguments(&self, arguments: &Value) -> Result<(), CallError> {
        gate::check_schema(self, arguments)
    }

    /// Reads an offer.
    fn compile(offer: Offer, provider: &Arc<str>) -> Result<Self, Error> {
        let Offer { mut tool, executor, id, definition, falls_back_to_any_object } = offer;
        if tool.name.is_empty() {
            return Err(Error::NoName(tool.source.into_owned()));
        }
        for name in std::iter::once(&tool.name).chain(&tool.aliases) {
            ToolName::parse(name)?;
        }
        tool.kind.check().map_err(|reason| Error::Kind { name: tool.name.clone(), reason })?;

        let compiled = Schema::compile(&tool.parameters).or_else(|error| {
            if !falls_back_to_any_object {
                return Err(error);
            }
            tracing::debug!(tool = tool.name, %error, "any object will do as its arguments");
            tool.parameters = json!({"type": "object"});
            Schema::compile(&tool.parameters)
        });
        let schema =
            compiled.map_err(|source| Error::Schema { name: tool.name.clone(), source })?;

        let names = std::iter::once(&tool.name).chain(&tool.aliases);
        Ok(Self {
            id: id.unwrap_or_else(|| ToolId::of(&tool.source, &tool.name)),
            definition: definition.unwrap_or_else(|| definition_of(&tool)),
            state: ToolState::Available,
            names: names.map(|name| name.as_str().into()).collect(),
            schema: Arc::new(schema),
            search_text: Arc::new(SearchText::of(&tool)),
            executor,
            provider: Arc::clone(provider),
            tool: Arc::new(tool),
        })
    }

    /// The same tool, which models are told of once they have found it.
    #[must_use]
    pub fn deferred(&self) -> Self {
        let tool = Tool { defer: true, ..(*self.tool).clone() };
        Self { tool: Arc::new(tool), ..self.clone() }
    }

    /// Its name.
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.names[0]
    }

    /// What a call of it is about, where its arguments name no other tool.
    #[must_use]
    pub fn subject(&self) -> Subject {
        Subject {
            id: self.id.clone(),
            definition: Some(self.definition.clone()),
            annotations: self.tool.annotations,
            risk: self.tool.risk_at_gates(),
            audience: self.tool.audience.clone(),
        }
    }

    /// Whether a scope sees it: it is in the scope's view, and there for the principal.
    #[must_use]
    pub fn is_seen_by(&self, scope: &Scope) -> bool {
        scope.view.sees(&self.id) && self.tool.audience.has(&scope.principal)
    }

    /// What is wrong with these arguments by the tool's schema, one by one; empty where they fit.
    /// Null for an optional argument is none, as it is for a call.
    #[must_use]
    pub fn violations(&self, arguments: &Value) -> Vec<Violation> {
        let mut arguments = arguments.clone();
        if let Value::Object(arguments) = &mut arguments {
            drop_nulls(&self.tool.parameters, arguments);
        }
        self.schema.check(&arguments).err().unwrap_or_default()
    }

    /// The arguments of these names that the tool's schema does not have, each with the one that
    /// was probably meant, which is not among them. At most 100 are looked at.
    #[must_use]
    pub fn unknown_arguments<'a>(&'a self, given: &[&'a str]) -> Vec<(&'a str, Option<&'a str>)> {
        let declared = self.tool.parameters.get("properties").and_then(Value::as_object);
        let Some(declared) = declared else { return Vec::new() };
        let absent = || declared.keys().map(String::as_str).filter(|name| !given.contains(name));
        let unknown = given.iter().filter(|name| !declared.contains_key(**name));
        unknown
            .take(ARGUMENTS_COMPARED_MAX)
            .map(|name| (*name, nearest_name(name, absent())))
            .collect()
    }

    /// How long a call with these arguments may take when the caller does not say.
    #[must_use]
    pub fn timeout(&self, arguments: &Map<String, Value>) -> Duration {
        self.executor.timeout(arguments).unwrap_or(self.tool.timeout)
    }
}

/// The digest of a tool as it is offered.
fn definition_of(tool: &Tool) -> DefinitionDigest {
    let output_schema = tool.output_schema.as_ref();
    let specs = tool.kind.specs().into_iter().flat_map(|specs| specs.iter().map(|(_, spec)| spec));
    let schemas: Vec<_> =
        std::iter::once(&tool.parameters).chain(output_schema).chain(specs).collect();
    DefinitionDigest::of(&tool.name, &tool.description, &schemas)
}

impl Default for Registry {
    fn default() -> Self {
        Self {
            snapshot: RwLock::default(),
            changing: Mutex::default(),
            revision: watch::Sender::new(0),
        }
    }
}

impl Registry {
    /// No tools.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Somebody who offers tools, by a name that is its alone.
    #[must_use]
    pub fn provider(self: &Arc<Self>, name: impl Into<Arc<str>>) -> Provider {
        Provider { registry: Arc::clone(self), name: name.into() }
    }

    /// Adds one tool that stays for good.
    ///
    /// # Errors
    /// When its name or an alias is taken, or its schema cannot be used.
    pub fn register(&self, tool: Tool, executor: impl Executor) -> Result<(), Error> {
        let entry = ToolEntry::compile(Offer::new(tool, executor), &"".into())?;

        self.change(|snapshot| {
            snapshot.add(Arc::new(entry))?;
            Ok(true)
        })
    }

    /// Says why tools of these names are not there until somebody offers them: calls of them are
    /// unroutable then, for this reason.
    pub fn expect(&self, names: &[&str], why: impl Into<Arc<str>>) {
        let why = why.into();
        let changed = self.change(|snapshot| -> Result<bool, std::convert::Infallible> {
            snapshot.expect(names, &why);
            Ok(false)
        });
        let Ok(()) = changed;
    }

    /// The tools as they are now.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot.read())
    }

    /// The tool of this name or alias.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<Arc<ToolEntry>> {
        self.snapshot.read().find(name).cloned()
    }

    /// Sees the revision of each change. It is made before the revision is seen.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    /// Waits until the tools are as wanted, for as long as it takes.
    pub async fn wait_until(&self, is_enough: impl Fn(&Snapshot) -> bool) {
        let mut changes = self.changes();
        while !is_enough(&self.snapshot()) {
            // The sender is this registry's own, so it is not gone.
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Makes a change on a copy; `work` answers whether anybody can see a difference.
    fn change<E>(&self, work: impl FnOnce(&mut Snapshot) -> Result<bool, E>) -> Result<(), E> {
        let _changing = self.changing.lock();
        let mut snapshot = Snapshot::clone(&self.snapshot());
        let is_visible = work(&mut snapshot)?;

        snapshot.revision += u64::from(is_visible);
        let revision = snapshot.revision;
        *self.snapshot.write() = Arc::new(snapshot);
        if is_visible {
            self.revision.send_replace(revision);
        }
        Ok(())
    }
}

impl Provider {
    /// Makes the provider's tools these: what is new is added, what has changed is replaced where
    /// it stands, what is not among them any more is withdrawn, and every one of them can be
    /// called. Answers which could not be registered, by name, and why; the others are there.
    pub fn publish(&self, offers: Vec<Offer>) -> Vec<(String, Error)> {
        let mut errors = Vec::new();
        let mut entries = Vec::with_capacity(offers.len());
        // Schemas are compiled before anybody is kept waiting.
        for offer in offers {
            let name = offer.tool.name.clone();
            match self.entry(offer) {
                Ok(entry) => entries.push(entry),
                Err(error) => errors.push((name, error)),
            }
        }

        let changed = self.registry.change(|snapshot| -> Result<bool, std::convert::Infallible> {
            let names: HashSet<&str> = entries.iter().map(|entry| &**entry.name()).collect();
            let is_gone =
                |entry: &ToolEntry| entry.provider == self.name && !names.contains(&**entry.name());
            let mut is_visible = snapshot.remove(is_gone);
            for entry in entries {
                let name = entry.tool.name.clone();
                match snapshot.put(entry) {
                    Ok(visible) => is_visible |= visible,
                    Err(error) => errors.push((name, error)),
                }
            }
            Ok(is_visible)
        });
        let Ok(()) = changed;
        errors
    }

    /// Says whether the provider's tools can be called for now.
    pub fn set_state(&self, state: ToolState) {
        let changed = self.registry.change(|snapshot| -> Result<bool, std::convert::Infallible> {
            Ok(snapshot.set_state(&self.name, state))
        });
        let Ok(()) = changed;
    }

    /// The entry of an offer: with the schema that is there already, where the tool has not
    /// changed.
    fn entry(&self, offer: Offer) -> Result<Arc<ToolEntry>, Error> {
        let known = self.registry.find(&offer.tool.name);
        let known = known.filter(|known| known.provider == self.name && *known.tool == offer.tool);
        let Some(known) = known else {
            return ToolEntry::compile(offer, &self.name).map(Arc::new);
        };

        let Offer { tool, executor, id, definition, .. } = offer;
        Ok(Arc::new(ToolEntry {
            id: id.unwrap_or_else(|| ToolId::of(&tool.source, &tool.name)),
            definition: definition.unwrap_or_else(|| definition_of(&tool)),
            executor,
            state: ToolState::Available,
            ..ToolEntry::clone(&known)
        }))
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        drop(self.publish(Vec::new()));
    }
}

#[cfg(test)]
mod tests;
