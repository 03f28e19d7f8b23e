//! Services: the MCP servers and agents that an agent knows, in a list that is searched.

use std::fmt::Write as _;
use std::sync::Arc;

use parking_lot::RwLock;
use serde::Serialize;

use crate::bm25::{Bm25Index, Ranked};

/// Most services that are searched. Those beyond are left out, with a warning.
pub const SERVICES_MAX: usize = 10_000;

/// Services of an answer.
const RESULTS_MAX: usize = 5;
/// Services of a hint.
const HINTS_MAX: usize = 2;
/// Abilities that are named of a service.
const ABILITIES_SHOWN: usize = 3;
/// Longest summary in an answer, in characters.
const SUMMARY_CHARS_MAX: usize = 1_000;
/// Longest summary in a hint, in characters: it is part of every turn.
const HINT_SUMMARY_CHARS_MAX: usize = 200;
/// Longest name in an answer, in characters.
const NAME_CHARS_MAX: usize = 200;
/// How much of a service is searched, in bytes.
const DOCUMENT_BYTES_MAX: usize = 64 << 10;

/// A service that can be searched for and called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// The name that it is called by.
    pub id: String,
    /// What it is.
    pub kind: ServiceKind,
    /// What it is called before people.
    pub display_name: Option<String>,
    /// What it says of itself.
    pub description: Option<String>,
    /// What a model wrote about it; it is shown in place of the description.
    pub summary: Option<String>,
    /// What it can do: an agent's skills, a server's tools.
    pub abilities: Vec<Ability>,
}

/// What a service is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ServiceKind {
    /// An MCP server.
    McpServer,
    /// Another agent.
    Agent,
}

/// A skill or a tool of a service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ability {
    /// What it is called by.
    pub id: String,
    /// Its name before people.
    pub name: Option<String>,
    /// What it does.
    pub description: Option<String>,
    /// Words that it is found by.
    pub tags: Vec<String>,
    /// What it may be asked.
    pub examples: Vec<String>,
}

/// A list of services, ready to be searched.
#[derive(Debug)]
pub struct ServiceIndex {
    services: Vec<Service>,
    index: Bm25Index,
}

/// The services that an agent knows now. Clones are the same list.
#[derive(Debug, Clone)]
pub struct KnownServices(Arc<RwLock<Arc<ServiceIndex>>>);

/// One result, as models read it.
#[derive(Debug, PartialEq, Serialize)]
struct Found {
    id: String,
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<String>,
    relevance_score: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_skills: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_tools: Option<Vec<String>>,
}

#[derive(Serialize)]
struct Answer {
    results: Vec<Found>,
}

impl Service {
    /// A service of which nothing is known but its name.
    #[must_use]
    pub fn new(kind: ServiceKind, id: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            kind,
            display_name: None,
            description: None,
            summary: None,
            abilities: Vec::new(),
        }
    }

    /// What is shown of what it is for.
    fn about(&self) -> Option<&str> {
        let known = [&self.summary, &self.description].into_iter().flatten();
        known.map(|text| text.trim()).find(|text| !text.is_empty())
    }

    /// What it is found by.
    fn document(&self) -> String {
        let mut words = vec![self.id.as_str()];
        match self.kind {
            ServiceKind::Agent => {
                words.extend(self.description.as_deref());
                words.extend(self.summary.as_deref());
                for ability in &self.abilities {
                    words.push(&ability.id);
                    words.extend(ability.name.as_deref());
                    words.extend(ability.description.as_deref());
                    words.extend(ability.tags.iter().map(String::as_str));
                    words.extend(ability.examples.iter().map(String::as_str));
                }
            }
            ServiceKind::McpServer => {
                words.extend(self.display_name.as_deref());
                words.extend(self.summary.as_deref().or(self.description.as_deref()));
                words.extend(self.abilities.iter().map(|ability| ability.id.as_str()));
            }
        }

        let mut text = words.join(" ");
        text.truncate(text.floor_char_boundary(DOCUMENT_BYTES_MAX));
        text
    }

    fn top_abilities(&self) -> Option<Vec<String>> {
        let shown = self.abilities.iter().take(ABILITIES_SHOWN);
        let names: Vec<_> = shown.map(|ability| cut(&ability.id, NAME_CHARS_MAX)).collect();
        (!names.is_empty()).then_some(names)
    }

    fn found(&self, relevance_score: f64) -> Found {
        let top = self.top_abilities();
        let (top_skills, top_tools) = match self.kind {
            ServiceKind::Agent => (top, None),
            ServiceKind::McpServer => (None, top),
        };
        Found {
            id: self.id.clone(),
            r#type: self.kind.as_str(),
            summary: self.about().map(|text| cut(text, SUMMARY_CHARS_MAX)),
            relevance_score,
            top_skills,
            top_tools,
        }
    }

    /// The service in one line.
    fn hint(&self) -> String {
        let about = self.about().map(single_line).unwrap_or_default();
        let about = cut(about.trim_end_matches('.'), HINT_SUMMARY_CHARS_MAX);
        let top = self.top_abilities().map(|top| {
            let names: Vec<_> = top.iter().map(|name| single_line(name)).collect();
            format!("top {}: {}", self.kind.abilities(), names.join(", "))
        });
        let known: Vec<_> =
            [Some(about).filter(|text| !text.is_empty()), top].into_iter().flatten().collect();

        let id = cut(&single_line(&self.id), NAME_CHARS_MAX);
        let mut line = format!("- {id} ({})", self.kind.as_str());
        if !known.is_empty() {
            let _ = write!(line, ": {}", known.join(", "));
        }
        line
    }
}

impl ServiceKind {
    /// Its name in answers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::McpServer => "mcp",
            Self::Agent => "a2a",
        }
    }

    fn abilities(self) -> &'static str {
        match self {
            Self::McpServer => "tools",
            Self::Agent => "skills",
        }
    }
}

impl ServiceIndex {
    /// Makes a list ready to be searched.
    #[must_use]
    pub fn build(mut services: Vec<Service>) -> Self {
        if services.len() > SERVICES_MAX {
            tracing::warn!(
                services = services.len(),
                SERVICES_MAX,
                "too many services: the last are not searched"
            );
            services.truncate(SERVICES_MAX);
        }
        let index = Bm25Index::build(services.iter().map(Service::document));
        Self { services, index }
    }

    /// The services, in the order in which they were given.
    #[must_use]
    pub fn services(&self) -> &[Service] {
        &self.services
    }

    /// What a search answers: JSON with at most five results, best first.
    #[must_use]
    pub fn search(&self, query: &str) -> String {
        let ranked = self.index.search(query, RESULTS_MAX);
        let Some(top) = ranked.first().map(|best| best.score) else {
            return r#"{"results":[]}"#.to_owned();
        };

        let result = |ranked: &Ranked| {
            let score = (ranked.score / top * 100.0).round_ties_even() / 100.0;
            self.services[ranked.document].found(score)
        };
        let answer = Answer { results: ranked.iter().map(result).collect() };
        serde_json::to_string_pretty(&answer).expect("it has texts and finite numbers only")
    }

    /// What a turn begins with: the two services that fit a request best, if any does.
    #[must_use]
    pub fn hint(&self, request: &str) -> Option<String> {
        let ranked = self.index.search(request, HINTS_MAX);
        if ranked.is_empty() {
            return None;
        }

        let mut text =
            "Potentially relevant services for this request (call search_known_services \
                        for full search):"
                .to_owned();
        for found in ranked {
            text.push('\n');
            text.push_str(&self.services[found.document].hint());
        }
        Some(text)
    }
}

impl Default for KnownServices {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl KnownServices {
    /// These services.
    #[must_use]
    pub fn new(services: Vec<Service>) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(ServiceIndex::build(services)))))
    }

    /// Makes the list this one. Searches that are under way end with the one before.
    pub fn replace(&self, services: Vec<Service>) {
        // It is built before anybody is kept waiting.
        let index = Arc::new(ServiceIndex::build(services));
        *self.0.write() = index;
    }

    /// The services as they are now.
    #[must_use]
    pub fn snapshot(&self) -> Arc<ServiceIndex> {
        Arc::clone(&self.0.read())
    }

    /// The hint of a turn; see [`ServiceIndex::hint`].
    #[must_use]
    pub fn hint(&self, request: &str) -> Option<String> {
        self.snapshot().hint(request)
    }
}

fn single_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
