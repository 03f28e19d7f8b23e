//! BM25 over short texts, as RockBot's ranker computes it (`rockbot.md` §4.1).
//!
//! Tokens are runs of ASCII letters and digits of three characters or more, in lower case. Beside
//! its terms, a query scores by its phrases: each pair of neighbouring tokens, joined by a space,
//! counts twice as much, and is looked for in the text as it is, so `rock music` is found in
//! `hardrock musical`.

mod index;
mod query;
mod scan;

pub use index::Bm25Index;
pub use query::{QUERY_BYTES_MAX, QUERY_TERMS_MAX};
pub use scan::rank;

/// How fast more of the same term stops to count.
const K1: f64 = 1.5;
/// How much the length of a text counts.
const B: f64 = 0.75;
/// How much more a phrase counts than a term.
const PHRASE_WEIGHT: f64 = 2.0;
/// Shortest token, in characters.
const TOKEN_CHARS_MIN: usize = 3;

/// A text that a query found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ranked {
    /// Its place among the texts, from 0.
    pub document: usize,
    /// Its score, more than 0.
    pub score: f64,
}

/// What scores are computed with, for all texts of one search.
#[derive(Debug, Clone, Copy)]
struct Collection {
    documents: usize,
    average_tokens: f64,
}

impl Collection {
    fn new(documents: usize, tokens: u64) -> Self {
        let average = if documents == 0 { 0.0 } else { tokens as f64 / documents as f64 };
        Self { documents, average_tokens: if average == 0.0 { 1.0 } else { average } }
    }

    /// How much a term or phrase says that so many texts have.
    fn idf(&self, matching: usize) -> f64 {
        let (documents, matching) = (self.documents as f64, matching as f64);
        ((documents - matching + 0.5) / (matching + 0.5) + 1.0).ln()
    }

    /// What a text of so many tokens scores by a term that it has so many times.
    fn score(&self, idf: f64, frequency: u32, tokens: u32) -> f64 {
        let frequency = f64::from(frequency);
        let length = f64::from(tokens) / self.average_tokens;
        idf * (frequency * (K1 + 1.0)) / (frequency + K1 * (1.0 - B + B * length))
    }
}

/// The runs of letters and digits of a text in lower case, as ranges of its bytes.
fn runs(text: &[u8]) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + text[at..].iter().position(u8::is_ascii_alphanumeric)?;
        let length = text[start..].iter().position(|byte| !byte.is_ascii_alphanumeric());
        at = length.map_or(text.len(), |length| start + length);
        Some(start..at)
    })
}

/// The texts that scored, best first; of the same score, in their order.
fn best_first(scores: &[f64], limit: usize) -> Vec<Ranked> {
    let scored = scores.iter().enumerate().filter(|(_, score)| **score > 0.0);
    let mut ranked: Vec<_> =
        scored.map(|(document, score)| Ranked { document, score: *score }).collect();
    let order = |one: &Ranked, other: &Ranked| {
        other.score.total_cmp(&one.score).then(one.document.cmp(&other.document))
    };

    if limit == 0 {
        return Vec::new();
    }
    if limit < ranked.len() {
        ranked.select_nth_unstable_by(limit - 1, order);
        ranked.truncate(limit);
    }
    ranked.sort_unstable_by(order);
    ranked
}

#[cfg(test)]
mod tests;
