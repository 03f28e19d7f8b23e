//! How calls and workers are brought to an end.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_cancel_stops_the_work() {
    let stage = Stage::start(4).await;
    stage.publish(request("c", "held", "")).await;
    stage.publish(request("other", "held", "")).await;
    stage.service.started(2).await;
    let started = Instant::now();
    stage.cancel("RockBot", "c").await;
    assert_eq!(stage.outcomes(1).await, ["c: Cancelled { execution: Started }"]);
    let took = started.elapsed();
    assert!(took >= CANCEL_GRACE && took < 2 * CANCEL_GRACE, "{took:?}");
    assert_eq!(stage.service.look(|state| state.dropped.clone()), ["c"]);
    assert_eq!(stage.service.look(|state| state.told.clone()), ["c"]);
    assert_eq!(stage.service.look(|state| state.running), 1);
}

#[tokio::test(start_paused = true)]
async fn work_that_ends_on_a_cancel_has_the_last_word() {
    let stage = Stage::start(1).await;
    stage.publish(request("c", "polite", "")).await;
    stage.service.started(1).await;
    let started = Instant::now();
    stage.cancel("RockBot", "c").await;
    assert_eq!(stage.outcomes(1).await, ["c stopped"]);
    assert!(started.elapsed() < CANCEL_GRACE / 2);
    assert!(stage.service.look(|state| state.dropped.is_empty()));
}

#[tokio::test(start_paused = true)]
async fn a_cancel_that_comes_before_its_request_keeps_it_from_starting() {
    let stage = Stage::start(1).await;
    stage.cancel("RockBot", "c").await;
    stage.cancel("another", "d").await;
    let queue = format!("{WORKERS}.cancel.one");
    until("both are heard", || stage.bus.inner.ready_count(&queue) == 0).await;
    stage.publish(request("c", "echo", "")).await;
    stage.publish(request("d", "echo", "")).await;
    assert_eq!(
        stage.outcomes(2).await,
        ["c: Cancelled { execution: NotStarted }", "d was run RockBot"]
    );
    assert_eq!(stage.service.look(|state| state.started.clone()), ["d"]);

    // It is for one call, and not for ever.
    let again = |correlation: &str| request("c", "echo", "").with_correlation_id(correlation);
    stage.publish(again("2")).await;
    assert_eq!(stage.outcomes(3).await[2], "c was run RockBot");
    stage.cancel("RockBot", "c").await;
    tokio::time::sleep(61 * SECOND).await;
    stage.publish(again("3")).await;
    assert_eq!(stage.outcomes(4).await[3], "c was run RockBot");
}

#[tokio::test(start_paused = true)]
async fn a_cancel_message_that_cannot_be_read_does_no_harm() {
    let stage = Stage::start(1).await;
    stage.publish(request("c", "held", "")).await;
    stage.service.started(1).await;
    for body in ["", "null", "{}", "{\"source\":\"RockBot\"}", "[1]"] {
        let broken = Envelope::new("Toolbus.ToolCancel", "", Bytes::from_static(body.as_bytes()));
        stage.bus.publish(&topic::TOOL_CANCEL, broken).await.unwrap();
    }
    stage.cancel("RockBot", "c").await;
    assert_eq!(stage.outcomes(1).await, ["c: Cancelled { execution: Started }"]);
}

#[tokio::test(start_paused = true)]
async fn every_worker_hears_a_cancel() {
    let stage = Stage::start(1).await;
    let _second = stage.worker("two", 1).await.unwrap();
    stage.publish(request("a", "held", "")).await;
    stage.publish(request("b", "held", "")).await;
    stage.service.started(2).await;
    stage.cancel("RockBot", "a").await;
    stage.cancel("RockBot", "b").await;
    let mut outcomes = stage.outcomes(2).await;
    outcomes.sort();
    assert_eq!(
        outcomes,
        ["a: Cancelled { execution: Started }", "b: Cancelled { execution: Started }"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_stop_lets_running_work_finish_and_answers_it() {
    let mut stage = Stage::start(1).await;
    stage.publish(request("runs", "sleep", "3")).await;
    stage.publish(request("waits", "echo", "")).await;
    stage.service.started(1).await;
    stage.stop(10 * SECOND).await;
    assert_eq!(stage.outcomes(1).await, ["runs was run RockBot"]);
    assert_eq!(stage.replies.len(), 1);
    assert_eq!(stage.bus.inner.ready_count(WORKERS), 1);
    // The one that waited was never started, so the next worker runs it.
    let _next = stage.worker("two", 1).await.unwrap();
    assert_eq!(stage.outcomes(2).await[1], "waits was run RockBot");
}

#[tokio::test(start_paused = true)]
async fn a_call_can_be_cancelled_while_its_worker_stops() {
    let mut stage = Stage::start(1).await;
    stage.publish(request("c", "polite", "")).await;
    stage.service.started(1).await;
    let started = Instant::now();
    let responder = stage.responder.take().unwrap();
    tokio::join!(responder.stop(60 * SECOND), stage.cancel("RockBot", "c"));
    assert_eq!(stage.outcomes(1).await, ["c stopped"]);
    assert!(started.elapsed() < SECOND);
}

#[tokio::test(start_paused = true)]
async fn work_that_outlasts_the_grace_is_dropped_told_and_has_an_unknown_outcome() {
    let mut stage = Stage::start(1).await;
    stage.publish(request("c", "held", "")).await;
    stage.service.started(1).await;
    let started = Instant::now();
    stage.stop(2 * SECOND).await;
    assert!(started.elapsed() < 3 * SECOND);
    assert_eq!(stage.service.look(|state| state.dropped.clone()), ["c"]);
    assert_eq!(stage.service.look(|state| state.running), 0);
    assert_eq!(stage.replies.len(), 0);
    let _next = stage.worker("two", 1).await.unwrap();
    assert_eq!(stage.outcomes(1).await, ["c: OutcomeUnknown"]);
}

/// What a dropped call left running elsewhere hears of it by the token.
#[tokio::test(start_paused = true)]
async fn the_token_of_a_call_fires_when_its_run_is_over_however_it_ended() {
    let cancels = Arc::new(Cancels::default());
    let running = cancels.register("a", "c");
    let token = running.token().clone();
    assert!(!token.is_cancelled());
    drop(running);
    assert!(token.is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_a_broker_that_does_not_answer() {
    let mut stage = Stage::start(1).await;
    let lonely = request("c", "held", "").with_header(header::PROGRESS_TO, "nobody.listens");
    stage.publish(lonely).await;
    stage.service.started(1).await;
    let news = Inbox::open(&*stage.bus, "nobody.listens").await;
    stage.bus.fail([Fault::ArrivesAndHangs]);
    news.received(1).await;
    let started = Instant::now();
    stage.stop(SECOND).await;
    assert!(started.elapsed() < 2 * SECOND, "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_callers_to_come_back() {
    let mut stage = Stage::start(1).await;
    stage.publish(request("c", "echo", "").with_reply_to(topic("nobody.listens"))).await;
    stage.publish(request("d", "echo", "")).await;
    stage.outcomes(1).await;
    let started = Instant::now();
    stage.stop(10 * SECOND).await;
    assert!(started.elapsed() < SECOND / 2, "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_responder_leaves_no_task_behind() {
    let mut stage = Stage::start(1).await;
    let bus = Arc::downgrade(&stage.bus);
    stage.publish(request("c", "talk", "a b").with_header(header::PROGRESS_TO, "news")).await;
    stage.outcomes(1).await;
    drop(stage.responder.take());
    drop(stage);
    until("the end of its tasks", || bus.strong_count() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_responder_that_cannot_start_leaves_nothing_behind() {
    let stage = Stage::start(1).await;
    let second = stage.worker("one", 1).await;
    assert!(matches!(second, Err(SubscribeError::Refused { .. })), "one instance, one queue");

    let bus = Faulty::new();
    // The requests' queue is taken by somebody who does not share it.
    let _taken = bus
        .subscribe(
            Subscription::private(WORKERS, TopicPattern::from(topic("x")), at_once(1)),
            Arc::new(|_: Delivery| std::future::ready(Disposition::Ack)),
        )
        .await
        .unwrap();
    let refused = Responder::start(bus.clone(), listen("one", 1), Scripted::default()).await;
    assert!(matches!(refused, Err(SubscribeError::Refused { .. })));
    let tasks = Arc::downgrade(&bus);
    drop(bus);
    until("the end of its tasks", || tasks.strong_count() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_responder_leaves_requests_to_others_and_ends_its_own() {
    let mut stage = Stage::start(4).await;
    stage.publish(request("running", "held", "")).await;
    stage.service.started(1).await;

    let responder = stage.responder.as_mut().unwrap();
    responder.pause();
    stage.publish(request("waiting", "echo", "")).await;
    tokio::time::sleep(SECOND).await;
    assert_eq!(stage.service.look(|state| state.started.clone()), ["running"]);

    stage.cancel("RockBot", "running").await;
    assert!(stage.outcomes(1).await[0].starts_with("running: Cancelled"));

    stage.responder.as_mut().unwrap().unpause().await.unwrap();
    assert_eq!(stage.outcomes(2).await[1], "waiting was run RockBot");
    stage.publish(request("last", "held", "")).await;
    stage.service.started(3).await;
    stage.responder.as_mut().unwrap().pause();
    // What it has ends with it.
    stage.stop(Duration::ZERO).await;
    assert_eq!(stage.service.look(|state| state.dropped.clone()), ["running", "last"]);
}
