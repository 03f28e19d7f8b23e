//! How artifacts are kept.

use std::time::Duration;

use toolbus_tools::Door;

/// How artifacts are kept, and what becomes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactConfig {
    /// The most that a text or a value may have to be given to a caller as it is, in bytes.
    pub inline_bytes: usize,
    /// The doors whose callers get references in the place of larger ones.
    pub doors: Vec<Door>,
    /// How long an artifact is kept that nobody pins.
    pub ttl: Duration,
    /// The largest artifact, in bytes.
    pub artifact_bytes_max: u64,
    /// Most bytes that one session keeps.
    pub session_bytes_max: u64,
    /// Most artifacts that one session keeps.
    pub session_artifacts_max: u64,
}

impl Default for ArtifactConfig {
    fn default() -> Self {
        Self {
            inline_bytes: 4096,
            doors: vec![Door::Turn, Door::Chain],
            ttl: Duration::from_secs(3600),
            artifact_bytes_max: 1 << 30,
            session_bytes_max: 4 << 30,
            session_artifacts_max: 100_000,
        }
    }
}
