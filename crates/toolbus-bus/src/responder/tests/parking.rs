//! Calls that wait for long beside the others.

use toolbus_wire::TraceContext;

use super::delivery::redelivered;
use super::*;

/// The requests that were written down, as a store has them.
fn written(service: &Scripted) -> Vec<String> {
    let write = |parked: &ParkedRequest| serde_json::to_string(parked).unwrap();
    service.look(|state| state.parked.iter().map(write).collect())
}

async fn resume(stage: &mut Stage, name: &str, written: &[String]) {
    let parked = written.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
    let (bus, service) = (stage.bus.clone(), stage.service.clone());
    let responder = Responder::resume(bus, listen(name, 1), parked, service).await.unwrap();
    stage.responder = Some(responder);
}

async fn has_parked(service: &Scripted, count: usize) {
    service.until("calls are parked", |state| state.parked.len() >= count).await;
}

#[tokio::test(start_paused = true)]
async fn a_parked_call_makes_room_and_is_answered_where_it_asked() {
    let stage = Stage::start(1).await;
    stage.publish(request("waits", "parked", "")).await;
    stage.publish(request("other", "echo", "")).await;
    assert_eq!(stage.outcomes(1).await, ["other was run RockBot"]);
    assert_eq!(stage.bus.inner.ready_count(WORKERS), 0);

    stage.service.release("waits");
    stage.service.release("waits after");
    let replies = stage.replies.received(2).await;
    assert_eq!(outcome(&replies[1]), "waits was run RockBot");
    assert_eq!(replies[1].correlation_id.as_deref(), Some("correlation of waits"));
}

/// What is parked stays in memory, and requests may be large.
#[tokio::test(start_paused = true)]
async fn a_call_that_would_take_too_much_memory_keeps_its_delivery() {
    let stage = Stage::start(1).await;
    let padding = " ".repeat(BODY_BYTES_MAX - 1_024);
    for call in ["a", "b"] {
        stage.publish(request(call, "parked", &padding)).await;
        has_parked(&stage.service, usize::from(call.as_bytes()[0] - b'a') + 1).await;
    }
    stage.publish(request("c", "parked", &padding)).await;
    has_parked(&stage.service, 3).await;
    stage.publish(request("other", "echo", "")).await;
    tokio::time::sleep(SECOND).await;
    assert_eq!(stage.replies.len(), 0, "the third holds the only delivery");

    stage.service.release("a");
    stage.service.release("c");
    ["a after", "c after"].into_iter().for_each(|call| stage.service.release(call));
    let outcomes = stage.outcomes(3).await;
    assert!(outcomes.contains(&"other was run RockBot".to_owned()), "{outcomes:?}");
}

#[tokio::test(start_paused = true)]
async fn calls_that_come_back_are_bounded_too() {
    let stage = Stage::start(1).await;
    for call in ["a", "b", "c"] {
        stage.publish(request(call, "parked", "")).await;
        stage.service.release(call);
    }
    stage.service.until("one goes on", |state| !state.resumed.is_empty()).await;
    tokio::time::sleep(SECOND).await;
    assert_eq!(stage.service.look(|state| state.resumed.clone()), ["a"]);

    for call in ["a after", "b after", "c after"] {
        stage.service.release(call);
    }
    assert_eq!(stage.outcomes(3).await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_caller_of_a_parked_call_hears_that_it_is_held_and_may_cancel_it() {
    let stage = Stage::start(1).await;
    let heartbeats = Inbox::open(&*stage.bus, "alive").await;
    stage.publish(request("c", "parked", "").with_header(header::PROGRESS_TO, "alive")).await;
    has_parked(&stage.service, 1).await;
    let alive: Vec<Alive> = heartbeats.read(3).await;
    assert!(alive.iter().all(|alive| alive.calls == ["c"] && alive.kept.is_empty()));

    stage.cancel("RockBot", "c").await;
    assert_eq!(stage.outcomes(1).await, ["c: Cancelled { execution: NotStarted }"]);
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_call_that_is_kept_in_a_store_hears_so_at_once() {
    let stage = Stage::start(1).await;
    let heartbeats = Inbox::open(&*stage.bus, "alive").await;
    stage.publish(request("c", "stored", "").with_header(header::PROGRESS_TO, "alive")).await;
    let began = Instant::now();
    let heard = async {
        loop {
            let alive: Vec<Alive> = heartbeats.read(1).await;
            match alive.last() {
                Some(alive) if !alive.kept.is_empty() => return alive.kept.clone(),
                _ => tokio::time::sleep(SECOND / 100).await,
            }
        }
    };
    assert_eq!(within("a heartbeat", heard).await, ["c"]);
    assert!(began.elapsed() < SECOND / 10, "{:?}", began.elapsed());

    stage.service.release("c");
    stage.service.until("it goes on", |state| !state.resumed.is_empty()).await;
    tokio::time::sleep(2 * SECOND).await;
    let alive: Vec<Alive> = heartbeats.read(1).await;
    assert!(alive.last().is_some_and(|alive| alive.kept.is_empty() && alive.calls == ["c"]));
}

#[tokio::test(start_paused = true)]
async fn a_parked_call_ends_at_its_deadline() {
    let stage = Stage::start(1).await;
    stage.publish(request("c", "parked", "").with_header(header::TIMEOUT_MS, "5000")).await;
    assert!(stage.outcomes(1).await[0].starts_with("c: Timeout"));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_comes_again_while_its_call_is_parked_joins_it() {
    let stage = Stage::start(1).await;
    let asked = request("c", "parked", "");
    stage.publish(asked.clone()).await;
    has_parked(&stage.service, 1).await;
    // Nor does it hold the one delivery that there is.
    stage.publish(asked).await;
    stage.publish(request("other", "echo", "")).await;
    assert_eq!(stage.outcomes(1).await, ["other was run RockBot"]);

    stage.service.release("c");
    stage.service.release("c after");
    stage.service.until("it has ended", |state| state.running == 0).await;
    tokio::time::sleep(SECOND).await;
    assert_eq!(stage.outcomes(2).await, ["other was run RockBot", "c was run RockBot"]);
    assert_eq!(stage.service.look(|state| state.started.len()), 2);
}

/// Whoever kept the call has let it go, and there is no slot yet: nobody brings it back any more.
#[tokio::test(start_paused = true)]
async fn a_stop_answers_a_call_that_has_left_its_store() {
    let mut stage = Stage::start(1).await;
    stage.publish(request("runs", "parked", "")).await;
    stage.service.release("runs");
    stage.service.until("it goes on", |state| !state.resumed.is_empty()).await;
    stage.publish(request("c", "stored", "")).await;
    stage.service.until("both are parked", |state| state.parked.len() == 2).await;
    stage.service.release("c");
    tokio::time::sleep(SECOND).await;

    stage.stop(SECOND).await;
    let mut outcomes = stage.outcomes(2).await;
    outcomes.sort();
    let not_started = "c: Cancelled { execution: NotStarted }";
    assert_eq!(outcomes, [not_started, "runs: Cancelled { execution: Started }"]);
}

/// The grace is for callers that still hear of their calls.
#[tokio::test(start_paused = true)]
async fn a_call_that_came_back_is_heard_of_until_its_grace_is_over() {
    let mut stage = Stage::start(1).await;
    let heartbeats = Inbox::open(&*stage.bus, "alive").await;
    stage.publish(request("c", "parked", "").with_header(header::PROGRESS_TO, "alive")).await;
    stage.service.release("c");
    stage.service.until("it goes on", |state| !state.resumed.is_empty()).await;
    let before = heartbeats.len();
    stage.stop(10 * SECOND).await;
    assert!(heartbeats.len() >= before + 8, "{} after {before}", heartbeats.len());
}

#[tokio::test(start_paused = true)]
async fn a_start_that_fails_starts_nothing_that_was_parked() {
    let mut stage = Stage::start(1).await;
    stage.publish(request("c", "stored", "")).await;
    has_parked(&stage.service, 1).await;
    let written = written(&stage.service);
    stage.responder = None;
    stage.service = Scripted::default();

    // The queue is somebody else's now.
    let taken = Inbox::open(&*stage.bus, "nothing").await;
    let parked = written.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
    let listen = Listen { subscription: "inbox of nothing".to_owned(), ..listen("two", 1) };
    let started = Responder::resume(stage.bus.clone(), listen, parked, stage.service.clone()).await;
    assert!(started.is_err());
    tokio::time::sleep(SECOND).await;
    assert_eq!(stage.service.look(|state| state.started.clone()), [""; 0]);
    assert_eq!(stage.replies.len(), 0, "whoever keeps it tries again");
    taken.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_what_is_parked_in_memory_and_says_so() {
    let mut stage = Stage::start(1).await;
    stage.publish(request("c", "parked", "")).await;
    has_parked(&stage.service, 1).await;
    let began = Instant::now();
    stage.stop(60 * SECOND).await;
    assert!(began.elapsed() < SECOND, "{:?}", began.elapsed());
    assert_eq!(stage.outcomes(1).await, ["c: Cancelled { execution: NotStarted }"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_came_back_has_the_grace_that_every_call_has() {
    let mut stage = Stage::start(1).await;
    stage.publish(request("ends", "parked", "")).await;
    stage.service.release("ends");
    stage.service.until("it goes on", |state| !state.resumed.is_empty()).await;
    let service = stage.service.clone();
    let ending = async {
        tokio::time::sleep(2 * SECOND).await;
        service.release("ends after");
    };
    tokio::join!(stage.stop(5 * SECOND), ending);
    assert_eq!(stage.outcomes(1).await, ["ends was run RockBot"]);

    let mut stage = Stage::start(1).await;
    stage.publish(request("stays", "parked", "")).await;
    stage.service.release("stays");
    stage.service.until("it goes on", |state| !state.resumed.is_empty()).await;
    stage.stop(5 * SECOND).await;
    assert_eq!(stage.outcomes(1).await, ["stays: Cancelled { execution: Started }"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_kept_in_a_store_outlives_its_process() {
    let mut stage = Stage::start(1).await;
    let asked = request("c", "stored", "").with_header(header::TIMEOUT_MS, "100000");
    stage.publish(asked).await;
    stage.publish(request("d", "echo", "")).await;
    has_parked(&stage.service, 1).await;
    let written_down = written(&stage.service);
    stage.stop(60 * SECOND).await;
    assert_eq!(stage.outcomes(1).await, ["d was run RockBot"], "nothing is said of the other");

    tokio::time::sleep(20 * SECOND).await;
    stage.service = Scripted::default();
    resume(&mut stage, "two", &written_down).await;
    has_parked(&stage.service, 1).await;
    stage.publish(request("e", "echo", "")).await;
    assert_eq!(stage.outcomes(2).await[1], "e was run RockBot", "it is parked again");

    stage.service.release("c");
    stage.service.release("c after");
    let replies = stage.replies.received(3).await;
    assert_eq!(outcome(&replies[2]), "c was run RockBot");
    assert_eq!(replies[2].correlation_id.as_deref(), Some("correlation of c"));
    stage.service.until("both have ended", |state| state.running == 0).await;
    assert_eq!(stage.replies.received(3).await.len(), 3);
    assert_eq!(written(&stage.service).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn requests_that_were_parked_go_before_new_ones_and_can_be_cancelled() {
    let mut stage = Stage::start(1).await;
    stage.publish(request("c", "stored", "")).await;
    has_parked(&stage.service, 1).await;
    let written_down = written(&stage.service);
    stage.responder = None;

    stage.service = Scripted::default();
    stage.publish(request("d", "stored", "")).await;
    resume(&mut stage, "two", &written_down).await;
    has_parked(&stage.service, 2).await;
    assert_eq!(stage.service.look(|state| state.started.clone()), ["c", "d"]);
    stage.cancel("RockBot", "c").await;
    assert_eq!(stage.outcomes(1).await, ["c: Cancelled { execution: NotStarted }"]);
}

/// The broker hands out again what the last process had not acknowledged before it died.
#[tokio::test(start_paused = true)]
async fn a_request_that_is_redelivered_joins_the_call_that_was_brought_back() {
    let mut stage = Stage::start(1).await;
    let asked = request("c", "stored", "");
    stage.publish(asked.clone()).await;
    has_parked(&stage.service, 1).await;
    let written = written(&stage.service);
    stage.responder = None;
    stage.service = Scripted::default();

    redelivered(&stage.bus, asked).await;
    // Others that are brought back, more than run at a time, change nothing about it.
    let text = serde_json::to_string(&ParkedRequest::new(
        &topic(WORK),
        &request("first", "held", ""),
        Deadline::after(50 * SECOND),
    ));
    resume(&mut stage, "two", &[text.unwrap(), written[0].clone()]).await;
    tokio::time::sleep(SECOND).await;
    assert_eq!(stage.service.look(|state| state.started.clone()), ["first"]);
    ["first", "c", "c after"].into_iter().for_each(|call| stage.service.release(call));
    stage.service.until("both have ended", |state| state.running == 0).await;
    tokio::time::sleep(SECOND).await;
    let mut outcomes = stage.outcomes(2).await;
    outcomes.sort();
    assert_eq!(outcomes, ["c was run RockBot", "first was run RockBot"]);
}

#[test]
fn what_is_parked_shows_nothing_of_its_arguments() {
    let envelope = request("c", "echo", "hunter2").with_header("rb-key", "hunter2");
    let parked = ParkedRequest::new(&topic(WORK), &envelope, Deadline::after(SECOND));
    assert!(!format!("{parked:?}").contains("hunter2"));
    assert!(serde_json::to_string(&parked).unwrap().contains("hunter2"));
}

#[test]
fn what_is_brought_back_is_what_came() {
    let envelope = request("c", "echo", "{\"é\": 1}").with_header("rb-exact", "1").with_trace(
        TraceContext::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", Some("a=b")),
    );
    let parked = ParkedRequest::new(&topic(WORK), &envelope, Deadline::after(SECOND));
    let text = serde_json::to_string(&parked).unwrap();
    let back = serde_json::from_str::<ParkedRequest>(&text).unwrap().into_delivery();

    assert_eq!(back.envelope, envelope, "a grant seals its headers too");
    assert_eq!(CallKey::of(&back.envelope, "c"), CallKey::of(&envelope, "c"));
    assert!(!back.redelivered);
}

#[test]
fn what_is_brought_back_has_the_time_that_is_left() {
    let envelope = request("c", "echo", "").with_header(header::TIMEOUT_MS, "100000");
    let parked = ParkedRequest::new(
        &topic(WORK),
        &envelope,
        Deadline::at_unix_ms(Deadline::after(5 * SECOND).unix_ms(), 100 * SECOND),
    );
    let deadline = parked.deadline();
    assert!(deadline.left() <= 5 * SECOND && deadline.left() > 4 * SECOND, "{deadline:?}");
    assert_eq!(deadline.asked(), 100 * SECOND);
}
