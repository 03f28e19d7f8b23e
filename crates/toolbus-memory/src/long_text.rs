//! Long texts in working memory: cut into chunks, each under a key of its own, with an outline that
//! says which heading is where.

use std::time::Duration;

use toolbus_tools::Scope;

use crate::chunker::{ContentChunker, has_more_headings};
use crate::fit::{Part, fit_chunks};
use crate::namespace::Namespace;
use crate::outline::{OutlineEntry, build_outline, is_named, label_of};
use crate::working::{NewEntry, WorkingMemory};
use crate::{Error, MemoryOwner};

/// Most headings at which a text is cut; one that has more is cut without.
const HEADINGS_MAX: usize = 10_000;

/// A text that is kept in chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LongText {
    /// The text, in markdown as far as it has a structure.
    pub text: String,
    /// What its keys begin with, within the namespace of the call; `-chunk0` and the like follow.
    pub key: String,
    /// Longest chunk, in UTF-16 code units. They are longer where there would be too many.
    pub chunk_units: usize,
    /// The category of its entries.
    pub category: &'static str,
    /// How long they are kept. `None`: as long as results are.
    pub ttl: Option<Duration>,
}

/// Where a text is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptText {
    /// The key of its outline.
    pub index_key: String,
    /// Its chunks, in order.
    pub chunks: Vec<KeptChunk>,
}

/// Where a chunk is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptChunk {
    /// Its heading, shortened; `None` where it has none.
    pub heading: Option<String>,
    /// Its key.
    pub key: String,
}

impl WorkingMemory {
    /// Keeps a text in chunks in the namespace of a call: all of it, or nothing.
    ///
    /// # Errors
    /// [`Error::NoSession`] where the call has no namespace; else why it cannot be kept.
    pub async fn keep_text(&self, scope: &Scope, text: LongText) -> Result<KeptText, Error> {
        let namespace = Namespace::of(scope)?;
        let config = self.config();
        let (bytes, max) = (text.text.len() as u64, config.result_entries_bytes_max);
        if bytes > max {
            return Err(Error::TooLarge { what: "result", bytes, max });
        }

        let LongText { text, key: name, chunk_units, category, ttl } = text;
        let parts_max = config.result_chunks_max;
        // A large text takes a while.
        let cutting = tokio::task::spawn_blocking(move || cut(&text, chunk_units, parts_max));
        // It does not panic; a process that ends has no use for an answer.
        let parts = cutting.await.unwrap_or_default();

        let path = |suffix: String| namespace.path_of(&format!("{name}-{suffix}"));
        let entry = |path, value: String| {
            let entry = NewEntry::new(path, value).with_category(Some(category))?.of_result();
            Ok::<_, Error>(match ttl {
                Some(ttl) => entry.with_ttl(ttl),
                None => entry,
            })
        };
        let mut chunks = Vec::with_capacity(parts.len());
        let mut entries = Vec::with_capacity(parts.len() + 1);
        for (at, part) in parts.iter().enumerate() {
            let path = path(format!("chunk{at}"))?;
            let label = part.label();
            let heading = is_named(&label).then(|| label_of(&label, at));
            chunks.push(KeptChunk { heading, key: path.to_string() });
            entries.push(entry(path, part.content.clone())?);
        }

        let index = path("index".to_owned())?;
        entries.push(entry(index.clone(), outline_of(&parts, &chunks))?);
        self.save_all(&MemoryOwner::of(scope), entries).await?;
        Ok(KeptText { index_key: index.to_string(), chunks })
    }
}

impl KeptText {
    /// The rows of a table of the chunks, each in a line that begins with a line break. What has no
    /// heading is called `fallback` and its number.
    #[must_use]
    pub fn rows(&self, fallback: &str) -> String {
        let rows = self.chunks.iter().enumerate().map(|(at, chunk)| {
            let heading = match &chunk.heading {
                Some(heading) => heading.replace('|', "\\|"),
                None => format!("{fallback} {at}"),
            };
            format!("\n| {at} | {heading} | `{}` |", chunk.key)
        });
        rows.collect()
    }
}

fn outline_of(parts: &[Part], chunks: &[KeptChunk]) -> String {
    let parts = parts.iter().zip(chunks).enumerate();
    build_outline(parts.flat_map(|(number, (part, chunk))| {
        part.outlined().into_iter().map(move |heading| OutlineEntry {
            heading: &heading.text,
            number,
            level: heading.level,
            key: &chunk.key,
        })
    }))
}

/// The parts that a text is kept in.
fn cut(text: &str, units_max: usize, parts_max: usize) -> Vec<Part> {
    let chunker = ContentChunker::new(units_max);
    let chunks = match has_more_headings(text, HEADINGS_MAX) {
        true => chunker.chunk_without_headings(text),
        false => chunker.chunk(text),
    };
    fit_chunks(chunks, parts_max, units_max)
}
