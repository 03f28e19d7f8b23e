//! What is said between a caller and the workers beside requests and replies.

use toolbus_wire::message::toolbus::{CallState, CallStatus, ReplyRequest};

use super::*;

#[tokio::test(start_paused = true)]
async fn a_worker_is_told_of_a_timeout_and_of_a_cancel_but_not_of_an_answer() {
    let stage = Stage::start().await;
    let worker = stage.silent_worker().await;
    let cancels = Inbox::open(&*stage.bus, "tool.cancel").await;
    assert!(stage.ask("slow", SECOND).await.is_err());

    let cancelled = CancellationToken::new();
    let cancelling = async {
        worker.received(2).await;
        cancelled.cancel();
    };

    let asking = stage.ask_with("unwanted", 60 * SECOND, &cancelled, Progress::none());
    let (end, ()) = tokio::join!(asking, cancelling);
    assert_eq!(end, Err(Error::Cancelled));

    let answering = async { stage.answer(&worker.received(3).await[2]).await };
    let (end, ()) = tokio::join!(stage.ask("good", SECOND), answering);
    assert!(end.is_ok());
    stage.requester.close().await;

    let told: Vec<ToolCancel> = cancels.read(2).await;
    let cancel = |call: &str, why: &str| ToolCancel {
        source: "RockBot".to_owned(),
        tool_call_id: call.to_owned(),
        reason: Some(why.to_owned()),
    };

    assert_eq!(told, [cancel("slow", "no reply within 1000 ms"), cancel("unwanted", "cancelled")]);
    assert!(cancels.received(2).await.iter().all(|message| message.expires_after.is_some()));
}

/// The cancel message may have been lost, or have come before the call: heartbeats put that right.
#[tokio::test(start_paused = true)]
async fn a_worker_that_runs_an_abandoned_call_is_told_to_stop_it() {
    let stage = Stage::start().await;
    let _worker = stage.silent_worker().await;
    let worker = topic::tool_worker(&instance("worker"));
    let cancels = Inbox::open(&*stage.bus, worker.as_str()).await;
    let signing = async {
        tokio::time::sleep(SECOND / 10).await;
        stage.sign(&["waits", "gone"]).await;
        tokio::time::sleep(SECOND).await;
        stage.sign(&["waits", "gone"]).await;
    };
    let (waiting, ()) = tokio::join!(stage.ask("waits", 2 * SECOND), signing);
    assert!(matches!(waiting, Err(Error::Timeout { .. })));

    let cancelled: Vec<ToolCancel> = cancels.read(3).await;
    let calls: Vec<_> = cancelled.iter().map(|cancel| cancel.tool_call_id.as_str()).collect();
    assert_eq!(calls, ["gone", "gone", "waits"], "as often as they are named");
    assert!(cancelled.iter().all(|cancel| cancel.source == "RockBot"));
}

/// A heartbeat may be overtaken by the reply to a call that it names.
#[tokio::test(start_paused = true)]
async fn a_worker_that_has_just_answered_is_not_told_to_stop() {
    let stage = Stage::start().await;
    let worker = stage.silent_worker().await;
    let cancels = Inbox::open(&*stage.bus, topic::TOOL_CANCEL.as_str()).await;
    let answering = async { stage.answer(&worker.received(1).await[0]).await };
    let (reply, ()) = tokio::join!(stage.ask("c", 20 * SECOND), answering);
    reply.unwrap();

    stage.sign(&["c"]).await;
    tokio::time::sleep(SECOND).await;
    assert_eq!(cancels.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_worker_learns_whether_a_call_is_still_waited_for() {
    let stage = Stage::start().await;
    let worker = stage.silent_worker().await;
    let own = topic::tool_worker(&instance("worker"));
    let statuses = Inbox::open(&*stage.bus, own.as_str()).await;
    let asking = async {
        let request = worker.received(1).await.remove(0);
        let to = Topic::parse(request.headers.get(header::STATUS_TO).unwrap()).unwrap();
        let query = |correlation_id: &str| {
            let correlation_id = correlation_id.to_owned();
            let query = CallQuery { correlation_id, ..CallQuery::default() };
            Envelope::of(&query, "worker").with_reply_to(own.clone())
        };
        stage.bus.publish(&to, query(request.correlation_id.as_deref().unwrap())).await.unwrap();
        stage.bus.publish(&to, query("another")).await.unwrap();
    };
    let _ = tokio::join!(stage.ask("c", SECOND), asking);

    let states: Vec<_> =
        statuses.read::<CallStatus>(2).await.into_iter().map(|status| status.state).collect();
    assert_eq!(states, [CallState::Awaited, CallState::Abandoned]);
}

/// A durable queue keeps requests for workers that may never come.
#[tokio::test(start_paused = true)]
async fn a_request_that_waits_where_no_worker_takes_any_ends_within_three_seconds() {
    let stage = Stage::start().await;
    let ack = |_: Delivery| std::future::ready(Disposition::Ack);
    let pattern = TopicPattern::from(stage.topic.clone());
    let subscription = Subscription::durable("workers", pattern, at_once(8));
    let worker = stage.bus.subscribe(subscription.clone(), Arc::new(ack)).await.unwrap();
    let cancels = Inbox::open(&*stage.bus, topic::TOOL_CANCEL.as_str()).await;

    // A worker takes it, says nothing, and is gone: whether it has begun cannot be known.
    let timeout = Err(Error::Timeout { asked: 6 * SECOND });
    let killing = async {
        tokio::time::sleep(SECOND).await;
        worker.kill().await;
    };
    let (end, ()) = tokio::join!(stage.ask_workers("a", "workers", 6 * SECOND), killing);
    assert_eq!(end, timeout);
    let began = Instant::now();
    let unserved = Err(Error::Unserved(stage.topic.clone()));
    assert_eq!(stage.ask_workers("b", "workers", 60 * SECOND).await, unserved);
    assert!(began.elapsed() <= 3 * SECOND, "{:?}", began.elapsed());
    let withdrawn = cancels.read::<ToolCancel>(2).await.remove(1);
    assert_eq!(withdrawn.tool_call_id, "b");

    // Where nothing is known of the queue, nothing is said of it.
    let timeout = Err(Error::Timeout { asked: 6 * SECOND });
    assert_eq!(stage.ask_workers("c", "another", 6 * SECOND).await, timeout);
}

/// What was in our queue is lost with it, so workers are asked for the replies, and more than once:
/// they may be back later than we are.
#[tokio::test(start_paused = true)]
async fn replies_that_may_have_been_missed_are_asked_for() {
    let stage = Stage::start().await;
    let worker = stage.silent_worker().await;
    let asked = Inbox::open(&*stage.bus, topic::TOOL_CANCEL.as_str()).await;
    let missing = async {
        let request = worker.received(1).await.remove(0);
        stage.requester.inner.pending.note_missed_replies();
        let asked: Vec<ReplyRequest> = asked.read(2).await;
        let expected = [request.correlation_id.clone().unwrap()];
        assert!(asked.iter().all(|asked| asked.correlation_ids == expected));
        assert_eq!(asked[0].source, "RockBot");
        stage.answer(&request).await;
    };
    let (end, ()) = tokio::join!(stage.ask("c", 60 * SECOND), missing);
    end.unwrap();

    // Once there is nothing to ask for, nothing is asked.
    let before = asked.len();
    tokio::time::sleep(20 * SECOND).await;
    assert_eq!(asked.len(), before);
}

/// What a message names is kept, or sent on, only where it can be a name.
#[tokio::test(start_paused = true)]
async fn names_that_are_too_long_are_passed_over() {
    let stage = Stage::start().await;
    let cancels = Inbox::open(&*stage.bus, topic::tool_worker(&instance("worker")).as_str()).await;
    let answers = Inbox::open(&*stage.bus, "answers").await;
    let long = "x".repeat(ID_BYTES_MAX + 1);

    let calls = vec!["lost".to_owned()];
    stage.news(&Alive { instance: long.clone(), calls, ..Alive::default() }).await;
    let query = CallQuery { correlation_id: long.clone(), ..CallQuery::default() };
    let query = Envelope::of(&query, "worker").with_reply_to(topic("answers"));
    let to = topic::tool_progress(&agent("RockBot"), &instance("one"));
    stage.bus.publish(&to, query).await.unwrap();
    stage.sign(&[&long, "gone"]).await;

    let told: Vec<ToolCancel> = cancels.read(1).await;
    tokio::time::sleep(SECOND).await;
    assert_eq!(told[0].tool_call_id, "gone");
    assert_eq!((cancels.len(), answers.len()), (1, 0));
}
