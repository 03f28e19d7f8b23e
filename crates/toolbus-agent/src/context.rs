//! What a model is told beside the session: who it is, which tools there are and how to use them.

use std::sync::Arc;

use parking_lot::Mutex;
use toolbus_models::message::Message;
use toolbus_models::request::{ModelRequest, ToolList};
use toolbus_search::KnownServices;
use toolbus_tools::registry::ToolEntry;
use toolbus_tools::{Invoker, Scope};

/// Builds requests of a model.
pub struct ContextBuilder {
    system: Arc<str>,
    /// The last list of tools, which is lowered once for each API.
    tools: Mutex<Option<KeptTools>>,
    /// What a turn's hint is searched in.
    services: KnownServices,
}

/// A list of tools, and what it was made from.
struct KeptTools {
    /// The revision of the registry.
    revision: u64,
    /// What the scope may see.
    names: Vec<String>,
    list: Arc<ToolList>,
}

impl ContextBuilder {
    /// A builder that says this of the agent.
    #[must_use]
    pub fn new(system: impl Into<Arc<str>>) -> Self {
        let services = KnownServices::default();
        Self { system: system.into(), tools: Mutex::new(None), services }
    }

    /// The same, which hints at these services.
    #[must_use]
    pub fn with_services(self, services: KnownServices) -> Self {
        Self { services, ..self }
    }

    /// What a turn is told beside what the user says: the services that fit it best.
    #[must_use]
    pub fn hint(&self, said: &str) -> Option<String> {
        self.services.hint(said)
    }

    /// A request with these messages, with the tools that a scope may see or without any.
    #[must_use]
    pub fn request(
        &self,
        invoker: &Invoker,
        scope: &Scope,
        messages: Vec<Arc<Message>>,
        with_tools: bool,
    ) -> ModelRequest {
        let tools = if with_tools { self.tools(invoker, scope) } else { Arc::default() };
        ModelRequest {
            system: Arc::clone(&self.system),
            messages,
            tools,
            session_key: scope.session.as_ref().map(|session| session.as_str().into()),
            ..ModelRequest::default()
        }
    }

    fn tools(&self, invoker: &Invoker, scope: &Scope) -> Arc<ToolList> {
        let snapshot = invoker.registry().snapshot();
        let seen: Vec<Arc<ToolEntry>> = snapshot.seen_by(&scope.view).cloned().collect();
        let names: Vec<String> = seen.iter().map(|entry| entry.tool.name.clone()).collect();
        let mut kept = self.tools.lock();
        if let Some(kept) = &*kept
            && kept.revision == snapshot.revision()
            && kept.names == names
        {
            return Arc::clone(&kept.list);
        }

        let list = Arc::new(ToolList::new(seen));
        let revision = snapshot.revision();
        *kept = Some(KeptTools { revision, names, list: Arc::clone(&list) });
        list
    }
}
