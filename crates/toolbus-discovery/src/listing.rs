//! Lists of tools, and one tool by its name.

use std::sync::Arc;
use std::time::Duration;

use toolbus_tools::Scope;
use toolbus_tools::id::ToolId;
use toolbus_tools::registry::ToolEntry;

use crate::catalogue::CatalogueTool;
use crate::category::Category;
use crate::discovery::Discovery;
use crate::ledger::Totals as _;
use crate::lifecycle::Lifecycle;
use crate::ranking;
use crate::request::RetrieveError;
use crate::retrieval::percentile;

/// How many tools are listed where nobody says.
pub const LIST_LIMIT_DEFAULT: usize = 20;
/// How many tools are listed at most.
pub const LIST_LIMIT_MAX: usize = 100;
/// Most tools that are named of those that have one name.
pub const CANDIDATES_MAX: usize = 20;
/// Most tools that are named beside one that they are used after.
const USED_AFTER_MAX: usize = 10;

/// Which tools are to be listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListRequest {
    /// How many at most: from 1 to [`LIST_LIMIT_MAX`].
    pub limit: usize,
    /// How many are left out at the beginning.
    pub offset: usize,
    /// They are provided by this server.
    pub server: Option<String>,
    /// They are of this category.
    pub category: Option<Category>,
}

/// Tools, by their names and servers.
#[derive(Clone)]
pub struct Listed {
    /// Those that were asked for.
    pub tools: Vec<ListedTool>,
    /// How many there are in all.
    pub total: usize,
}

/// A tool that is listed.
#[derive(Clone)]
pub struct ListedTool {
    /// The tool; its state says whether it can be reached.
    pub entry: Arc<ToolEntry>,
    /// Who provides it.
    pub server: Arc<str>,
    /// Its name at the server.
    pub name: Arc<str>,
    /// What it is about.
    pub category: Category,
    /// Where it is in its life.
    pub lifecycle: Lifecycle,
}

/// Why there is no tool of a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DescribeError {
    /// None that the caller may see has it.
    #[error("there is no such tool")]
    NotFound,
    /// Several have it.
    #[error(
        "several servers have a tool of this name: {}{}",
        candidates.join(", "),
        and_more(*more)
    )]
    Ambiguous {
        /// The first of them, as `server/name`: [`CANDIDATES_MAX`] at most.
        candidates: Vec<String>,
        /// How many there are beside.
        more: usize,
    },
}

/// What is known of how a tool does, of the last one to two months.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ToolStatistics {
    /// Calls that ran.
    pub runs: u64,
    /// Calls that succeeded, of those that ran.
    pub success_rate: f64,
    /// Calls that failed or took too long, of those that ran.
    pub error_rate: f64,
    /// Half of the calls took no longer, in milliseconds.
    pub p50_ms: Option<f64>,
    /// All but one in a hundred took no longer, in milliseconds.
    pub p99_ms: Option<f64>,
    /// Calls that found the provider there.
    pub uptime: f64,
    /// How much it is used, among the tools that the caller may use.
    pub popularity: f64,
    /// How long ago it was used last.
    pub last_used: Option<Duration>,
    /// Tools that were used after it, with how often.
    pub used_before: Vec<(ToolId, u64)>,
}

/// What is said of the tools of a name that are not named.
#[must_use]
pub fn and_more(more: usize) -> String {
    if more == 0 { String::new() } else { format!(" and {more} more") }
}

impl Default for ListRequest {
    fn default() -> Self {
        Self { limit: LIST_LIMIT_DEFAULT, offset: 0, server: None, category: None }
    }
}

impl Discovery {
    /// The tools that a scope may see, by their names and servers.
    ///
    /// # Errors
    /// When the limit is out of bounds.
    pub fn list(&self, scope: &Scope, request: &ListRequest) -> Result<Listed, RetrieveError> {
        if !(1..=LIST_LIMIT_MAX).contains(&request.limit) {
            let problem = format!("is not from 1 to {LIST_LIMIT_MAX}");
            return Err(RetrieveError::Invalid { field: "limit", problem });
        }
        let catalogue = self.inner.catalogue();
        let mut tools = self.seen(&catalogue.tools, scope);
        tools.retain(|tool| {
            request.server.as_deref().is_none_or(|server| *server == *tool.server)
                && request.category.is_none_or(|category| category == tool.category)
        });
        tools.sort_by(|one, other| {
            (&one.name, &one.server, one.id()).cmp(&(&other.name, &other.server, other.id()))
        });

        let total = tools.len();
        let page = tools.into_iter().skip(request.offset).take(request.limit);
        Ok(Listed { tools: page.map(|tool| self.listed(tool)).collect(), total })
    }

    /// The tool of a name: the one that it is called by, `server/name`, its id, or its name at the
    /// server, where that is no other tool's.
    ///
    /// # Errors
    /// When there is none, or more than one.
    pub fn describe(&self, scope: &Scope, name: &str) -> Result<ListedTool, DescribeError> {
        let catalogue = self.inner.catalogue();
        let tools = self.seen(&catalogue.tools, scope);
        let is_exact = |tool: &&&CatalogueTool| {
            let registered = &tool.entry.tool;
            registered.name == name
                || registered.aliases.iter().any(|alias| alias == name)
                || tool.id().as_str() == name
        };
        if let Some(tool) = tools.iter().find(is_exact) {
            return Ok(self.listed(tool));
        }

        let is_addressed = |tool: &CatalogueTool| {
            let rest = name.strip_prefix(&*tool.server).and_then(|rest| rest.strip_prefix('/'));
            rest.is_some_and(|rest| rest == &*tool.name || rest == tool.entry.tool.name)
        };
        let found: Vec<_> =
            tools.into_iter().filter(|tool| &*tool.name == name || is_addressed(tool)).collect();
        match found.as_slice() {
            [] => Err(DescribeError::NotFound),
            [tool] => Ok(self.listed(tool)),
            _ => {
                let address = |tool: &&CatalogueTool| format!("{}/{}", tool.server, tool.name);
                let mut candidates: Vec<_> = found.iter().map(address).collect();
                candidates.sort();
                let more = candidates.len().saturating_sub(CANDIDATES_MAX);
                candidates.truncate(CANDIDATES_MAX);
                Err(DescribeError::Ambiguous { candidates, more })
            }
        }
    }

    /// What is known of how a tool does; `name` as for [`Discovery::describe`]. `None`: nothing is
    /// known yet.
    ///
    /// # Errors
    /// As for [`Discovery::describe`].
    pub fn statistics(
        &self,
        scope: &Scope,
        name: &str,
    ) -> Result<Option<ToolStatistics>, DescribeError> {
        let tool = self.describe(scope, name)?;
        let id = &tool.entry.id;
        let catalogue = self.inner.catalogue();
        let now_ms = self.inner.config.clock.now_ms();
        let learned = self.inner.learned.read();
        let known = learned.statistics(id, now_ms);
        if known.is_empty() {
            return Ok(None);
        }

        let seen = self.seen(&catalogue.tools, scope);
        let weights = seen.iter().map(|tool| learned.statistics(tool.id(), now_ms).weight);
        let mut weights: Vec<_> = weights.collect();
        weights.sort_unstable();
        let popularity = ranking::popularity(&known, percentile(&weights, known.weight));
        let mut used_before = learned.used_after(id, now_ms);
        used_before.retain(|(after, _)| seen.iter().any(|tool| tool.id() == after));
        used_before.truncate(USED_AFTER_MAX);
        Ok(Some(ToolStatistics {
            runs: known.runs(),
            success_rate: known.success_rate(),
            error_rate: known.error_rate(),
            p50_ms: known.p50_ms(),
            p99_ms: known.p99_ms(),
            uptime: known.uptime(),
            popularity,
            last_used: learned.last_used(id, now_ms),
            used_before,
        }))
    }

    fn seen<'a>(&self, tools: &'a [CatalogueTool], scope: &Scope) -> Vec<&'a CatalogueTool> {
        let policy = &*self.inner.deps.policy;
        let snapshot = self.inner.deps.registry.snapshot();
        let is_there = |tool: &CatalogueTool| {
            snapshot.find(&tool.entry.tool.name).is_some_and(|now| now.id == tool.entry.id)
        };
        tools.iter().filter(|tool| is_there(tool) && tool.is_seen_by(scope, policy)).collect()
    }

    fn listed(&self, tool: &CatalogueTool) -> ListedTool {
        let now_ms = self.inner.config.clock.now_ms();
        let learned = self.inner.learned.read();
        ListedTool {
            entry: Arc::clone(&tool.entry),
            server: Arc::clone(&tool.server),
            name: Arc::clone(&tool.name),
            category: tool.category,
            lifecycle: learned.lifecycle(tool.id(), true, now_ms),
        }
    }
}
