use bytes::Bytes;
use toolbus_wire::Envelope;
use toolbus_wire::header::Headers;

use super::*;
use crate::testing::within;

fn request(source: &str, correlation_id: Option<&str>, body: &str) -> Envelope {
    let mut envelope = Envelope::new("Test", source, Bytes::copy_from_slice(body.as_bytes()));
    envelope.correlation_id = correlation_id.map(str::to_owned);
    envelope
}

fn reply(bytes: usize) -> Reply {
    Reply {
        message_type: "Test".into(),
        body: vec![b'x'; bytes].into(),
        headers: Headers::new(),
        error: None,
    }
}

fn answer(bytes: usize) -> Answer {
    let to = crate::testing::topic("replies");
    Answer { reply: reply(bytes), to, correlation_id: None }
}

fn recall(memory: &OutcomeMemory, envelope: &Envelope, call_id: &str) -> Recalled {
    memory.recall(CallKey::of(envelope, call_id), envelope, &Slot::none())
}

fn run(memory: &OutcomeMemory, envelope: &Envelope, call_id: &str, outcome: Answer) {
    match recall(memory, envelope, call_id) {
        Recalled::New(place) => place.remember(outcome),
        _ => panic!("the call is known already"),
    }
}

fn is_known(memory: &OutcomeMemory, envelope: &Envelope, call_id: &str) -> bool {
    !matches!(recall(memory, envelope, call_id), Recalled::New(_))
}

fn is_remembered(memory: &OutcomeMemory, envelope: &Envelope, call_id: &str) -> bool {
    matches!(recall(memory, envelope, call_id), Recalled::Done(_))
}

/// It is known to have run, and its outcome had to go.
fn is_forgotten(memory: &OutcomeMemory, envelope: &Envelope, call_id: &str) -> bool {
    matches!(recall(memory, envelope, call_id), Recalled::Forgotten)
}

/// At any rate of calls, and with replies of any size, a call that ended is known for ten minutes.
#[tokio::test(start_paused = true)]
async fn calls_are_known_for_longer_than_their_outcomes() {
    let memory = OutcomeMemory::default();
    let name = |minute: u32, number: usize| format!("{minute} {number}");
    for minute in 0..12 {
        for number in 0..=ENTRIES_MAX / 8 {
            let envelope = request("a", Some(&name(minute, number)), "{}");
            run(&memory, &envelope, "c", answer(0));
        }
        tokio::time::advance(Duration::from_secs(60)).await;
    }

    let known = |minute| is_known(&memory, &request("a", Some(&name(minute, 0)), "{}"), "c");
    assert!(known(3) && known(11), "for ten minutes");
    assert!(!known(0), "and not for ever");
    assert!(memory.table.lock().known.parts.len() <= KNOWN_PARTS + 1);
}

#[tokio::test]
async fn the_calls_that_are_known_are_bounded() {
    let mut known = KnownCalls::default();
    let now = Instant::now();
    for number in 0..KNOWN_MAX + KNOWN_MAX / 4 {
        known.insert(CallKey::numbered(number as u64), now);
    }
    let count: usize = known.parts.iter().map(|part| part.fingerprints.len()).sum();
    assert!(count <= KNOWN_MAX + KNOWN_MAX / KNOWN_PARTS, "{count}");
}

#[tokio::test]
async fn source_correlation_call_and_body_make_a_call() {
    let memory = OutcomeMemory::default();
    let first = request("a", Some("c1"), "{}");
    run(&memory, &first, "call_1", answer(1));
    assert!(is_known(&memory, &first.clone(), "call_1"));
    assert!(!is_known(&memory, &first, "call_2"));
    assert!(!is_known(&memory, &request("b", Some("c1"), "{}"), "call_1"));
    assert!(!is_known(&memory, &request("a", Some("c2"), "{}"), "call_1"));
    assert!(!is_known(&memory, &request("a", Some("c1"), "{ }"), "call_1"));
}

#[test]
fn a_key_is_the_same_in_every_process_and_its_parts_do_not_run_into_each_other() {
    let key = |source, correlation, call_id, body| {
        CallKey::of(&request(source, Some(correlation), body), call_id).to_string()
    };
    assert_eq!(
        key("RockBot", "c1", "call_1", "{}"),
        "8d751781f9a5e229f140bec3a9506cc718fd060a3bcd3352dc4bf32103acf49d"
    );
    assert_ne!(key("a", "bc", "d", "e"), key("ab", "c", "d", "e"));
    assert_ne!(key("a", "b", "cd", "e"), key("a", "b", "c", "de"));
    assert_ne!(CallKey::unique(), CallKey::unique());
}

#[tokio::test]
async fn without_a_correlation_id_the_message_id_takes_its_place() {
    let memory = OutcomeMemory::default();
    let first = request("a", None, "{}");
    run(&memory, &first, "call_1", answer(1));
    assert!(is_known(&memory, &first.clone(), "call_1"));
    // The same call id again, in another session: another message, another call.
    assert!(!is_known(&memory, &request("a", None, "{}"), "call_1"));
}

#[tokio::test(start_paused = true)]
async fn outcomes_are_forgotten_by_age_number_and_bytes() {
    let memory = OutcomeMemory::default();
    let old = request("a", Some("old"), "{}");
    run(&memory, &old, "c", answer(1));
    tokio::time::advance(OUTCOME_TTL).await;
    assert!(!is_known(&memory, &old, "c"));

    let memory = OutcomeMemory::default();
    for i in 0..=ENTRIES_MAX {
        run(&memory, &request("a", Some(&i.to_string()), "{}"), "c", answer(0));
    }

    assert!(is_forgotten(&memory, &request("a", Some("0"), "{}"), "c"));
    assert!(is_remembered(&memory, &request("a", Some("1"), "{}"), "c"));

    let memory = OutcomeMemory::default();
    for i in 0..5 {
        run(&memory, &request("a", Some(&i.to_string()), "{}"), "c", answer(BYTES_MAX / 4));
    }

    assert!(is_forgotten(&memory, &request("a", Some("1"), "{}"), "c"));
    assert!(is_remembered(&memory, &request("a", Some("2"), "{}"), "c"));
    assert!(memory.table.lock().bytes <= BYTES_MAX);

    tokio::time::advance(OUTCOME_TTL).await;
    memory.table.lock().forget_old(Instant::now());
    let table = memory.table.lock();
    let running = table.entries.values().filter(|entry| matches!(entry, CallEntry::Running(_)));
    assert_eq!((table.bytes, table.done.len(), running.count()), (0, 0, table.entries.len()));
}

#[tokio::test(start_paused = true)]
async fn a_second_request_waits_for_the_run_of_the_first() {
    let memory = OutcomeMemory::default();
    let envelope = request("a", Some("c1"), "{}");
    let Recalled::New(place) = recall(&memory, &envelope, "c") else { panic!("new") };
    let Recalled::Running(second) = recall(&memory, &envelope, "c") else { panic!("running") };

    let Recalled::Running(third) = recall(&memory, &envelope, "c") else { panic!("running") };

    let waiting = futures_util::future::join(second.outcome(), third.outcome());
    let ending = async {
        tokio::task::yield_now().await;
        place.remember(answer(3));
    };

    let both = futures_util::future::join(waiting, ending);
    let ((second, third), ()) = within("both are told", both).await;
    assert_eq!((second, third), (Some(reply(3)), Some(reply(3))));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_dropped_is_forgotten_and_its_followers_are_told() {
    let memory = OutcomeMemory::default();
    let envelope = request("a", Some("c1"), "{}");
    let Recalled::New(place) = recall(&memory, &envelope, "c") else { panic!("new") };
    let Recalled::Running(second) = recall(&memory, &envelope, "c") else { panic!("running") };
    drop(place);
    assert_eq!(within("the second is told", second.outcome()).await, None);
    assert!(!is_known(&memory, &envelope, "c"));
}
