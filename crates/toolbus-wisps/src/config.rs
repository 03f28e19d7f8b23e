//! What one call may ask for, how long its parts may take, and what is kept of it.

use std::num::NonZeroUsize;
use std::time::Duration;

/// What one call may ask for, how long its parts may take, and what is kept of it.
#[derive(Debug, Clone)]
pub struct WispsConfig {
    /// Most wisps of one call.
    pub wisps_max: usize,
    /// Most steps of one wisp.
    pub steps_max: usize,
    /// Most bytes of all definitions of a call: their texts and the names of their members.
    pub definitions_bytes_max: usize,
    /// Most values in them.
    pub definitions_values_max: usize,
    /// How deep they may be nested.
    pub definitions_depth_max: usize,
    /// Wisps of one call that run at a time.
    pub concurrent_max: NonZeroUsize,
    /// Calls of the tool that run at a time, in one process. One more is told that it is busy.
    pub batches_max: usize,
    /// The same of one owner, so that nobody takes them all.
    pub owner_batches_max: usize,
    /// How long a call may take, all wisps together. Those that have not ended then have failed.
    pub timeout: Duration,
    /// How long calls that run at that time have to end.
    pub cancel_grace: Duration,
    /// How long another agent may take where the step does not say.
    pub agent_timeout: Duration,
    /// How long is waited for MCP servers to be there before the first step runs.
    pub mcp_ready_timeout: Duration,
    /// Most bytes of what a step gives to its tool, agent or model, with templates filled in.
    pub rendered_bytes_max: usize,
    /// Most bytes that are taken of the result of a step. What is longer is cut, and says so.
    pub result_bytes_max: usize,
    /// Most tokens that the completions of one call use. `None`: as much as the caller may.
    pub tokens_max: Option<u64>,
    /// How much of each earlier result a completion is told, in characters.
    pub prior_chars_max: usize,
    /// How much of an input is put into a prompt or a message, in characters. What is longer is
    /// kept in chunks beside.
    pub input_chars_max: usize,
    /// The length of those chunks, in characters.
    pub chunk_chars_max: NonZeroUsize,
    /// How long they are kept.
    pub chunk_ttl: Duration,
    /// How much of a wisp's output is in the result of the call, in characters.
    pub preview_chars_max: usize,
    /// How long the outputs of steps are kept, and that a step was begun.
    pub output_ttl: Duration,
    /// How long outputs are kept once their wisp has succeeded.
    pub succeeded_ttl: Duration,
    /// How long the summary of a call is kept.
    pub summary_ttl: Duration,
    /// How many wisps of one owner may fail within [`failures_interval`](Self::failures_interval)
    /// before no more are started.
    pub failures_max: usize,
    /// How long a failure counts.
    pub failures_interval: Duration,
}

impl Default for WispsConfig {
    fn default() -> Self {
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);

        Self {
            wisps_max: 100,
            steps_max: 20,
            definitions_bytes_max: 512 << 10,
            definitions_values_max: 20_000,
            definitions_depth_max: 32,
            concurrent_max: const { NonZeroUsize::new(10).expect("10 is not zero") },
            batches_max: 16,
            owner_batches_max: 8,
            timeout: minutes(15),
            cancel_grace: Duration::from_secs(2),
            agent_timeout: minutes(5),
            mcp_ready_timeout: Duration::from_secs(5),
            rendered_bytes_max: 1 << 20,
            result_bytes_max: 256 << 10,
            tokens_max: Some(500_000),
            prior_chars_max: 4_000,
            input_chars_max: 8_000,
            chunk_chars_max: const { NonZeroUsize::new(20_000).expect("20 000 is not zero") },
            chunk_ttl: minutes(30),
            preview_chars_max: 2_000,
            output_ttl: minutes(60),
            succeeded_ttl: minutes(5),
            summary_ttl: minutes(60),
            failures_max: 30,
            failures_interval: minutes(5),
        }
    }
}
