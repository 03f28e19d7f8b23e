//! Discovery of tools in this process: what it works with, and what ends with it.

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolbus_discovery::{
    Discovery, DiscoveryDeps, FactorScores, QUERY_CHARS_MAX, RetrieveFilter, RetrieveRequest,
    Retrieved,
};
use toolbus_policy::LivePolicy;
use toolbus_search::{EmbeddingConfig, FITTING_SIMILARITY, ToolIndex};
use toolbus_store::Location;
use toolbus_tools::observe::Observe;
use toolbus_tools::registry::ToolEntry;
use toolbus_tools::tool_search::FindTools;
use toolbus_tools::{CredentialSource, Registry, Scope};

use crate::settings::Settings;
use crate::state::KeptState;
use crate::task_splitter::ModelSplitter;

/// Most tools that a model is told of which looks for some.
const FOUND_MAX: usize = 8;

/// Discovery, and what makes vectors for it.
pub(crate) struct KeptDiscovery {
    discovery: Discovery,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl KeptDiscovery {
    /// Finds the tools that this registry has, and will have, where the settings want that.
    pub(crate) async fn start(
        settings: &Settings,
        registry: Arc<Registry>,
        policy: &LivePolicy,
        state: Option<&KeptState>,
    ) -> Option<Self> {
        if !settings.discovery.enabled {
            return None;
        }
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let vault = state.and_then(|state| state.vault.as_ref());
        let credentials = vault.map(|vault| vault as &dyn CredentialSource);
        let index = match settings.discovery.embeddings.open(credentials).await {
            None => ToolIndex::new(),
            Some(model) => {
                let cache = state.and_then(|state| vectors_file(state.store().location()));
                let config = EmbeddingConfig { cache, ..EmbeddingConfig::default() };
                let (index, embedding) = ToolIndex::with_model(model, config);
                let stopped = stop.clone();
                tasks.spawn(async move { embedding.run(stopped.cancelled_owned()).await });
                index
            }
        };

        let splitter = match settings.discovery.split_with_model {
            true => ModelSplitter::connect(&settings.models, vault),
            false => None,
        };
        let deps = DiscoveryDeps {
            registry,
            policy: Arc::new(policy.clone()),
            index,
            store: state.map(|state| state.store().clone()),
            splitter,
        };
        let config = settings.discovery.config(&settings.schedules.zone);
        Some(Self { discovery: Discovery::start_with(deps, config), stop, tasks })
    }

    /// What hears of calls, to learn from them.
    pub(crate) fn observer(&self) -> Arc<dyn Observe> {
        self.discovery.observer()
    }

    /// What finds tools for models that look for them.
    pub(crate) fn finder(&self) -> Arc<dyn FindTools> {
        Arc::new(ToolFinder(self.discovery.clone()))
    }

    /// What finds tools for what users say.
    pub(crate) fn suggester(&self) -> Arc<dyn FindTools> {
        Arc::new(ToolSuggester(self.discovery.clone()))
    }

    pub(crate) fn handle(&self) -> &Discovery {
        &self.discovery
    }

    /// Writes what was learned, and ends.
    pub(crate) async fn close(&self) {
        self.stop.cancel();
        self.discovery.close().await;
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Finds tools for models.
struct ToolFinder(Discovery);

impl FindTools for ToolFinder {
    fn find<'a>(&'a self, scope: &'a Scope, task: &'a str) -> BoxFuture<'a, Vec<Arc<ToolEntry>>> {
        Box::pin(async move {
            let found = self.0.retrieve(scope, &request_for(task)).await;
            // A query without a word finds nothing.
            found.map(fitting).unwrap_or_default()
        })
    }
}

/// Finds tools for what users say, of which discovery keeps nothing.
struct ToolSuggester(Discovery);

impl FindTools for ToolSuggester {
    fn find<'a>(&'a self, scope: &'a Scope, said: &'a str) -> BoxFuture<'a, Vec<Arc<ToolEntry>>> {
        Box::pin(async move {
            let found = self.0.suggest(scope, &request_for(said)).await;
            found.map(fitting).unwrap_or_default()
        })
    }
}

fn request_for(task: &str) -> RetrieveRequest {
    RetrieveRequest {
        query: task.chars().take(QUERY_CHARS_MAX).collect(),
        limit: FOUND_MAX,
        filter: RetrieveFilter::default(),
        source: "agent".into(),
        debug: true,
    }
}

/// Those that are near enough to what they were looked for.
fn fitting(found: Retrieved) -> Vec<Arc<ToolEntry>> {
    let fits = |factors: FactorScores| factors.similarity >= f64::from(FITTING_SIMILARITY);
    let fitting = found.tools.into_iter().filter(|tool| tool.factors.is_some_and(fits));
    fitting.map(|tool| tool.entry).collect()
}

/// The file of vectors beside a store that is a file.
fn vectors_file(store: &Location) -> Option<PathBuf> {
    match store {
        Location::Sqlite(file) => Some(file.with_extension("vectors")),
        _ => None,
    }
}
