//! What a model is told beside the session: who it is, which tools there are and how to use them.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use toolbus_models::message::Message;
use toolbus_models::outside::OUTSIDE_EXPLAINED;
use toolbus_models::request::ModelRequest;
use toolbus_search::KnownServices;
use toolbus_tools::tool_search::FindTools;
use toolbus_tools::{ForeignText, Invoker, Scope};

use crate::tool_lists::{DEFINITIONS_BYTES_DEFAULT, ToolLists};

/// How long the tools of a turn's hint are looked for: a turn begins without them then.
const HINT_TIMEOUT: Duration = Duration::from_secs(1);
/// Tools of a hint: it is part of every turn.
const HINT_TOOLS_MAX: usize = 5;
/// Maximum length of a description in a hint, in bytes.
const HINT_DESCRIPTION_BYTES_MAX: usize = 320;
/// Most of a hint that tools take, in bytes.
const HINT_TOOLS_BYTES_MAX: usize = 2 << 10;
/// Maximum length of a hint, in bytes.
const HINT_BYTES_MAX: usize = 8 << 10;

/// Builds requests of a model.
pub struct ContextBuilder {
    system: Arc<str>,
    tools: ToolLists,
    /// What a turn's hint is searched in.
    services: KnownServices,
    /// Finds the tools of a turn's hint.
    finder: Option<Arc<dyn FindTools>>,
}

/// What the tools of a hint stand below.
const TOOLS_HINT: &str = "Potentially relevant tools for this request (tool_search shows those \
                          that are not listed):";

impl ContextBuilder {
    /// Creates a builder with this description of the agent, followed by the explanation of text
    /// from outside.
    #[must_use]
    pub fn new(system: impl AsRef<str>) -> Self {
        let system = system.as_ref().trim_end();
        let system: Arc<str> = match system.is_empty() {
            true => OUTSIDE_EXPLAINED.into(),
            false => format!("{system}\n\n{OUTSIDE_EXPLAINED}").into(),
        };
        let services = KnownServices::default();
        let tools = ToolLists::new(DEFINITIONS_BYTES_DEFAULT);
        Self { system, tools, services, finder: None }
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

    /// The same, which hints at the tools that this finds for what a user says.
    #[must_use]
    pub fn with_tool_finder(self, finder: Option<Arc<dyn FindTools>>) -> Self {
        Self { finder, ..self }
    }

    /// What a turn is told beside what the user says: the services that fit it best, and with a
    /// finder the few matching tools that the caller may use. Their names and descriptions are from
    /// outside.
    pub async fn hint(&self, scope: &Scope, said: &str) -> Option<ForeignText> {
        let services = self.services.hint(said);
        let tools = self.hint_at_tools(scope, said).await;
        let hints: Vec<_> = [services, tools].into_iter().flatten().collect();
        (!hints.is_empty()).then(|| ForeignText::new(&hints.join("\n\n"), HINT_BYTES_MAX))
    }

    async fn hint_at_tools(&self, scope: &Scope, said: &str) -> Option<String> {
        let finder = self.finder.as_ref()?;
        let found = timeout(HINT_TIMEOUT, finder.find(scope, said)).await.unwrap_or_default();

        let mut text = String::new();
        for entry in found.iter().take(HINT_TOOLS_MAX) {
            let tool = &entry.tool;
            let mut line = format!("\n- {}", tool.name);
            let about = ForeignText::line(&tool.description, HINT_DESCRIPTION_BYTES_MAX);
            if !about.is_empty() {
                let _ = write!(line, ": {about}");
            }
            if text.len() + line.len() > HINT_TOOLS_BYTES_MAX {
                break;
            }
            text.push_str(&line);
        }
        (!text.is_empty()).then(|| format!("{TOOLS_HINT}{text}"))
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

#[cfg(test)]
mod tests;
