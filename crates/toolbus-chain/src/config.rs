//! What a chain may take.

use std::time::Duration;

/// What a chain may take. The names and the values are those of the seed's policy of chains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainPolicy {
    /// Calls of tools in one chain.
    pub tool_calls_max: u64,
    /// How long the tool of one call may run. What an approval takes does not count.
    pub call_timeout: Duration,
    /// How long a chain may take as a whole.
    pub total_timeout: Duration,
}

impl Default for ChainPolicy {
    fn default() -> Self {
        Self {
            tool_calls_max: 50,
            call_timeout: Duration::from_secs(60),
            total_timeout: Duration::from_secs(300),
        }
    }
}
