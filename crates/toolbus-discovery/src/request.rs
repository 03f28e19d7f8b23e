//! What is asked for, and what is answered.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use toolbus_tools::registry::ToolEntry;

use crate::category::Category;

/// Longest query, in characters.
pub const QUERY_CHARS_MAX: usize = 500;
/// How many tools are answered where nobody says.
pub const LIMIT_DEFAULT: usize = 5;
/// How many tools are answered at most.
pub const LIMIT_MAX: usize = 50;

/// What somebody wants tools for.
#[derive(Debug, Clone)]
pub struct RetrieveRequest {
    /// The task, in words.
    pub query: String,
    /// How many tools at most: from 1 to [`LIMIT_MAX`].
    pub limit: usize,
    /// What holds of each.
    pub filter: RetrieveFilter,
    /// Where the query comes from, such as `api`, `mcp` or `dashboard`.
    pub source: Arc<str>,
    /// Whether each factor of the scores is answered.
    pub debug: bool,
}

/// What holds of every tool that is answered.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RetrieveFilter {
    /// It is provided by this server.
    pub server: Option<String>,
    /// It is of this category.
    pub category: Option<Category>,
    /// Its score is at least this, from 0 to 1.
    pub score_min: Option<f64>,
}

/// What is answered.
#[derive(Clone)]
pub struct Retrieved {
    /// The best first.
    pub tools: Vec<RetrievedTool>,
    /// How long it took.
    pub took: Duration,
    /// How many tools the caller may find.
    pub searched: usize,
    /// Whether it ranks by words alone, because there is no model or it did not answer.
    pub by_words_alone: bool,
    /// Servers that may help, where no tool does.
    pub recommended_servers: Vec<String>,
}

/// A tool that is answered.
#[derive(Clone)]
pub struct RetrievedTool {
    /// The tool.
    pub entry: Arc<ToolEntry>,
    /// Who provides it.
    pub server: Arc<str>,
    /// What it is about.
    pub category: Category,
    /// From 0 to 1.
    pub score: f64,
    /// Where that comes from, if it was asked for.
    pub factors: Option<FactorScores>,
}

/// What the score of a tool is made of, each from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FactorScores {
    /// How near it is to the query.
    pub similarity: f64,
    /// How much it is used.
    pub popularity: f64,
    /// How well it served the caller.
    pub user_history: f64,
    /// How fast and how reliable it is.
    pub performance: f64,
    /// What the sum of them is multiplied by.
    pub boost: f64,
}

/// Why nothing is answered.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RetrieveError {
    /// A field of the request.
    #[error("{field} {problem}")]
    Invalid {
        /// Which.
        field: &'static str,
        /// What is wrong with it.
        problem: String,
    },
}
