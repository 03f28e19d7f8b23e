//! The tools of memory, all at once.

use toolbus_store::LazyStore;
use toolbus_tools::Guide;
use toolbus_tools::registry::{self, Registry};

use crate::config::{MemoryConfig, ResultThreshold};
use crate::summaries::Summaries;
use crate::working::WorkingMemory;
use crate::{long_term_tools, skill_tools, working_tools};

/// What the tools of memory are made with.
#[derive(Clone)]
pub struct MemoryDeps {
    /// Keeps it; it knows [`MIGRATIONS`](crate::MIGRATIONS).
    pub store: LazyStore,
    /// What working memory may keep.
    pub config: MemoryConfig,
    /// How much the model of a call reads at a time.
    pub threshold: ResultThreshold,
    /// Sums skills up.
    pub summaries: Summaries,
}

/// Registers the tools of working memory, long-term memory, rules, the time zone and skills.
///
/// # Errors
/// When a name is taken.
pub fn register(registry: &Registry, deps: MemoryDeps) -> Result<(), registry::Error> {
    let MemoryDeps { store, config, threshold, summaries } = deps;
    let working = WorkingMemory::new(store.clone(), config);
    working_tools::register(registry, &working, &threshold)?;
    long_term_tools::register(registry, &store)?;
    skill_tools::register(registry, &store, &summaries)
}

/// The guides to the groups of tools.
#[must_use]
pub fn guides() -> Vec<Guide> {
    vec![working_tools::guide(), long_term_tools::guide(), skill_tools::guide()]
}
