//! Requests: what a model is asked, whichever it is.

use std::fmt;
use std::sync::{Arc, OnceLock};

use toolbus_tools::registry::ToolEntry;

use crate::dialect::{Deferral, Dialect, Listing, LoweredTools, lower};
use crate::message::Message;

/// What a model is asked. Clones share their messages and tools.
#[derive(Debug, Clone, Default)]
pub struct ModelRequest {
    /// Who the model is and how it works; nothing where it is empty.
    pub system: Arc<str>,
    /// The session so far, from its first message on.
    pub messages: Vec<Arc<Message>>,
    /// The tools that the model may call.
    pub tools: Arc<ToolList>,
    /// Most tokens that it may write; as many as the settings say where it is `None`.
    pub output_tokens_max: Option<u32>,
    /// How freely it chooses its words, from 0 to 2; the API's own where it is `None`. Anthropic's
    /// API takes none.
    pub temperature: Option<f64>,
    /// What requests that begin with the same messages have in common, such as the session's id:
    /// APIs that take one find their prompt cache by it.
    pub session_key: Option<Arc<str>>,
}

/// Tools that a model may call, lowered for each API once, when one first asks. Whoever keeps a
/// list keeps it with the revision of the registry that it was made from.
#[derive(Default)]
pub struct ToolList {
    tools: Vec<Arc<ToolEntry>>,
    /// The names of deferred tools that a search has found, in the order in which it did.
    found: Vec<String>,
    deferral: Deferral,
    lowered: [OnceLock<LoweredTools>; Dialect::ALL.len()],
}

impl ToolList {
    /// These tools, of which those that are deferred are left out.
    #[must_use]
    pub fn new(tools: Vec<Arc<ToolEntry>>) -> Self {
        Self { tools, ..Self::default() }
    }

    /// The same with deferred tools that a search has found, behind the others.
    #[must_use]
    pub fn with_found(self, found: Vec<String>) -> Self {
        Self { found, lowered: Default::default(), ..self }
    }

    /// The same with this become of tools that are deferred.
    #[must_use]
    pub fn with_deferral(self, deferral: Deferral) -> Self {
        Self { deferral, lowered: Default::default(), ..self }
    }

    /// The tools, in their order.
    #[must_use]
    pub fn tools(&self) -> &[Arc<ToolEntry>] {
        &self.tools
    }

    /// The names of deferred tools that a search has found.
    #[must_use]
    pub fn found(&self) -> &[String] {
        &self.found
    }

    /// The tools as this API takes them.
    pub fn lowered(&self, dialect: Dialect) -> &LoweredTools {
        let at = Dialect::ALL.iter().position(|known| *known == dialect).unwrap_or_default();
        self.lowered[at].get_or_init(|| {
            let listing = Listing { deferral: self.deferral, found: &self.found };
            lower(dialect, &self.tools, &listing)
        })
    }
}

impl fmt::Debug for ToolList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.tools.iter().map(|entry| &entry.tool.name);
        f.debug_list().entries(names).finish()
    }
}
