//! The judge: compares what callers were told with what the effects did, and counts where an
//! invariant does not hold. It reads evidence alone and knows nothing of the fleet.
//!
//! | | invariant |
//! |---|---|
//! | I1 | each intent of a caller that lives has one outcome, by its deadline and [`OUTCOME_GRACE`], and is not told `timeout` where its effect had ended long before |
//! | I2 | an effect that may not be repeated starts at most once |
//! | I3 | who was told `ok` has an effect that ended, and its text |
//! | I4 | who was told that nothing was started has no effect |
//! | I5 | who was told to call again has no effect, where it may not be repeated |
//! | I6 | `outcome_unknown` is told only where a process that held the call was killed |
//! | I7 | no effect starts after its caller was told `cancelled` or `timeout` |
//! | I8 | no process has more memory than the chart gives it, and no queue keeps a message |
//! | I9 | who is asked to stop ends in time |

mod evidence;

use std::collections::BTreeMap;
use std::time::Duration;

pub use evidence::{CallerEvidence, Evidence, MemoryPeak, QueueRest, Span, StopEvidence};

use crate::record::{
    CallRecord, CallResult, EffectEvent, EffectRecord, Intent, OutcomeRecord, digest, reply_text,
};

#[cfg(test)]
mod tests;

/// How late an outcome may be.
pub const OUTCOME_GRACE: Duration = Duration::from_secs(2);
/// Longest time between an outcome and a later start of its effect. On a busy machine a cancel
/// message takes that long to reach the worker. I4 has no such allowance: an effect that starts
/// after an outcome with `execution: not_started` is always a violation.
const START_GRACE: Duration = Duration::from_secs(1);
/// Findings that are told of each invariant.
const FINDINGS_MAX: usize = 5;
/// Codes that say that nothing was started.
const NOT_STARTED_CODES: [&str; 7] = [
    "busy",
    "unroutable",
    "denied",
    "tool_not_found",
    "rate_limited",
    "invalid_arguments",
    "auth_required",
];

/// What was counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Intents.
    pub calls: u64,
    /// Calls that were answered.
    pub ok: u64,
    /// Calls by the code that they ended with.
    pub codes: BTreeMap<String, u64>,
    /// I1: calls of living callers without an outcome, or with two.
    pub lost: u64,
    /// I1: calls whose outcome was late.
    pub late: u64,
    /// I1: calls told as `timeout` whose effect had ended [`OUTCOME_GRACE`] before.
    pub ended_but_timed_out: u64,
    /// I2: effects that started more than once and may not.
    pub doubled: u64,
    /// Effects that started more than once and may.
    pub repeated: u64,
    /// I3: `ok` without an effect that ended.
    pub ok_without_effect: u64,
    /// I3: `ok` with another text.
    pub ok_with_wrong_text: u64,
    /// I4: told that nothing was started, and it was.
    pub not_started_but_ran: u64,
    /// I5: told to call again, and it had started.
    pub retryable_but_ran: u64,
    /// I6: `outcome_unknown` where a process that held the call was killed, or the effect has no
    /// end.
    pub unknown_true: u64,
    /// I6: `outcome_unknown` where the effect ended and its process was not killed.
    pub unknown_but_ended: u64,
    /// I6: `outcome_unknown` where nothing ever started.
    pub unknown_but_never_ran: u64,
    /// I7: effects that started after the end of their call.
    pub begun_after_end: u64,
    /// I8: processes with more memory than they may have.
    pub over_memory: u64,
    /// I8: messages left in queues, dead letters apart.
    pub messages_left: u64,
    /// I8: dead letters.
    pub dead_letters: u64,
    /// I9: processes that took too long to stop.
    pub slow_stops: u64,
    /// The first findings of each invariant.
    pub findings: BTreeMap<&'static str, Vec<String>>,
}

impl Verdict {
    /// Outcomes that contradict what happened: I3, I4, I5.
    #[must_use]
    pub fn lies(&self) -> u64 {
        self.ok_without_effect
            + self.ok_with_wrong_text
            + self.not_started_but_ran
            + self.retryable_but_ran
    }

    /// `outcome_unknown` that somebody alive knew better.
    #[must_use]
    pub fn unknown_false(&self) -> u64 {
        self.unknown_but_ended + self.unknown_but_never_ran
    }

    fn add_finding(&mut self, invariant: &'static str, text: String) {
        let findings = self.findings.entry(invariant).or_default();
        if findings.len() < FINDINGS_MAX {
            findings.push(text);
        }
    }
}

/// Judges a run.
#[must_use]
pub fn judge(evidence: &Evidence) -> Verdict {
    let mut verdict = Verdict::default();
    let effects = group_effects(&evidence.effects);
    let none = EffectHistory::default();

    for caller in &evidence.callers {
        for call in group_calls(&caller.records) {
            let effect = effects.get(call.intent.id.as_str()).unwrap_or(&none);
            verdict.calls += 1;
            judge_effects(&mut verdict, call.intent, effect);
            judge_delivery(&mut verdict, caller, &call);
            if let Some(outcome) = call.outcomes.first() {
                let told = ToldCall { intent: call.intent, outcome, effect };
                judge_outcome(&mut verdict, &told, &evidence.killed_workers);
            }
        }
    }

    judge_processes(&mut verdict, evidence);
    verdict
}

/// What a caller's ledger has of one call.
struct CallHistory<'a> {
    intent: &'a Intent,
    outcomes: Vec<&'a OutcomeRecord>,
}

/// What the effects' ledger has of one call.
#[derive(Debug, Default)]
struct EffectHistory<'a> {
    starts: Vec<&'a EffectRecord>,
    ends: Vec<&'a EffectRecord>,
}

/// A call with an outcome.
struct ToldCall<'a> {
    intent: &'a Intent,
    outcome: &'a OutcomeRecord,
    effect: &'a EffectHistory<'a>,
}

fn group_effects(records: &[EffectRecord]) -> BTreeMap<&str, EffectHistory<'_>> {
    let mut effects: BTreeMap<&str, EffectHistory<'_>> = BTreeMap::new();
    for record in records {
        let effect = effects.entry(&record.id).or_default();
        match record.event {
            EffectEvent::Start => effect.starts.push(record),
            EffectEvent::End => effect.ends.push(record),
            EffectEvent::Aborted => {}
        }
    }
    effects
}

fn group_calls(records: &[CallRecord]) -> Vec<CallHistory<'_>> {
    let mut calls: BTreeMap<&str, CallHistory<'_>> = BTreeMap::new();
    for record in records {
        match record {
            CallRecord::Intent(intent) => {
                let call = CallHistory { intent, outcomes: Vec::new() };
                calls.insert(&intent.id, call);
            }
            CallRecord::Outcome(outcome) => {
                if let Some(call) = calls.get_mut(outcome.id.as_str()) {
                    call.outcomes.push(outcome);
                }
            }
            CallRecord::CancelRequest { .. } => {}
        }
    }
    calls.into_values().collect()
}

/// I2.
fn judge_effects(verdict: &mut Verdict, intent: &Intent, effect: &EffectHistory<'_>) {
    if effect.starts.len() < 2 {
        return;
    }
    if !intent.tool.may_repeat() {
        verdict.doubled += 1;
        verdict.add_finding("I2", format!("{} by {}", intent.id, name_workers(effect)));
    } else {
        verdict.repeated += 1;
    }
}

/// I1.
fn judge_delivery(verdict: &mut Verdict, caller: &CallerEvidence, call: &CallHistory<'_>) {
    let intent = call.intent;
    match call.outcomes.as_slice() {
        [outcome] => {
            let stood_still = caller.pauses.iter().map(|pause| pause.overlap_ms(intent.at_ms));
            let grace = OUTCOME_GRACE.as_millis() as u64 + stood_still.sum::<u64>();
            if outcome.at_ms > intent.deadline_ms + grace {
                verdict.late += 1;
                let late_ms = outcome.at_ms - intent.deadline_ms;
                verdict.add_finding("I1", format!("{} was {late_ms} ms late", intent.id));
            }
        }
        [] if caller.was_killed => {}
        outcomes => {
            verdict.lost += 1;
            verdict.add_finding("I1", format!("{}: {} outcomes", intent.id, outcomes.len()));
        }
    }
}

/// I3 to I7.
fn judge_outcome(verdict: &mut Verdict, told: &ToldCall<'_>, killed: &BTreeMap<String, Span>) {
    let (code, execution, is_retryable) = match &told.outcome.result {
        CallResult::Ok { digest } => return judge_ok(verdict, told, digest),
        CallResult::Failed { code, execution, is_retryable, .. } => {
            (code.as_str(), execution.as_str(), *is_retryable)
        }
    };
    *verdict.codes.entry(code.to_owned()).or_default() += 1;

    let has_run = !told.effect.starts.is_empty();
    let says_not_started = NOT_STARTED_CODES.contains(&code) || execution == "not_started";
    if has_run && says_not_started {
        verdict.not_started_but_ran += 1;
        verdict.add_finding("I4", describe(told, code));
    } else if has_run && is_retryable && !told.intent.tool.may_repeat() {
        verdict.retryable_but_ran += 1;
        verdict.add_finding("I5", describe(told, code));
    }

    if code == "outcome_unknown" {
        judge_unknown(verdict, told, killed);
    }
    if code == "timeout" {
        judge_timeout(verdict, told);
    }
    if matches!(code, "cancelled" | "timeout") {
        judge_starts(verdict, told, code);
    }
}

/// I3.
fn judge_ok(verdict: &mut Verdict, told: &ToldCall<'_>, told_digest: &str) {
    verdict.ok += 1;
    let expected = digest(&reply_text(&told.intent.id, told.intent.reply_bytes));

    if told.effect.ends.is_empty() {
        verdict.ok_without_effect += 1;
        verdict.add_finding("I3", describe(told, "ok"));
    } else if told_digest != expected {
        verdict.ok_with_wrong_text += 1;
        verdict.add_finding("I3", describe(told, "ok with another text"));
    }
}

/// I6.
fn judge_unknown(verdict: &mut Verdict, told: &ToldCall<'_>, killed: &BTreeMap<String, Span>) {
    let was_killed = |start: &&EffectRecord| {
        let killed = killed.get(&start.worker);
        killed.is_some_and(|at| at.to_ms >= start.at_ms && at.from_ms <= told.outcome.at_ms)
    };
    let effect = told.effect;

    if effect.starts.is_empty() {
        verdict.unknown_but_never_ran += 1;
        verdict.add_finding("I6", describe(told, "never ran"));
    } else if effect.starts.iter().any(was_killed) || effect.ends.is_empty() {
        verdict.unknown_true += 1;
    } else {
        verdict.unknown_but_ended += 1;
        verdict.add_finding("I6", describe(told, "ended"));
    }
}

/// I1: the outcome was there, and did not get to the caller.
fn judge_timeout(verdict: &mut Verdict, told: &ToldCall<'_>) {
    let grace = OUTCOME_GRACE.as_millis() as u64;
    if told.effect.ends.iter().any(|end| end.at_ms + grace <= told.outcome.at_ms) {
        verdict.ended_but_timed_out += 1;
        verdict.add_finding("I1", describe(told, "timeout"));
    }
}

/// I7.
fn judge_starts(verdict: &mut Verdict, told: &ToldCall<'_>, code: &str) {
    let end_ms = told.outcome.at_ms + START_GRACE.as_millis() as u64;
    if told.effect.starts.iter().any(|start| start.at_ms > end_ms) {
        verdict.begun_after_end += 1;
        verdict.add_finding("I7", describe(told, code));
    }
}

/// I8 and I9.
fn judge_processes(verdict: &mut Verdict, evidence: &Evidence) {
    for peak in evidence.memory.iter().filter(|peak| peak.peak_mib > peak.limit_mib) {
        let MemoryPeak { process, peak_mib, limit_mib } = peak;
        verdict.over_memory += 1;
        verdict.add_finding("I8", format!("{process} had {peak_mib} MiB of {limit_mib}"));
    }

    for queue in &evidence.queues {
        if queue.is_dead_letters {
            verdict.dead_letters += queue.messages;
        } else {
            verdict.messages_left += queue.messages;
        }
        verdict.add_finding("I8", format!("{} messages in {}", queue.messages, queue.name));
    }

    for stop in evidence.stops.iter().filter(|stop| stop.took > stop.limit) {
        verdict.slow_stops += 1;
        verdict.add_finding("I9", format!("{} took {:?}", stop.process, stop.took));
    }
}

fn describe(told: &ToldCall<'_>, what: &str) -> String {
    let ToldCall { intent, outcome, effect } = told;
    let after = |at_ms: u64| i128::from(at_ms) - i128::from(intent.at_ms);
    let starts: Vec<_> = effect
        .starts
        .iter()
        .map(|start| format!("started by {} at {} ms", start.worker, after(start.at_ms)))
        .collect();

    format!(
        "{} ({:?}, {} ms): {what}, told at {} ms; {}; {} ends",
        intent.id,
        intent.tool,
        intent.sleep_ms,
        after(outcome.at_ms),
        starts.join(", "),
        effect.ends.len()
    )
}

fn name_workers(effect: &EffectHistory<'_>) -> String {
    let workers: Vec<_> = effect.starts.iter().map(|start| start.worker.as_str()).collect();
    workers.join(" and ")
}
