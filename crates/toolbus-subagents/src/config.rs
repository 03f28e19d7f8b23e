//! How many subagents there may be, how long they may take, and how much they may say.

use std::time::Duration;

/// How many subagents there may be, how long they may take, and how much they may say.
#[derive(Debug, Clone)]
pub struct SubagentsConfig {
    /// Most subagents of a principal that are active at a time in a session. Those that are paused
    /// are none of them.
    pub concurrent_max: usize,
    /// Most subagents that one process runs at a time, those that are paused included.
    pub process_max: usize,
    /// How long a subagent may take, where nobody says.
    pub timeout: Duration,
    /// The longest that may be said.
    pub timeout_max: Duration,
    /// Longest description, in bytes.
    pub description_bytes_max: usize,
    /// Longest context, in bytes.
    pub context_bytes_max: usize,
    /// Longest report of progress, in bytes.
    pub progress_bytes_max: usize,
    /// Longest result, in bytes. What is over that is left out, and that is said.
    pub result_bytes_max: usize,
    /// How long a process that was killed keeps a subagent to itself. It is renewed in a third of
    /// it.
    pub lease_ttl: Duration,
    /// How long a process that was killed keeps an end to itself that it was telling. It is renewed
    /// in a third of it.
    pub claim_ttl: Duration,
    /// How long a subagent may go on that was cancelled. It is dropped then.
    pub cancel_grace: Duration,
    /// Time that a subagent has to end after its own time is over.
    pub timeout_grace: Duration,
    /// Longest time between two looks for work and ends of lost processes, while there is any.
    pub look_interval: Duration,
    /// Time during which only the process that ran a subagent tells its end.
    pub handover_grace: Duration,
    /// Time before an end that could not be taken is told again. It doubles each time, up to 5
    /// seconds.
    pub tell_backoff: Duration,
    /// How long it may take to tell an end: it is a turn of the agent.
    pub tell_timeout: Duration,
    /// How long subagents are remembered after their end was told, and ends that no session takes.
    pub history_ttl: Duration,
    /// Most subagents of the agent that are remembered.
    pub history_max: u64,
    /// What bounds the whiteboards.
    pub whiteboard: WhiteboardLimits,
}

/// What bounds whiteboards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WhiteboardLimits {
    /// Most entries of a whiteboard.
    pub entries_max: u64,
    /// Longest key, in bytes.
    pub key_bytes_max: usize,
    /// Longest value, in bytes.
    pub value_bytes_max: usize,
    /// Most bytes of a whiteboard, keys and values together.
    pub bytes_max: u64,
    /// Most entries of all whiteboards of the agent.
    pub agent_entries_max: u64,
    /// How long an entry is kept that is not written again.
    pub entry_ttl: Duration,
}

impl Default for SubagentsConfig {
    fn default() -> Self {
        Self {
            concurrent_max: 3,
            process_max: 16,
            timeout: Duration::from_secs(10 * 60),
            timeout_max: Duration::from_secs(60 * 60),
            description_bytes_max: 32 << 10,
            context_bytes_max: 256 << 10,
            progress_bytes_max: 4 << 10,
            result_bytes_max: 1 << 20,
            lease_ttl: Duration::from_secs(10),
            claim_ttl: Duration::from_secs(30),
            cancel_grace: Duration::from_secs(10),
            timeout_grace: Duration::from_secs(2),
            look_interval: Duration::from_secs(1),
            handover_grace: Duration::from_secs(3),
            tell_backoff: Duration::from_millis(500),
            tell_timeout: Duration::from_secs(30 * 60),
            history_ttl: Duration::from_secs(24 * 60 * 60),
            history_max: 10_000,
            whiteboard: WhiteboardLimits::default(),
        }
    }
}

impl Default for WhiteboardLimits {
    fn default() -> Self {
        Self {
            entries_max: 100,
            key_bytes_max: 128,
            value_bytes_max: 64 << 10,
            bytes_max: 1 << 20,
            agent_entries_max: 10_000,
            entry_ttl: Duration::from_secs(24 * 60 * 60),
        }
    }
}

/// A time in milliseconds.
pub(crate) fn ms(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
