//! Tools, found by what they are for.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;
use toolbus_tools::id::ToolId;

/// A tool as it is searched for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolDocument {
    /// Which tool it is.
    pub id: ToolId,
    /// What it is called by.
    pub name: String,
    /// What it does.
    pub description: String,
    /// Names and descriptions of its parameters.
    pub parameters: String,
    /// Who provides it.
    pub server: String,
    /// Words that it is found by.
    pub tags: Vec<String>,
}

/// A tool that a search found.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Which tool it is.
    pub id: ToolId,
    /// How near it is to the query, from 0 to 1.
    pub similarity: f32,
}

/// What a search found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Candidates {
    /// The nearest first.
    pub found: Vec<Candidate>,
    /// How many tools were looked at: those that the caller may see.
    pub searched: usize,
    /// Whether it ranks by words alone, because there is no model or it did not answer.
    pub by_words_alone: bool,
}

/// Tools, found by what they are for. Clones are the same index.
#[derive(Clone, Default)]
pub struct ToolIndex {
    tools: Arc<RwLock<HashMap<ToolId, ToolDocument>>>,
}

impl ToolIndex {
    /// An empty index.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes new and changed tools, and forgets those that are gone.
    pub fn update(&self, changed: Vec<ToolDocument>, gone: &[ToolId]) {
        let mut tools = self.tools.write();
        gone.iter().for_each(|id| {
            tools.remove(id);
        });
        tools.extend(changed.into_iter().map(|document| (document.id.clone(), document)));
    }

    /// The tools nearest to a query, among those that are allowed.
    pub async fn search(
        &self,
        query: &str,
        most: usize,
        allows: &(dyn Fn(&ToolId) -> bool + Sync),
    ) -> Candidates {
        let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
        let tools = self.tools.read();
        let allowed = tools.values().filter(|document| allows(&document.id));
        let mut candidates = Candidates { by_words_alone: true, ..Candidates::default() };

        for document in allowed {
            candidates.searched += 1;
            let text = format!("{} {}", document.name, document.description).to_lowercase();
            let hits = words.iter().filter(|word| text.contains(word.as_str())).count();
            if hits > 0 {
                let similarity = hits as f32 / words.len() as f32;
                candidates.found.push(Candidate { id: document.id.clone(), similarity });
            }
        }
        candidates.found.sort_by(|one, other| {
            other.similarity.total_cmp(&one.similarity).then_with(|| one.id.cmp(&other.id))
        });
        candidates.found.truncate(most);
        candidates
    }
}
