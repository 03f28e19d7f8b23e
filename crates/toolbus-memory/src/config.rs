//! What memory may keep, and for how long.

use std::sync::Arc;
use std::time::Duration;

use toolbus_tools::Scope;

/// How long a result is that is given as it is, in UTF-16 code units, where nobody says more.
pub const RESULT_THRESHOLD_DEFAULT: usize = 64_000;
/// The least that a chunk of a result may have, in UTF-16 code units, so that few of them are read.
const CHUNK_UNITS_MIN: usize = 20_000;

/// What memory may keep, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryConfig {
    /// How long an entry of working memory is kept where nobody says.
    pub ttl: Duration,
    /// The longest time that somebody can say.
    pub ttl_max: Duration,
    /// Most entries of one namespace, without those of large results.
    pub entries_max: u64,
    /// The largest of them, in bytes.
    pub entry_bytes_max: u64,
    /// Most bytes of all of them.
    pub entries_bytes_max: u64,
    /// Most entries of all namespaces of an owner, those of large results among them.
    pub owner_entries_max: u64,
    /// Most bytes of all of them.
    pub owner_bytes_max: u64,
    /// Most bytes that one search reads. The newest entries are read first.
    pub searched_bytes_max: u64,
    /// How long the chunks of a large result are kept.
    pub result_ttl: Duration,
    /// Most chunks of one result. Where it has more, they are put together.
    pub result_chunks_max: usize,
    /// Most entries of large results in one namespace, chunks and indexes.
    pub result_entries_max: u64,
    /// Most bytes of all of them.
    pub result_entries_bytes_max: u64,
}

/// How long a result may be for the model of a call, in UTF-16 code units. Clones are the same.
#[derive(Clone)]
pub struct ResultThreshold(Arc<dyn Fn(&Scope) -> usize + Send + Sync>);

impl Default for MemoryConfig {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(5 * 60),
            ttl_max: Duration::from_secs(7 * 24 * 60 * 60),
            entries_max: 50,
            entry_bytes_max: 1 << 20,
            entries_bytes_max: 16 << 20,
            owner_entries_max: 20_000,
            owner_bytes_max: 1 << 30,
            searched_bytes_max: 96 << 20,
            result_ttl: Duration::from_secs(20 * 60),
            result_chunks_max: 49,
            result_entries_max: 500,
            result_entries_bytes_max: 64 << 20,
        }
    }
}

impl ResultThreshold {
    /// What this function says of a call, by its scope: whoever runs models knows which one reads.
    #[must_use]
    pub fn by(threshold: impl Fn(&Scope) -> usize + Send + Sync + 'static) -> Self {
        Self(Arc::new(threshold))
    }

    /// How long a result may be to be given as it is.
    pub(crate) fn of(&self, scope: &Scope) -> usize {
        (self.0)(scope)
    }

    /// How long a chunk may be, and what is read of an entry at a time.
    pub(crate) fn chunk_units(&self, scope: &Scope) -> usize {
        self.of(scope).max(CHUNK_UNITS_MIN)
    }
}

impl Default for ResultThreshold {
    fn default() -> Self {
        Self::by(|_| RESULT_THRESHOLD_DEFAULT)
    }
}
