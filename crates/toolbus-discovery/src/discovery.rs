//! The catalogue of tools.

use std::sync::Arc;
use std::time::Instant;

use toolbus_search::ToolIndex;
use toolbus_store::LazyStore;
use toolbus_tools::policy::Policy;
use toolbus_tools::{Registry, Scope};

use crate::request::{RetrieveError, RetrieveRequest, Retrieved};

/// What discovery works with.
pub struct DiscoveryDeps {
    /// The tools.
    pub registry: Arc<Registry>,
    /// Says who may call what.
    pub policy: Arc<dyn Policy>,
    /// Finds tools by what they are for.
    pub index: ToolIndex,
    /// Keeps what was learned. `None`: it is forgotten with the process.
    pub store: Option<LazyStore>,
}

/// The catalogue of tools. Clones are the same.
#[derive(Clone)]
pub struct Discovery {
    deps: Arc<DiscoveryDeps>,
}

impl Discovery {
    /// Follows the registry from now on.
    #[must_use]
    pub fn start(deps: DiscoveryDeps) -> Self {
        Self { deps: Arc::new(deps) }
    }

    /// The tools for a task, of those that a caller may use.
    ///
    /// # Errors
    /// When the request is not well-formed.
    pub async fn retrieve(
        &self,
        scope: &Scope,
        request: &RetrieveRequest,
    ) -> Result<Retrieved, RetrieveError> {
        let began = Instant::now();
        let sees = |id: &_| scope.view.sees(id);
        let found = self.deps.index.search(&request.query, request.limit, &sees).await;
        Ok(Retrieved {
            tools: Vec::new(),
            took: began.elapsed(),
            searched: found.searched,
            by_words_alone: found.by_words_alone,
            recommended_servers: Vec::new(),
        })
    }
}
