//! What the short run lets pass: the one place where it is looser than the invariants. Each number
//! must go down to 0 as the product improves.

use crate::judge::Verdict;

/// Most violations of each invariant.
#[derive(Debug, Clone, Copy)]
pub struct Allowed {
    /// I1: calls without an outcome, or with two.
    pub lost: u64,
    /// I1: outcomes that come late.
    pub late: u64,
    /// I1: calls told as `timeout` whose effect had ended.
    pub timeout_lies: u64,
    /// I2: effects that happen twice.
    pub doubled: u64,
    /// I3: `ok` without its effect.
    pub ok_lies: u64,
    /// I4: told as not started, and ran.
    pub not_started_lies: u64,
    /// I5: told as retryable, and ran.
    pub retryable_lies: u64,
    /// I6: `outcome_unknown` that a living process knew better.
    pub unknown_false: u64,
    /// I7: effects that start after the end of their call.
    pub begun_after_end: u64,
    /// I8: processes over their memory, and messages left in queues.
    pub leftovers: u64,
    /// I9: processes that stop late.
    pub slow_stops: u64,
}

impl Allowed {
    /// What is wrong with a verdict, in a line for each invariant.
    #[must_use]
    pub fn find_excess(&self, verdict: &Verdict) -> Vec<String> {
        let ok_lies = verdict.ok_without_effect + verdict.ok_with_wrong_text;
        let counts = [
            ("I1: lost", verdict.lost, self.lost),
            ("I1: late", verdict.late, self.late),
            ("I1: timeout, and had ended", verdict.ended_but_timed_out, self.timeout_lies),
            ("I2: doubled", verdict.doubled, self.doubled),
            ("I3: ok without its effect", ok_lies, self.ok_lies),
            ("I4: not started, and ran", verdict.not_started_but_ran, self.not_started_lies),
            ("I5: retryable, and ran", verdict.retryable_but_ran, self.retryable_lies),
            ("I6: unknown, falsely", verdict.unknown_false(), self.unknown_false),
            ("I7: begun after the end", verdict.begun_after_end, self.begun_after_end),
            ("I8: left over", verdict.over_memory + verdict.messages_left, self.leftovers),
            ("I9: slow to stop", verdict.slow_stops, self.slow_stops),
        ];
        let excess = counts.into_iter().filter(|(_, counted, allowed)| counted > allowed);
        excess
            .map(|(what, counted, allowed)| format!("{what}: {counted}, allowed {allowed}"))
            .collect()
    }
}

/// Nothing: where the product is to come to.
pub const NOTHING: Allowed = Allowed {
    lost: 0,
    late: 0,
    timeout_lies: 0,
    doubled: 0,
    ok_lies: 0,
    not_started_lies: 0,
    retryable_lies: 0,
    unknown_false: 0,
    begun_after_end: 0,
    leftovers: 0,
    slow_stops: 0,
};

/// The short run under every fault but the alarms.
pub const FAULTS: Allowed = Allowed {
    // The deadline came while the caller, or the worker that had the reply, was cut off; or the
    // reply was in the private queue of a caller when the broker was killed: at most all calls that
    // are in flight then, 8 of each of 2 callers.
    timeout_lies: 16,
    // A worker was handed requests, and was cut off or stopped before it had begun them: only it
    // knows that.
    unknown_false: 10,
    // The request was on its way from the worker to the server when the cancel came to the worker,
    // or a slow link held the cancel up.
    begun_after_end: 6,
    ..NOTHING
};

/// The short run while nodes of three go.
pub const NODES: Allowed = Allowed {
    // The request or its confirm was lost with the connection to a node, and nothing tells which.
    // 16 calls are in flight at a strike.
    unknown_false: 10,
    // A cancel was lost with a connection, or with the private queue that lived on the node.
    begun_after_end: 2,
    // The reply went to a private queue that was lost with its node.
    timeout_lies: 3,
    ..NOTHING
};

/// The short run under the alarms.
pub const ALARMS: Allowed = Allowed {
    // The deadline came during the alarm, when no reply can be published.
    timeout_lies: 12,
    // A call and its cancel are held up alike, and arrive in any order.
    begun_after_end: 6,
    ..NOTHING
};
