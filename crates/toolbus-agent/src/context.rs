//! What a model is told beside the session: who it is, which tools there are and how to use them.

use std::sync::Arc;

use toolbus_models::message::Message;
use toolbus_models::request::ModelRequest;
use toolbus_search::KnownServices;
use toolbus_tools::{Invoker, Scope};

use crate::tool_lists::{DEFINITIONS_BYTES_DEFAULT, ToolLists};

/// Builds requests of a model.
pub struct ContextBuilder {
    system: Arc<str>,
    tools: ToolLists,
    /// What a turn's hint is searched in.
    services: KnownServices,
}

impl ContextBuilder {
    /// A builder that says this of the agent.
    #[must_use]
    pub fn new(system: impl Into<Arc<str>>) -> Self {
        let services = KnownServices::default();
        let tools = ToolLists::new(DEFINITIONS_BYTES_DEFAULT);
        Self { system: system.into(), tools, services }
    }

    /// The same, which leaves tools out whose definitions are beyond so many bytes, until they were
    /// found by a search.
    #[must_use]
    pub fn with_definitions_max(self, bytes: usize) -> Self {
        Self { tools: ToolLists::new(bytes), ..self }
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
        let tools = match with_tools {
            true => self.tools.list(invoker, scope, &messages),
            false => Arc::default(),
        };
        ModelRequest {
            system: Arc::clone(&self.system),
            messages,
            tools,
            session_key: scope.session.as_ref().map(|session| session.as_str().into()),
            ..ModelRequest::default()
        }
    }
}
