//! Vectors for tools, made beside the searches.

use std::future::Future;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::document::ContentHash;
use super::ranking::Calibration;
use super::vectors::{Compact, QueryVector};
use super::{Pending, Shared};
use crate::embed::{BATCH_TEXTS_MAX, Embed, EmbedError, VectorCache};

/// How long a model may take for a batch of tools.
const BATCH_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a model that failed is left alone.
const FAILED_BACKOFF: Duration = Duration::from_secs(10);
/// How often the file of vectors is written at most.
const SAVE_INTERVAL: Duration = Duration::from_secs(30);
/// Texts that have nothing to do with each other: how near a model holds them to be is its zero.
const UNRELATED: [&str; 12] = [
    "create a pull request in a repository",
    "current weather for a city",
    "play the next song",
    "convert an amount of money to another currency",
    "turn off the lights of the living room",
    "find flights to an airport",
    "list the pods of a cluster",
    "send a message to a channel",
    "resize an image",
    "read the rows of a table",
    "calories of a meal",
    "translate a sentence into another language",
];

/// How an index uses a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbeddingConfig {
    /// How long a search waits for the vector of its query before it goes by words alone.
    pub query_timeout: Duration,
    /// Where vectors are kept, so that they are not made again by another process.
    pub cache: Option<PathBuf>,
}

impl Default for EmbeddingConfig {
    fn default() -> Self {
        Self { query_timeout: Duration::from_millis(300), cache: None }
    }
}

/// A model as the index holds it.
pub(super) struct Model {
    pub(super) embedder: Arc<dyn Embed>,
    pub(super) config: EmbeddingConfig,
    pub(super) calibration: OnceLock<Calibration>,
    pub(super) wake: Notify,
}

impl Model {
    /// The vectors of the steps of a query; `None` where the model does not give them in time.
    pub(super) async fn embed_query(
        &self,
        steps: &[String],
    ) -> Option<Vec<Option<(QueryVector, Calibration)>>> {
        let calibration = *self.calibration.get()?;
        let answer = timeout(self.config.query_timeout, self.embed(steps)).await;
        match answer.unwrap_or(Err(EmbedError::TimedOut)) {
            Ok(vectors) => {
                let vector = |vector: &Vec<f32>| Some((QueryVector::of(vector)?, calibration));
                let vectors: Vec<_> = vectors.iter().map(vector).collect();
                vectors.iter().any(Option::is_some).then_some(vectors)
            }
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "query not embedded");
                None
            }
        }
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let vectors = self.embedder.embed(texts).await?;
        let dimensions = self.embedder.dimensions();
        let wrong = vectors.iter().map(Vec::len).find(|length| *length != dimensions);
        if wrong.is_some() || vectors.len() != texts.len() {
            let dimensions = wrong.unwrap_or(dimensions);
            return Err(EmbedError::WrongShape { vectors: vectors.len(), dimensions });
        }
        Ok(vectors)
    }

    /// Learns how near the model holds texts to be that have nothing in common.
    async fn calibrate(&self) -> Result<(), EmbedError> {
        if self.calibration.get().is_some() {
            return Ok(());
        }
        let texts = UNRELATED.map(str::to_owned);
        let answer = timeout(BATCH_TIMEOUT, self.embed(&texts)).await;
        let vectors = answer.unwrap_or(Err(EmbedError::TimedOut))?;
        let mut cosines = Vec::new();
        for (at, one) in vectors.iter().enumerate() {
            cosines.extend(vectors[..at].iter().map(|other| cosine(one, other)));
        }

        let count = cosines.len() as f32;
        let mean = cosines.iter().sum::<f32>() / count;
        let spread = cosines.iter().map(|cosine| (cosine - mean).powi(2)).sum::<f32>() / count;
        let unrelated = mean + spread.sqrt();
        if !unrelated.is_finite() {
            return Err(EmbedError::malformed("a vector", "it is not of numbers"));
        }
        let unrelated = unrelated.clamp(0.0, 0.9);
        let same = unrelated + 0.75 * (1.0 - unrelated);
        self.calibration.get_or_init(|| Calibration { unrelated, same });
        Ok(())
    }
}

fn cosine(one: &[f32], other: &[f32]) -> f32 {
    let product = |one: &[f32], other: &[f32]| -> f32 {
        one.iter().zip(other).map(|(one, other)| one * other).sum()
    };
    product(one, other) / (product(one, one) * product(other, other)).sqrt().max(1e-12)
}

/// What makes the vectors of an index. Whoever made the index runs it in a task of its own; until
/// then, and while it has not come to a tool, the tool is found by its words.
pub struct Embedding {
    pub(super) shared: Arc<Shared>,
}

/// What was kept by an earlier process, and whether this one made more.
struct Progress {
    cache: VectorCache,
    is_unsaved: bool,
}

impl Embedding {
    /// Makes vectors until `stop` is over, then writes those that are to be kept.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let Some(model) = &self.shared.model else { return };
        let mut stop = pin!(stop);
        let mut progress = Progress { cache: self.read_cache(model).await, is_unsaved: false };
        let mut saved = Instant::now();

        loop {
            // Dropping a batch that is under way is safe: what it was asked about is still pending.
            let made = tokio::select! {
                () = &mut stop => break,
                made = self.embed_pending(model, &mut progress) => made,
            };
            let wait = match made {
                Ok(()) => SAVE_INTERVAL,
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "tools not embedded, trying again");
                    FAILED_BACKOFF
                }
            };
            if progress.is_unsaved && saved.elapsed() >= SAVE_INTERVAL {
                self.save(model).await;
                progress.is_unsaved = false;
                saved = Instant::now();
            }

            tokio::select! {
                () = &mut stop => break,
                _ = timeout(wait, model.wake.notified()) => {}
            }
        }
        if progress.is_unsaved {
            self.save(model).await;
        }
    }

    /// Makes the vectors of all tools that have none yet.
    ///
    /// # Errors
    /// When the model fails; the tools stay pending.
    async fn embed_pending(
        &self,
        model: &Model,
        progress: &mut Progress,
    ) -> Result<(), EmbedError> {
        model.calibrate().await?;
        let batch_texts = model.embedder.batch_texts().clamp(1, BATCH_TEXTS_MAX);
        loop {
            let batch = self.shared.pending(batch_texts);
            if batch.is_empty() {
                return Ok(());
            }

            let mut vectors = Vec::with_capacity(batch.len());
            let mut asked: Vec<&Pending> = Vec::new();
            for tool in &batch {
                match progress.cache.take(&tool.content) {
                    Some(vector) => vectors.push((tool, Some(vector))),
                    None => asked.push(tool),
                }
            }
            if !asked.is_empty() {
                let texts: Vec<_> = asked.iter().map(|tool| tool.text.clone()).collect();
                let answer = timeout(BATCH_TIMEOUT, model.embed(&texts)).await;
                let new = answer.unwrap_or(Err(EmbedError::TimedOut))?;
                vectors.extend(asked.into_iter().zip(new.iter().map(|new| Compact::of(new))));
                progress.is_unsaved = true;
            }
            self.shared.take_vectors(&vectors);
            tokio::task::yield_now().await;
        }
    }

    async fn read_cache(&self, model: &Model) -> VectorCache {
        let Some(path) = model.config.cache.clone() else { return VectorCache::default() };
        let (identity, dimensions) = (model.embedder.identity(), model.embedder.dimensions());
        let reading = move || VectorCache::read(&path, &identity, dimensions);
        match tokio::task::spawn_blocking(reading).await {
            Ok(Ok(cache)) => cache,
            Ok(Err(error)) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "kept vectors not read, making them again");
                VectorCache::default()
            }
            Err(_) => VectorCache::default(),
        }
    }

    async fn save(&self, model: &Model) {
        let Some(path) = model.config.cache.clone() else { return };
        let snapshot = self.shared.snapshot();
        let (identity, dimensions) = (model.embedder.identity(), model.embedder.dimensions());
        let writing = move || {
            let vectors = snapshot.segments.values().flat_map(|live| {
                let entries = live.segment.entries.iter().enumerate();
                entries.filter_map(|(slot, entry)| -> Option<(ContentHash, Compact)> {
                    Some((entry.content, live.vectors.read(slot)?))
                })
            });
            VectorCache::write(&path, &identity, dimensions, vectors)
        };
        if let Ok(Err(error)) = tokio::task::spawn_blocking(writing).await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "vectors not kept");
        }
    }
}
