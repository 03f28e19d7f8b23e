//! Ranking texts that are searched once: each is read once, and nothing is kept.

use std::collections::HashMap;

use memchr::memmem::Finder;

use super::query::Query;
use super::{Collection, PHRASE_WEIGHT, Ranked, TOKEN_CHARS_MIN, best_first, runs};

/// What one text has of a query.
struct Counts {
    tokens: u32,
    /// By the terms, then the phrases of the query.
    frequencies: Vec<u32>,
}

/// The texts that a query finds, best first.
#[must_use]
pub fn rank<T: AsRef<str>>(documents: &[T], query: &str) -> Vec<Ranked> {
    let query = Query::parse(query);
    if query.terms.is_empty() {
        return Vec::new();
    }

    let terms: HashMap<&[u8], usize> =
        query.terms.iter().enumerate().map(|(at, term)| (term.as_bytes(), at)).collect();
    let phrases: Vec<String> = query.phrases.iter().map(|phrase| phrase.text()).collect();
    let finders: Vec<_> = phrases.iter().map(|phrase| Finder::new(phrase.as_bytes())).collect();
    let counts: Vec<_> =
        documents.iter().map(|document| count(document.as_ref(), &terms, &finders)).collect();

    let tokens = counts.iter().map(|counts| u64::from(counts.tokens)).sum();
    let collection = Collection::new(documents.len(), tokens);
    let mut scores = vec![0.0; documents.len()];
    for at in 0..terms.len() + finders.len() {
        let matching = counts.iter().filter(|counts| counts.frequencies[at] > 0).count();
        let weight = if at < terms.len() { 1.0 } else { PHRASE_WEIGHT };
        let idf = collection.idf(matching);
        for (score, counts) in scores.iter_mut().zip(&counts) {
            if counts.frequencies[at] > 0 {
                *score += weight * collection.score(idf, counts.frequencies[at], counts.tokens);
            }
        }
    }
    best_first(&scores, usize::MAX)
}

fn count(document: &str, terms: &HashMap<&[u8], usize>, phrases: &[Finder<'_>]) -> Counts {
    let text = document.to_ascii_lowercase();
    let text = text.as_bytes();
    let mut counts = Counts { tokens: 0, frequencies: vec![0; terms.len() + phrases.len()] };

    for run in runs(text).filter(|run| run.len() >= TOKEN_CHARS_MIN) {
        counts.tokens = counts.tokens.saturating_add(1);
        if let Some(term) = terms.get(&text[run]) {
            counts.frequencies[*term] += 1;
        }
    }
    for (at, phrase) in phrases.iter().enumerate() {
        let found = phrase.find_iter(text).count();
        counts.frequencies[terms.len() + at] = u32::try_from(found).unwrap_or(u32::MAX);
    }
    counts
}
