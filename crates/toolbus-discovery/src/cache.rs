//! The cache of answers: bounded in their number, their size and their age.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::category::Category;
use crate::config::DiscoveryLimits;
use crate::request::Retrieved;

/// What an answer takes beside its texts, in bytes.
const ENTRY_BYTES: usize = 512;
/// What a tool of an answer takes, in bytes.
const TOOL_BYTES: usize = 160;

/// All that an answer depends on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct CacheKey {
    /// Who asks, where that is known: history is personal.
    pub(crate) owner: Option<Arc<str>>,
    /// The tools that the caller may use.
    pub(crate) permissions: Fingerprint,
    /// The query, normalised.
    pub(crate) query: String,
    pub(crate) server: Option<String>,
    pub(crate) category: Option<Category>,
    /// The bits of the least score.
    pub(crate) score_min: Option<u64>,
    pub(crate) limit: usize,
    pub(crate) has_factors: bool,
    /// The server of the caller's last tool.
    pub(crate) previous_server: Option<String>,
    pub(crate) is_after_hours: bool,
    /// What is indexed.
    pub(crate) index_version: u64,
    /// What was learned of all, and of the caller.
    pub(crate) epochs: (u64, u64),
}

/// Which of a list of tools are meant, in few bytes that nobody can choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Fingerprint([u64; 2]);

/// An answer, and what is recorded of it.
#[derive(Clone)]
pub(crate) struct CachedAnswer {
    pub(crate) answer: Retrieved,
    /// The tools that were ranked.
    pub(crate) retrieved: Arc<[String]>,
    /// The factors of each, by its id.
    pub(crate) scores: Arc<serde_json::Value>,
}

/// Answers by all that they depend on.
pub(crate) struct AnswerCache {
    answers: HashMap<CacheKey, Cached>,
    bytes: usize,
    /// Grows with every use.
    clock: u64,
    limits: DiscoveryLimits,
    hashers: [RandomState; 2],
}

struct Cached {
    answer: Arc<CachedAnswer>,
    bytes: usize,
    used: u64,
    until: Instant,
}

impl AnswerCache {
    pub(crate) fn new(limits: DiscoveryLimits) -> Self {
        let hashers = [RandomState::new(), RandomState::new()];
        Self { answers: HashMap::new(), bytes: 0, clock: 0, limits, hashers }
    }

    /// The fingerprint of these tools.
    pub(crate) fn fingerprint(&self, tools: &[bool]) -> Fingerprint {
        Fingerprint([self.hashers[0].hash_one(tools), self.hashers[1].hash_one(tools)])
    }

    /// The answer that is known, if it is not too old.
    pub(crate) fn find(&mut self, key: &CacheKey) -> Option<Arc<CachedAnswer>> {
        self.clock += 1;
        let cached = self.answers.get_mut(key)?;
        if cached.until <= Instant::now() {
            self.remove(key);
            return None;
        }
        cached.used = self.clock;
        Some(Arc::clone(&cached.answer))
    }

    /// Keeps an answer; those that were not used for longest make room for it.
    pub(crate) fn insert(&mut self, key: CacheKey, answer: CachedAnswer) {
        let bytes = size(&key, &answer);
        if bytes > self.limits.cache_bytes_max || self.limits.cache_entries_max == 0 {
            return;
        }
        self.remove(&key);
        while self.answers.len() >= self.limits.cache_entries_max
            || self.bytes + bytes > self.limits.cache_bytes_max
        {
            let oldest = self.answers.iter().min_by_key(|(_, cached)| cached.used);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { break };
            self.remove(&oldest);
        }

        self.clock += 1;
        let until = Instant::now() + self.ttl(&answer);
        let cached = Cached { answer: Arc::new(answer), bytes, used: self.clock, until };
        self.bytes += bytes;
        self.answers.insert(key, cached);
    }

    /// Forgets every answer.
    pub(crate) fn clear(&mut self) {
        self.answers.clear();
        self.bytes = 0;
    }

    fn ttl(&self, answer: &CachedAnswer) -> Duration {
        match answer.answer.by_words_alone {
            true => self.limits.words_cache_ttl,
            false => self.limits.cache_ttl,
        }
    }

    fn remove(&mut self, key: &CacheKey) {
        if let Some(gone) = self.answers.remove(key) {
            self.bytes -= gone.bytes;
        }
    }
}

fn size(key: &CacheKey, answer: &CachedAnswer) -> usize {
    let texts = [
        key.query.len(),
        key.owner.as_ref().map_or(0, |text| text.len()),
        key.server.as_ref().map_or(0, String::len),
        key.previous_server.as_ref().map_or(0, String::len),
    ];
    let answer_texts = answer.retrieved.iter().map(String::len).sum::<usize>()
        + answer.answer.recommended_servers.iter().map(String::len).sum::<usize>();
    // Factors are numbers beside a name.
    let scores = answer.retrieved.len() * 2 * TOOL_BYTES;
    ENTRY_BYTES
        + texts.iter().sum::<usize>()
        + 2 * answer_texts
        + scores
        + answer.answer.tools.len() * TOOL_BYTES
}

#[cfg(test)]
mod tests;
