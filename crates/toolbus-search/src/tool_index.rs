//! Tools, found by what they are for: by their words (BM25F) and, with a model, by their vectors.
//!
//! - A search reads one snapshot and waits for no writer. An update makes another snapshot, in
//!   which only what changed is new.
//! - The caller's permission is asked inside the search (3c.5). A score depends on the tool, the
//!   query, how rare the query's words are among the tools that the caller may see, and on those of
//!   the same name, on nothing else: what it may not see changes nothing that it sees.
//! - Texts of tools and queries are strangers': cut, and cleaned of what cannot be seen.

mod document;
mod embedding;
mod ranking;
mod segment;
mod steps;
mod text;
mod vectors;

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::RandomState;
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;
use toolbus_tools::id::ToolId;

pub(crate) use self::document::ContentHash;
use self::embedding::Model;
pub use self::embedding::{Embedding, EmbeddingConfig};
use self::ranking::Step;
use self::segment::{Places, Snapshot};
pub use self::steps::STEPS_MAX;
pub use self::text::is_stop_word;
pub(crate) use self::vectors::Compact;
pub use self::vectors::DIMENSIONS_MAX;
use crate::embed::Embed;

/// Most tools of an index. What is over it is not indexed.
pub const TOOLS_MAX: usize = 250_000;

/// A query's best tool is at least so near when it fits. Where none is, nothing fits.
pub const FITTING_SIMILARITY: f32 = 0.25;

/// Of a query, so much is read.
const QUERY_BYTES_MAX: usize = 4 * 1_024;

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
    /// How near it is to the query, from 0 to 1, whatever else was found. Below
    /// [`FITTING_SIMILARITY`] it hardly fits.
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
    shared: Arc<Shared>,
}

/// What all clones of an index share.
#[derive(Default)]
struct Shared {
    /// Locked only to read or replace the pointer.
    snapshot: RwLock<Arc<Snapshot>>,
    writer: Mutex<Writer>,
    hasher: RandomState,
    model: Option<Model>,
}

/// What only updates look at.
#[derive(Default)]
struct Writer {
    places: Places,
    /// Tools without a vector, in the order in which they came.
    pending: VecDeque<ToolId>,
    texts: HashMap<ToolId, Pending>,
}

/// A tool that is to get a vector.
#[derive(Debug, Clone)]
struct Pending {
    id: ToolId,
    content: ContentHash,
    text: String,
}

impl ToolIndex {
    /// An empty index that searches by words alone.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty index that searches by words and vectors, and what makes the vectors, which the
    /// caller runs beside it.
    #[must_use]
    pub fn with_model(embedder: Arc<dyn Embed>, config: EmbeddingConfig) -> (Self, Embedding) {
        let model = Model { embedder, config, calibration: OnceLock::new(), wake: Notify::new() };
        let shared = Arc::new(Shared { model: Some(model), ..Shared::default() });
        (Self { shared: Arc::clone(&shared) }, Embedding { shared })
    }

    /// Counts the changes of what is found: an answer of another version may be out of date.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.shared.snapshot().version
    }

    /// How many tools have no vector yet; 0 without a model.
    #[must_use]
    pub fn waiting_for_vectors(&self) -> usize {
        self.shared.writer.lock().texts.len()
    }

    /// Takes new and changed tools, and forgets those that are gone. Searches that begin after it
    /// find what is new. A tool that is as it was costs nothing. Of several documents of one tool
    /// the last counts; one that is both changed and gone is changed.
    pub fn update(&self, changed: Vec<ToolDocument>, gone: &[ToolId]) {
        let shared = &*self.shared;
        let mut writer = shared.writer.lock();
        let mut next = Snapshot::clone(&shared.snapshot());
        let mut has_changed = false;
        let mut last = HashSet::new();
        let mut newest: Vec<_> =
            changed.into_iter().rev().filter(|document| last.insert(document.id.clone())).collect();
        newest.reverse();

        for id in gone.iter().filter(|id| !last.contains(*id)) {
            if let Some(place) = writer.places.remove(id) {
                next.remove(place);
                writer.texts.remove(id);
                has_changed = true;
            }
        }

        let mut added = Vec::new();
        for document in newest {
            let content = document::content_hash(&document);
            if let Some(place) = writer.places.get(&document.id).copied() {
                if next.entry(place).is_some_and(|entry| entry.content == content) {
                    continue;
                }
                next.remove(place);
            } else if writer.places.len() + added.len() >= TOOLS_MAX {
                tracing::warn!(tool = %document.id, "index is full, tool not indexed");
                continue;
            }
            if shared.model.is_some() {
                writer.push_pending(&document, content);
            }
            added.push(document::index(&document, content, &shared.hasher));
        }
        has_changed |= !added.is_empty();
        if has_changed {
            let dimensions = shared.model.as_ref().map_or(0, |model| model.embedder.dimensions());
            next.add(added, dimensions.min(DIMENSIONS_MAX), &mut writer.places);
            next.version += 1;
            *shared.snapshot.write() = Arc::new(next);
        }
        drop(writer);

        if let Some(model) = &shared.model {
            model.wake.notify_one();
        }
    }

    /// The tools nearest to a query, among those that are allowed. A task of several steps is
    /// searched for step by step.
    pub async fn search(
        &self,
        query: &str,
        most: usize,
        allows: &(dyn Fn(&ToolId) -> bool + Sync),
    ) -> Candidates {
        self.search_steps(&split_task(query), most, allows).await
    }

    /// The tools nearest to any of these steps of a task, among those that are allowed. Of more
    /// than [`STEPS_MAX`] steps the first are searched for.
    pub async fn search_steps(
        &self,
        task: &[String],
        most: usize,
        allows: &(dyn Fn(&ToolId) -> bool + Sync),
    ) -> Candidates {
        let task = task.iter().take(STEPS_MAX);
        let texts: Vec<_> = task.map(|step| text::clean(step, QUERY_BYTES_MAX)).collect();
        let mut vectors = match &self.shared.model {
            Some(model) => model.embed_query(&texts).await,
            None => None,
        };
        let by_words_alone = vectors.is_none();
        let mut vectors = vectors.take().unwrap_or_default().into_iter();
        let steps: Vec<_> = texts
            .iter()
            .map(|text| Step::of(text, vectors.next().flatten(), &self.shared.hasher))
            .collect();

        let snapshot = self.shared.snapshot();
        let candidates = ranking::search(&snapshot, &steps, most, allows);
        Candidates { by_words_alone, ..candidates }
    }
}

/// The steps of a task, each as it is searched for: by its lines, sentences and verbs. A task that
/// has none is one step.
#[must_use]
pub fn split_task(task: &str) -> Vec<String> {
    steps::split(&text::clean(task, QUERY_BYTES_MAX))
}

impl Shared {
    fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot.read())
    }

    /// Some of the tools that have no vector yet; they stay pending.
    fn pending(&self, most: usize) -> Vec<Pending> {
        let mut writer = self.writer.lock();
        let Writer { pending, texts, .. } = &mut *writer;
        // What is gone meanwhile has no text.
        while pending.front().is_some_and(|id| !texts.contains_key(id)) {
            pending.pop_front();
        }
        pending.iter().filter_map(|id| texts.get(id)).take(most).cloned().collect()
    }

    /// Gives tools their vectors, unless they changed meanwhile.
    fn take_vectors(&self, vectors: &[(&Pending, Option<Compact>)]) {
        let mut writer = self.writer.lock();
        let mut next = Snapshot::clone(&self.snapshot());
        let mut has_changed = false;
        for (tool, vector) in vectors {
            let is_current =
                writer.texts.get(&tool.id).is_some_and(|text| text.content == tool.content);
            if !is_current {
                continue;
            }
            writer.texts.remove(&tool.id);
            if let (Some(place), Some(vector)) = (writer.places.get(&tool.id), vector) {
                next.set_vector(*place, vector);
                has_changed = true;
            }
        }

        if has_changed {
            next.version += 1;
            *self.snapshot.write() = Arc::new(next);
        }
    }
}

impl Writer {
    fn push_pending(&mut self, document: &ToolDocument, content: ContentHash) {
        let id = document.id.clone();
        let text = document::embedded_text(document);
        let waits = self.texts.insert(id.clone(), Pending { id: id.clone(), content, text });
        if waits.is_none() {
            self.pending.push_back(id);
        }
    }
}

#[cfg(test)]
mod tests;
