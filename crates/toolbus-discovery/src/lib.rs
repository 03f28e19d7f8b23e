//! Which tools there are for a task.
//!
//! [`Discovery`] follows the registry, keeps an index of what a caller may find, ranks by what is
//! known of each tool, and learns from each call.

mod discovery;
mod request;

pub use discovery::{Discovery, DiscoveryDeps};
pub use request::{
    Category, FactorScores, LIMIT_DEFAULT, LIMIT_MAX, QUERY_CHARS_MAX, RetrieveError,
    RetrieveFilter, RetrieveRequest, Retrieved, RetrievedTool,
};
