use std::time::Duration;

use super::{CallerEvidence, Evidence, MemoryPeak, QueueRest, Span, StopEvidence, Verdict, judge};
use crate::record::{
    CallRecord, CallResult, EffectEvent, EffectRecord, Intent, OutcomeRecord, ToolKind, digest,
    reply_text,
};

const ID: &str = "call";
const WORKER: &str = "bridge-0.1";
const START_MS: u64 = 1_000_000;
const DEADLINE_MS: u64 = START_MS + 10_000;

fn intent(tool: ToolKind) -> CallRecord {
    CallRecord::Intent(Intent {
        id: ID.to_owned(),
        tool,
        at_ms: START_MS,
        deadline_ms: DEADLINE_MS,
        sleep_ms: 5,
        reply_bytes: 100,
    })
}

fn told(at_ms: u64, result: CallResult) -> CallRecord {
    CallRecord::Outcome(OutcomeRecord { id: ID.to_owned(), at_ms, result })
}

fn ok() -> CallResult {
    CallResult::Ok { digest: digest(&reply_text(ID, 100)) }
}

fn failed(code: &str) -> CallResult {
    CallResult::Failed {
        code: code.to_owned(),
        execution: "unknown".to_owned(),
        is_retryable: false,
        message: String::new(),
    }
}

fn retryable(code: &str) -> CallResult {
    CallResult::Failed {
        code: code.to_owned(),
        execution: "unknown".to_owned(),
        is_retryable: true,
        message: String::new(),
    }
}

fn effect(event: EffectEvent, at_ms: u64, worker: &str) -> EffectRecord {
    let worker = worker.to_owned();
    EffectRecord { id: ID.to_owned(), tool: ToolKind::Act, event, at_ms, worker }
}

/// An effect that went well, 100 ms after the call was made.
fn ran() -> Vec<EffectRecord> {
    vec![
        effect(EffectEvent::Start, START_MS + 100, WORKER),
        effect(EffectEvent::End, START_MS + 200, WORKER),
    ]
}

fn evidence(records: Vec<CallRecord>, effects: Vec<EffectRecord>) -> Evidence {
    let caller = CallerEvidence { name: "caller".to_owned(), records, ..Default::default() };
    Evidence { callers: vec![caller], effects, ..Evidence::default() }
}

fn of_act(result: CallResult, effects: Vec<EffectRecord>) -> Evidence {
    evidence(vec![intent(ToolKind::Act), told(START_MS + 300, result)], effects)
}

fn is_clean(verdict: &Verdict) -> bool {
    verdict.findings.is_empty()
}

#[test]
fn a_call_that_went_well_is_clean() {
    let verdict = judge(&of_act(ok(), ran()));
    assert!(is_clean(&verdict), "{verdict:?}");
    assert_eq!((verdict.calls, verdict.ok, verdict.lies()), (1, 1, 0));
}

#[test]
fn i1_each_intent_of_a_living_caller_has_one_outcome_in_time() {
    let lost = evidence(vec![intent(ToolKind::Act)], ran());
    assert_eq!(judge(&lost).lost, 1);

    let mut killed = lost.clone();
    killed.callers[0].was_killed = true;
    assert!(is_clean(&judge(&killed)));

    let twice = vec![intent(ToolKind::Act), told(START_MS, ok()), told(START_MS, ok())];
    assert_eq!(judge(&evidence(twice, ran())).lost, 1);

    let at = |at_ms| evidence(vec![intent(ToolKind::Act), told(at_ms, ok())], ran());
    assert_eq!(judge(&at(DEADLINE_MS + 2_000)).late, 0);
    let mut late = at(DEADLINE_MS + 2_001);
    assert_eq!(judge(&late).late, 1);
    late.callers[0].pauses = vec![Span { from_ms: START_MS + 10, to_ms: START_MS + 20 }];
    assert_eq!(judge(&late).late, 0, "it could not have been told while it stood still");
}

#[test]
fn i1_an_outcome_that_was_there_is_not_told_as_a_timeout() {
    let at = |at_ms| {
        let records = vec![intent(ToolKind::Act), told(at_ms, failed("timeout"))];
        judge(&evidence(records, ran()))
    };
    assert_eq!(at(START_MS + 2_199).ended_but_timed_out, 0);
    assert_eq!(at(START_MS + 2_200).ended_but_timed_out, 1);
}

#[test]
fn i2_an_effect_starts_once_unless_it_may_be_repeated() {
    let mut effects = ran();
    effects.push(effect(EffectEvent::Start, START_MS + 150, "bridge-1.1"));
    let verdict = judge(&of_act(ok(), effects.clone()));
    assert_eq!((verdict.doubled, verdict.repeated), (1, 0));

    let records = vec![intent(ToolKind::Put), told(START_MS + 300, ok())];
    let verdict = judge(&evidence(records, effects.clone()));
    assert_eq!((verdict.doubled, verdict.repeated), (0, 1));

    let mut killed = evidence(vec![intent(ToolKind::Act)], effects);
    killed.callers[0].was_killed = true;
    assert_eq!(judge(&killed).doubled, 1, "a killed caller is judged by its effects");
}

#[test]
fn i3_ok_has_an_effect_that_ended_and_its_text() {
    assert_eq!(judge(&of_act(ok(), Vec::new())).ok_without_effect, 1);
    assert_eq!(judge(&of_act(ok(), vec![ran().remove(0)])).ok_without_effect, 1);

    let other = CallResult::Ok { digest: digest("aborted") };
    let verdict = judge(&of_act(other, ran()));
    assert_eq!((verdict.ok_with_wrong_text, verdict.lies()), (1, 1));
}

#[test]
fn i4_who_was_told_that_nothing_started_has_no_effect() {
    for code in ["busy", "unroutable", "denied", "tool_not_found"] {
        assert_eq!(judge(&of_act(failed(code), ran())).not_started_but_ran, 1, "{code}");
        assert!(is_clean(&judge(&of_act(failed(code), Vec::new()))), "{code}");
    }

    let says_so = CallResult::Failed {
        code: "cancelled".to_owned(),
        execution: "not_started".to_owned(),
        is_retryable: false,
        message: String::new(),
    };
    assert_eq!(judge(&of_act(says_so, ran())).not_started_but_ran, 1);
}

#[test]
fn i5_who_was_told_to_call_again_has_no_effect() {
    let verdict = judge(&of_act(retryable("timeout"), ran()));
    assert_eq!((verdict.retryable_but_ran, verdict.lies()), (1, 1));
    assert!(is_clean(&judge(&of_act(retryable("timeout"), Vec::new()))));
    assert!(is_clean(&judge(&of_act(failed("timeout"), ran()))));

    let records = vec![intent(ToolKind::Look), told(START_MS + 300, retryable("timeout"))];
    assert_eq!(judge(&evidence(records, ran())).retryable_but_ran, 0, "it does no harm again");
}

#[test]
fn i6_unknown_is_true_where_the_process_was_killed() {
    let unknown = || of_act(failed("outcome_unknown"), ran());
    let verdict = judge(&unknown());
    assert_eq!((verdict.unknown_true, verdict.unknown_but_ended), (0, 1));

    let killed_at = |worker: &str, at_ms| {
        let mut evidence = unknown();
        let span = Span { from_ms: at_ms, to_ms: at_ms + 10 };
        evidence.killed_workers.insert(worker.to_owned(), span);
        judge(&evidence)
    };
    assert_eq!(killed_at(WORKER, START_MS + 250).unknown_true, 1);
    assert_eq!(killed_at("bridge-1.1", START_MS + 250).unknown_false(), 1);
    assert_eq!(killed_at(WORKER, START_MS + 50).unknown_false(), 1, "before it had the call");
    assert_eq!(killed_at(WORKER, START_MS + 400).unknown_false(), 1, "after it was told");

    let never = judge(&of_act(failed("outcome_unknown"), Vec::new()));
    assert_eq!((never.unknown_but_never_ran, never.unknown_false()), (1, 1));
    let half = judge(&of_act(failed("outcome_unknown"), vec![ran().remove(0)]));
    assert_eq!((half.unknown_true, half.unknown_false()), (1, 0));
}

#[test]
fn i7_no_effect_starts_after_its_call_has_ended() {
    let start = |at_ms| vec![effect(EffectEvent::Start, at_ms, WORKER)];
    for code in ["cancelled", "timeout"] {
        let late = judge(&of_act(failed(code), start(START_MS + 1_301)));
        assert_eq!(late.begun_after_end, 1, "{code}");
        let slack = judge(&of_act(failed(code), start(START_MS + 400)));
        assert_eq!(slack.begun_after_end, 0, "{code}");
    }
}

#[test]
fn i8_memory_and_queues_have_limits() {
    let peak = |peak_mib| MemoryPeak { process: WORKER.to_owned(), peak_mib, limit_mib: 512 };
    let mut evidence = of_act(ok(), ran());
    evidence.memory = vec![peak(512), peak(513)];
    evidence.queues = vec![
        QueueRest { name: "queue".to_owned(), messages: 3, is_dead_letters: false },
        QueueRest { name: "queue.dlq".to_owned(), messages: 2, is_dead_letters: true },
    ];

    let verdict = judge(&evidence);
    assert_eq!((verdict.over_memory, verdict.messages_left, verdict.dead_letters), (1, 3, 2));
}

#[test]
fn i9_who_is_asked_to_stop_ends_in_time() {
    let limit = Duration::from_secs(25);
    let stop = |took| StopEvidence { process: WORKER.to_owned(), took, limit };
    let mut evidence = of_act(ok(), ran());
    evidence.stops = vec![stop(limit), stop(limit + Duration::from_millis(1))];
    assert_eq!(judge(&evidence).slow_stops, 1);
}
