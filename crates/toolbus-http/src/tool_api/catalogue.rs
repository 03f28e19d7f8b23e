//! What there is of tools and servers for one caller: what its scope sees, and not what a policy
//! denies it.

use std::collections::BTreeMap;
use std::sync::Arc;

use toolbus_discovery::{
    CANDIDATES_MAX, Category, DescribeError, Discovery, ListRequest, Listed, ListedTool,
    RetrieveError, RetrieveRequest, Retrieved, split_id,
};
use toolbus_policy::LivePolicy;
use toolbus_tools::policy::{Decision, Policy as _, PolicyRequest};
use toolbus_tools::registry::{ToolEntry, ToolState};
use toolbus_tools::{Registry, Scope};

/// The tools of one caller.
pub(crate) struct Catalogue {
    pub(crate) registry: Arc<Registry>,
    pub(crate) policy: LivePolicy,
    pub(crate) discovery: Discovery,
}

/// What a tool of a list is to be.
#[derive(Debug, Default)]
pub(crate) struct ToolFilter {
    pub(crate) server: Option<String>,
    pub(crate) category: Option<Category>,
}

/// What a name stands for.
pub(crate) enum Named {
    Tool(Arc<ToolEntry>),
    /// Several tools have it: the whole names of the first, and how many there are beside.
    Ambiguous(Vec<String>, usize),
    NoTool,
    NoServer(String),
}

/// A server, and what is known of it.
pub(crate) struct ServerEntry {
    pub(crate) name: String,
    pub(crate) is_connected: bool,
    pub(crate) tools: u64,
}

impl Catalogue {
    /// The tools that a caller may use, in the order of the registry.
    fn visible(&self, scope: &Scope) -> Vec<Arc<ToolEntry>> {
        let snapshot = self.registry.snapshot();
        let seen = snapshot.seen_by(scope);
        seen.filter(|entry| self.may_use(scope, entry)).cloned().collect()
    }

    fn may_use(&self, scope: &Scope, entry: &ToolEntry) -> bool {
        let subject = entry.subject();
        let request = PolicyRequest { scope, subject: &subject };
        !matches!(self.policy.decide(&request), Decision::Deny(_))
    }

    /// A page of the tools, and how many there are in all.
    pub(crate) fn list(
        &self,
        scope: &Scope,
        filter: ToolFilter,
        limit: usize,
        offset: usize,
    ) -> Result<Listed, RetrieveError> {
        let ToolFilter { server, category } = filter;
        self.discovery.list(scope, &ListRequest { limit, offset, server, category })
    }

    /// The tool of a name: its own, or SERVER/TOOL.
    pub(crate) fn describe(&self, scope: &Scope, name: &str) -> Result<ListedTool, Named> {
        self.discovery.describe(scope, name).map_err(|error| match error {
            DescribeError::Ambiguous { candidates, more } => Named::Ambiguous(candidates, more),
            _ => match self.resolve(&self.visible(scope), name) {
                Named::NoServer(server) => Named::NoServer(server),
                _ => Named::NoTool,
            },
        })
    }

    /// The tool of a name, of all that the scope sees: whether a caller may use one is the
    /// policy's to say, when it is called.
    pub(crate) fn find_for_call(&self, scope: &Scope, name: &str) -> Named {
        let snapshot = self.registry.snapshot();
        let seen: Vec<_> = snapshot.seen_by(scope).cloned().collect();
        self.resolve(&seen, name)
    }

    fn resolve(&self, tools: &[Arc<ToolEntry>], name: &str) -> Named {
        let has_name = |entry: &ToolEntry, name: &str| {
            entry.tool.name == name || split_id(&entry.id).1 == name
        };
        if let Some((server, tool)) = name.split_once('/') {
            let of_server = tools.iter().filter(|entry| split_id(&entry.id).0 == server);
            let mut of_server = of_server.peekable();
            if of_server.peek().is_none() {
                return Named::NoServer(server.to_owned());
            }
            let found = of_server.find(|entry| has_name(entry, tool));
            return found.map_or(Named::NoTool, |entry| Named::Tool(Arc::clone(entry)));
        }

        let mut found: Vec<_> = tools.iter().filter(|entry| has_name(entry, name)).collect();
        match (found.pop(), found.is_empty()) {
            (None, _) => Named::NoTool,
            (Some(only), true) => Named::Tool(Arc::clone(only)),
            (Some(last), false) => {
                found.push(last);
                let more = found.len().saturating_sub(CANDIDATES_MAX);
                let first = found.into_iter().take(CANDIDATES_MAX);
                Named::Ambiguous(first.map(|entry| whole_name(entry)).collect(), more)
            }
        }
    }

    /// The servers whose tools a caller may use, by name.
    pub(crate) fn servers(&self, scope: &Scope) -> Vec<ServerEntry> {
        let mut servers = BTreeMap::<String, (u64, bool)>::new();
        for entry in self.visible(scope) {
            let server = split_id(&entry.id).0.to_owned();
            let (tools, is_connected) = servers.entry(server).or_default();
            *tools += 1;
            *is_connected |= entry.state == ToolState::Available;
        }
        let entry = |(name, (tools, is_connected))| ServerEntry { name, is_connected, tools };
        servers.into_iter().map(entry).collect()
    }

    /// Whether any tool cannot be reached for now.
    pub(crate) fn is_something_away(&self) -> bool {
        self.registry.snapshot().tools().iter().any(|entry| entry.state == ToolState::Away)
    }

    /// The tools for a task.
    pub(crate) async fn retrieve(
        &self,
        scope: &Scope,
        request: &RetrieveRequest,
    ) -> Result<Retrieved, RetrieveError> {
        self.discovery.retrieve(scope, request).await
    }
}

/// The name that no other tool has.
fn whole_name(entry: &ToolEntry) -> String {
    let (server, name) = split_id(&entry.id);
    format!("{server}/{name}")
}

#[cfg(test)]
mod tests;
