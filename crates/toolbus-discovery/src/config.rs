//! What is set of discovery.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;
use toolbus_wire::clock::unix_now;

use crate::category::Category;

/// What is set of discovery. The patterns are those of views: `*` stands for any text.
#[derive(Clone)]
pub struct DiscoveryConfig {
    /// The zone whose hours are those of the day.
    pub time_zone: TimeZone,
    /// Which tools are certified, by patterns of their ids. A server cannot certify itself.
    pub certified: Vec<String>,
    /// Which tools are asynchronous, by patterns of their ids, beside those that are measured so.
    pub asynchronous: Vec<String>,
    /// The categories of tools, by patterns of their ids, where they are not guessed.
    pub categories: Vec<(String, Category)>,
    /// Servers that may be installed, which are recommended where no tool fits.
    pub known_servers: Vec<KnownServer>,
    /// Whether a schema with properties and without `required` will do, as JSON Schema has it.
    pub may_omit_required: bool,
    /// Bounds of what is kept.
    pub limits: DiscoveryLimits,
    /// What time it is.
    pub clock: Clock,
}

/// A server that may be installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownServer {
    /// Its name.
    pub name: String,
    /// What it is for, in words.
    pub summary: String,
}

/// Bounds of what is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscoveryLimits {
    /// Tools of which there are statistics.
    pub tools_max: usize,
    /// Principals and tools that they have used, together.
    pub uses_max: usize,
    /// Pairs of tools that were used one after the other.
    pub pairs_max: usize,
    /// Events of each kind that are kept.
    pub events_max: u64,
    /// How long an event is kept.
    pub events_ttl: Duration,
    /// Answers that are cached.
    pub cache_entries_max: usize,
    /// Their size.
    pub cache_bytes_max: usize,
    /// How long an answer is cached.
    pub cache_ttl: Duration,
    /// How long one is cached that was ranked by words alone: the model may answer again.
    pub words_cache_ttl: Duration,
}

/// Tells the time since 1970.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Duration + Send + Sync>);

impl Default for DiscoveryConfig {
    fn default() -> Self {
        Self {
            time_zone: TimeZone::UTC,
            certified: Vec::new(),
            asynchronous: Vec::new(),
            categories: Vec::new(),
            known_servers: Vec::new(),
            may_omit_required: false,
            limits: DiscoveryLimits::default(),
            clock: Clock::default(),
        }
    }
}

impl Default for DiscoveryLimits {
    fn default() -> Self {
        Self {
            tools_max: 20_000,
            uses_max: 100_000,
            pairs_max: 20_000,
            events_max: 100_000,
            events_ttl: Duration::from_secs(30 * 24 * 60 * 60),
            cache_entries_max: 1_000,
            cache_bytes_max: 16 << 20,
            cache_ttl: Duration::from_secs(60 * 60),
            words_cache_ttl: Duration::from_secs(60),
        }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new(unix_now)
    }
}

impl Clock {
    /// The clock that this function reads.
    pub fn new(read: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    pub(crate) fn now_ms(&self) -> i64 {
        i64::try_from((self.0)().as_millis()).unwrap_or(i64::MAX)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", (self.0)())
    }
}

impl fmt::Debug for DiscoveryConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiscoveryConfig").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl DiscoveryConfig {
    /// Whether it is 17:00 or later.
    pub(crate) fn is_after_hours(&self) -> bool {
        /// The hour at which the working day ends.
        const EVENING: i8 = 17;
        let now = jiff::Timestamp::from_millisecond(self.clock.now_ms()).unwrap_or_default();
        now.to_zoned(self.time_zone.clone()).hour() >= EVENING
    }
}
