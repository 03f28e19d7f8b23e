//! The catalogue: the tools of the registry that can be found, as of one of its revisions.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use toolbus_search::ToolDocument;
use toolbus_tools::id::{SERVER_PROVIDER_PREFIX, ToolId};
use toolbus_tools::policy::{Decision, Policy, PolicyRequest};
use toolbus_tools::registry::{Snapshot, ToolEntry, ToolState};
use toolbus_tools::view::matches_pattern;
use toolbus_tools::{Scope, Subject};

use crate::category::Category;
use crate::config::DiscoveryConfig;
use crate::definition::{DefinitionProblem, parameter_text, problems_of};
use crate::events::split_id;

/// Most problems that are reported.
const PROBLEMS_MAX: usize = 1_000;
/// Most tags of a tool that it is found by.
const TAGS_MAX: usize = 32;
/// What a tag of the fleet's own tools says: its calls go on when they have returned.
const ASYNCHRONOUS_TAG: &str = "asynchronous";
/// The same: the operator of the fleet vouches for it.
const CERTIFIED_TAG: &str = "compliance-certified";

/// The tools that can be found.
#[derive(Default)]
pub(crate) struct Catalogue {
    /// The revision of the registry.
    pub(crate) registry_revision: u64,
    /// Grows with each change of what is indexed.
    pub(crate) version: u64,
    /// In the order of registration.
    pub(crate) tools: Vec<CatalogueTool>,
    places: HashMap<ToolId, usize>,
    /// Why others cannot be found.
    pub(crate) problems: Vec<DefinitionProblem>,
}

/// A tool that can be found.
#[derive(Clone)]
pub(crate) struct CatalogueTool {
    pub(crate) entry: Arc<ToolEntry>,
    pub(crate) subject: Subject,
    pub(crate) server: Arc<str>,
    /// Its name at the server.
    pub(crate) name: Arc<str>,
    pub(crate) category: Category,
    pub(crate) is_certified: bool,
    pub(crate) is_asynchronous: bool,
}

/// What a new catalogue changes in the index.
#[derive(Default)]
pub(crate) struct CatalogueChange {
    pub(crate) changed: Vec<ToolDocument>,
    pub(crate) gone: Vec<ToolId>,
}

impl CatalogueTool {
    fn of(entry: &Arc<ToolEntry>, config: &DiscoveryConfig) -> Self {
        let (server, name) = split_id(&entry.id);
        let id = entry.id.as_str();
        let matches =
            |patterns: &[String]| patterns.iter().any(|pattern| matches_pattern(pattern, id));
        let has_tag = |tag: &str| {
            // What a server says of itself is no reason to rank it higher.
            !id.starts_with(SERVER_PROVIDER_PREFIX) && entry.tool.tags.iter().any(|own| own == tag)
        };
        let set = config.categories.iter().find(|(pattern, _)| matches_pattern(pattern, id));

        Self {
            subject: entry.subject(),
            server: server.into(),
            name: name.into(),
            category: set.map_or_else(
                || Category::guess(server, &entry.tool.tags),
                |(_, category)| *category,
            ),
            is_certified: matches(&config.certified) || has_tag(CERTIFIED_TAG),
            is_asynchronous: matches(&config.asynchronous) || has_tag(ASYNCHRONOUS_TAG),
            entry: Arc::clone(entry),
        }
    }

    pub(crate) fn id(&self) -> &ToolId {
        &self.entry.id
    }

    /// Whether whoever provides it cannot be reached now.
    pub(crate) fn is_away(&self) -> bool {
        self.entry.state == ToolState::Away
    }

    /// Whether a caller may see it, and use it at least with an approval.
    pub(crate) fn is_seen_by(&self, scope: &Scope, policy: &dyn Policy) -> bool {
        self.entry.is_seen_by(scope) && {
            let request = PolicyRequest { scope, subject: &self.subject };
            !matches!(policy.decide(&request), Decision::Deny(_))
        }
    }

    fn document(&self) -> ToolDocument {
        let tool = &self.entry.tool;
        ToolDocument {
            id: self.entry.id.clone(),
            name: self.name.to_string(),
            description: tool.description.clone(),
            parameters: parameter_text(&tool.parameters),
            server: self.server.to_string(),
            tags: tool.tags.iter().take(TAGS_MAX).cloned().collect(),
        }
    }

    /// Whether the index has to be told nothing new of it.
    fn is_same_definition(&self, entry: &ToolEntry) -> bool {
        Arc::ptr_eq(&self.entry.tool, &entry.tool)
            || (self.entry.definition == entry.definition && self.entry.tool == entry.tool)
    }
}

impl Catalogue {
    /// The catalogue of these tools, and what changes in the index that has the one before.
    pub(crate) fn next(
        &self,
        snapshot: &Snapshot,
        config: &DiscoveryConfig,
    ) -> (Self, CatalogueChange) {
        let mut next = Self {
            registry_revision: snapshot.revision(),
            version: self.version + 1,
            ..Self::default()
        };
        let mut change = CatalogueChange::default();
        let mut seen = HashSet::new();

        for entry in snapshot.tools() {
            let is_second = !seen.insert(entry.id.clone());
            let known = self.find(&entry.id).filter(|known| known.is_same_definition(entry));
            let tool = match known {
                _ if is_second => {
                    next.report(vec![second_of_its_name(&entry.id)]);
                    continue;
                }
                Some(known) => CatalogueTool {
                    entry: Arc::clone(entry),
                    subject: entry.subject(),
                    ..known.clone()
                },
                None => {
                    let problems = problems_of(entry, config.may_omit_required);
                    if !problems.is_empty() {
                        next.report(problems);
                        continue;
                    }
                    let tool = CatalogueTool::of(entry, config);
                    change.changed.push(tool.document());
                    tool
                }
            };
            next.places.insert(entry.id.clone(), next.tools.len());
            next.tools.push(tool);
        }

        let gone = self.tools.iter().map(|tool| tool.id());
        change.gone = gone.filter(|id| next.find(id).is_none()).cloned().collect();
        (next, change)
    }

    /// The tool of this id.
    pub(crate) fn find(&self, id: &ToolId) -> Option<&CatalogueTool> {
        self.place(id).map(|place| &self.tools[place])
    }

    /// Where the tool of this id stands.
    pub(crate) fn place(&self, id: &ToolId) -> Option<usize> {
        self.places.get(id).copied()
    }

    fn report(&mut self, problems: Vec<DefinitionProblem>) {
        let room = PROBLEMS_MAX.saturating_sub(self.problems.len());
        self.problems.extend(problems.into_iter().take(room));
    }
}

fn second_of_its_name(tool: &ToolId) -> DefinitionProblem {
    let problem = "is the name of another tool of the server".to_owned();
    DefinitionProblem { tool: tool.clone(), field: "name", problem }
}
