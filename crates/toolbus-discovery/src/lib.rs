//! Which tools there are for a task.
//!
//! [`Discovery`] follows the registry, keeps an index of what a caller may find, ranks by what is
//! known of each tool, and learns from each call. What a caller may not use is found nowhere: not
//! in answers, counts, factors or candidates.
//!
//! No call and no query waits for what is learned of it: [`Discovery::observer`] puts what it hears
//! into a bounded queue. Everything that is kept is bounded; the least used falls out first.

mod cache;
mod catalogue;
mod category;
mod config;
mod definition;
mod discovery;
mod events;
mod keeper;
mod learned;
mod ledger;
mod lifecycle;
mod lifecycle_watch;
mod listing;
pub mod metrics;
mod query_text;
mod ranking;
mod recorder;
mod request;
mod retrieval;
mod rows;
mod splitting;
mod statistics;
mod tables;
mod targets;
mod verdict;

pub use category::Category;
pub use config::{Clock, DiscoveryConfig, DiscoveryLimits, KnownServer};
pub use definition::DefinitionProblem;
pub use discovery::{Discovery, DiscoveryDeps, DiscoveryState};
pub use events::{ExecutionEvent, QueryEvent, split_id};
pub use lifecycle::{Lifecycle, LifecycleFacts, UNUSED_INTERVAL};
pub use lifecycle_watch::{LifecycleChange, LifecycleCounts};
pub use listing::{
    CANDIDATES_MAX, DescribeError, LIST_LIMIT_DEFAULT, LIST_LIMIT_MAX, ListRequest, Listed,
    ListedTool, ToolStatistics, and_more,
};
pub use request::{
    FactorScores, LIMIT_DEFAULT, LIMIT_MAX, QUERY_CHARS_MAX, RetrieveError, RetrieveFilter,
    RetrieveRequest, Retrieved, RetrievedTool,
};
pub use splitting::{SPLIT_TIMEOUT, STEP_CHARS_MAX, SplitTask};
pub use tables::MIGRATIONS;
pub use targets::{Target, TargetMiss};
