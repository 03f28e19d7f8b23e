//! Each request is run at most once and answered once.

use toolbus_wire::message::tool::ID_BYTES_MAX;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_reply_repeats_what_the_request_gave_it() {
    let stage = Stage::start(1).await;
    let trace = toolbus_wire::TraceContext::parse(
        "00-fb8af7c7098f1d1f97e15a4442da0eed-2b0eff25c4b0d6ed-01",
        Some("vendor=1"),
    );
    stage.publish(request("c", "echo", "").with_trace(trace.clone())).await;
    let reply = stage.replies.received(1).await.remove(0);
    assert_eq!(reply.message_type, "RockBot.Tools.ToolInvokeResponse");
    assert_eq!(reply.correlation_id.as_deref(), Some("correlation of c"));
    assert_eq!(reply.source, "worker");
    assert_eq!(reply.trace, trace);
    assert_eq!(reply.reply_to, None);
    assert_eq!(reply.headers, Headers::new().with("rb-content-trust", "tool-output"));
    assert_eq!(outcome(&reply), "c was run RockBot");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_comes_twice_runs_once_and_is_answered_twice_alike() {
    let stage = Stage::start(4).await;
    let first = request("c", "echo", "");
    stage.publish(first.clone()).await;
    stage.outcomes(1).await;
    stage.publish(first).await;
    let replies = stage.replies.received(2).await;
    assert_eq!(replies[0].body, replies[1].body);
    assert_eq!(replies[0].headers, replies[1].headers);
    assert_eq!(stage.service.look(|state| state.started.clone()), ["c"]);

    // The same call id in another conversation is another call.
    let other = request("c", "echo", "").with_correlation_id("another");
    stage.publish(other).await;
    stage.outcomes(3).await;
    assert_eq!(stage.service.look(|state| state.started.len()), 2);
}

/// Whoever repeats another's request without leave learns nothing of its outcome, and spoils none.
#[tokio::test(start_paused = true)]
async fn a_request_that_is_not_authorized_has_no_part_in_the_call() {
    let stage = Stage::start(4).await;
    let held = request("h", "held", "");
    let forged = |request: &Envelope| request.clone().with_header("refuse", "not you");
    stage.publish(forged(&held)).await;
    assert_eq!(stage.outcomes(1).await, ["h: not you, redelivered false"]);
    assert_eq!(stage.service.look(|state| state.started.len()), 0);

    // While it runs, and when it has ended. A refusal would end the call for its caller.
    stage.publish(held.clone()).await;
    stage.service.started(1).await;
    stage.publish(forged(&held)).await;
    tokio::time::sleep(SECOND).await;
    stage.service.release("h");
    stage.outcomes(2).await;
    stage.publish(forged(&held)).await;
    tokio::time::sleep(SECOND).await;
    let refused = "h: not you, redelivered false";
    assert_eq!(stage.outcomes(2).await, [refused, "h was run RockBot"]);
    assert_eq!(stage.bus.inner.ready_count(WORKERS), 0, "it is done with");

    stage.publish(held).await;
    assert_eq!(stage.outcomes(3).await[2], "h was run RockBot");
    assert_eq!(stage.service.look(|state| state.started.len()), 1);
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_an_outcome_and_is_remembered_too() {
    let stage = Stage::start(4).await;
    for _ in 0..2 {
        stage.publish(request("c", "sleep", "90")).await;
        stage.publish(request("p", "panic", "")).await;
        stage.publish(request("n", "panic at once", "")).await;
    }

    let mut outcomes = stage.outcomes(6).await;
    outcomes.sort();
    assert_eq!(
        outcomes,
        [
            "c: Timeout { asked: 60s, execution: Started }",
            "c: Timeout { asked: 60s, execution: Started }",
            "n: Crashed",
            "n: Crashed",
            "p: Crashed",
            "p: Crashed"
        ]
    );
    assert_eq!(stage.service.look(|state| state.started.len()), 2);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_comes_again_while_it_runs_joins_the_run() {
    let stage = Stage::start(4).await;
    let first = request("c", "held", "");
    stage.publish(first.clone()).await;
    stage.service.started(1).await;
    stage.publish(first.clone()).await;
    stage.publish(first).await;
    tokio::time::sleep(SECOND).await;
    assert_eq!(stage.replies.len(), 0);
    stage.service.release("c");
    assert_eq!(stage.outcomes(3).await, ["c was run RockBot"; 3]);
    assert_eq!(stage.service.look(|state| state.started.len()), 1);
}

#[tokio::test(start_paused = true)]
async fn who_joined_a_run_that_was_lost_is_told_so() {
    let stage = Stage::start(4).await;
    let first = request("c", "held, then panic twice", "");
    stage.publish(first.clone()).await;
    stage.service.started(1).await;
    stage.publish(first).await;
    until("it joins", || stage.bus.inner.ready_count(WORKERS) == 0).await;
    stage.service.release("c");
    assert_eq!(stage.outcomes(1).await, ["c: OutcomeUnknown"]);
    let letters = stage.bus.inner.dead_letters(WORKERS);
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].reason, "the handler panicked");
}

/// Lets a worker by hand take a request and die with it.
pub(super) async fn redelivered(bus: &Faulty, request: Envelope) {
    redelivered_often(bus, request, 1).await;
}

/// Lets so many workers take a request, one after the other, and die with it.
async fn redelivered_often(bus: &Faulty, request: Envelope, times: usize) {
    take_and_die(bus, Some(request)).await;
    for _ in 1..times {
        take_and_die(bus, None).await;
    }
}

/// Lets a worker take a request, which is published when it listens or is there already.
async fn take_and_die(bus: &Faulty, request: Option<Envelope>) {
    let taken = watch::Sender::new(false);
    let take = taken.clone();
    let handler = move |_: Delivery| {
        take.send_replace(true);
        std::future::pending()
    };

    let pattern = TopicPattern::from(topic(WORK));
    let subscription = Subscription::durable(WORKERS, pattern, at_once(1));
    let dying = bus.subscribe(subscription, Arc::new(handler)).await.unwrap();
    if let Some(request) = request {
        bus.publish(&topic(WORK), request).await.unwrap();
    }
    within("the request is taken", taken.subscribe().wait_for(|taken| *taken)).await.unwrap();
    dying.kill().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_lost_worker_had_started_is_not_run_again() {
    let bus = Faulty::new();
    redelivered(&bus, request("c", "echo", "")).await;
    let stage = Stage::start_on(bus, 1).await;
    assert_eq!(stage.outcomes(1).await, ["c: OutcomeUnknown"]);
    // The answer stands, also for a copy that is not marked as redelivered.
    stage.publish(request("c", "echo", "")).await;
    assert_eq!(stage.outcomes(2).await, ["c: OutcomeUnknown"; 2]);
    assert_eq!(stage.service.look(|state| state.started.len()), 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_harmless_runs_again_after_its_worker_was_lost() {
    let bus = Faulty::new();
    redelivered(&bus, request("c", "harmless", "")).await;
    let stage = Stage::start_on(bus, 1).await;
    assert_eq!(stage.outcomes(1).await, ["c was run RockBot"]);
}

/// A request may be what ends its worker, so it is not even read.
#[tokio::test(start_paused = true)]
async fn what_ends_its_workers_becomes_a_dead_letter() {
    let bus = Faulty::new();
    redelivered_often(&bus, request("four", "harmless", ""), 4).await;
    let stage = Stage::start_on(bus.clone(), 1).await;
    assert_eq!(stage.outcomes(1).await, ["four was run RockBot"]);
    let Stage { responder, replies, .. } = stage;
    responder.unwrap().stop(SECOND).await;
    replies.close().await;

    redelivered_often(&bus, request("five", "harmless", ""), 5).await;
    let stage = Stage::start_on(bus, 1).await;
    assert_eq!(stage.outcomes(1).await, ["five: OutcomeUnknown"]);
    stage.publish(request("next", "harmless", "")).await;
    assert_eq!(stage.outcomes(2).await[1], "next was run RockBot");
    assert_eq!(stage.service.look(|state| state.started.clone()), ["next"]);
    let letters = stage.bus.inner.dead_letters(WORKERS);
    let reasons: Vec<_> = letters.iter().map(|letter| &*letter.reason).collect();
    assert_eq!(reasons, ["it was handed out 5 times before, and nobody answered"]);
}

/// A request of C# says no end, and its broker keeps it for as long as it is not answered.
#[tokio::test(start_paused = true)]
async fn what_is_harmless_is_not_run_again_after_its_time() {
    let sent = |ago: u64, envelope: Envelope| Envelope {
        timestamp: toolbus_wire::clock::unix_now().as_secs() - ago,
        ..envelope
    };
    for (ago, expected) in
        [(350, "c was run RockBot"), (370, "c: Timeout { asked: 60s, execution: Unknown }")]
    {
        let bus = Faulty::new();
        redelivered(&bus, sent(ago, request("c", "harmless", ""))).await;
        let stage = Stage::start_on(bus, 1).await;
        assert_eq!(stage.outcomes(1).await, [expected], "{ago} s");
        // One that comes for the first time has waited.
        stage.publish(sent(ago, request("d", "harmless", ""))).await;
        assert_eq!(stage.outcomes(2).await[1], "d was run RockBot");
    }
}

/// Nobody knows whether the worker that had it has started it.
#[tokio::test(start_paused = true)]
async fn what_comes_again_too_late_may_have_been_started() {
    let bus = Faulty::new();
    let late = request("c", "harmless", "").with_header(header::TIMEOUT_MS, "0");
    redelivered(&bus, late.clone()).await;
    let stage = Stage::start_on(bus, 1).await;
    assert_eq!(stage.outcomes(1).await, ["c: Timeout { asked: 0ns, execution: Unknown }"]);

    stage.publish(late.with_correlation_id("another")).await;
    assert_eq!(stage.outcomes(2).await[1], "c: Timeout { asked: 0ns, execution: NotStarted }");
}

#[tokio::test(start_paused = true)]
async fn a_service_that_finds_out_is_given_the_key_and_the_mark() {
    let bus = Faulty::new();
    let first = request("c", "found out", "");
    let key = CallKey::of(&first, "c");
    redelivered(&bus, first).await;
    let stage = Stage::start_on(bus, 1).await;
    assert_eq!(stage.outcomes(1).await, [format!("c again: true {key}")]);
    let second = request("d", "found out", "");
    let key = CallKey::of(&second, "d");
    stage.publish(second).await;
    assert_eq!(stage.outcomes(2).await[1], format!("d again: false {key}"));
}

/// The call had ended before its connection broke, and the broker did not hear of it.
#[tokio::test(start_paused = true)]
async fn what_is_redelivered_and_remembered_has_its_first_outcome() {
    let stage = Stage::start(1).await;
    stage.publish(request("c", "echo", "")).await;
    stage.outcomes(1).await;
    // While the responder has no permit to give, the copy goes to the worker that dies with it.
    stage.publish(request("d", "held", "")).await;
    stage.service.started(2).await;
    redelivered(&stage.bus, request("c", "echo", "")).await;
    stage.service.release("d");
    assert_eq!(stage.outcomes(3).await[2], "c was run RockBot");
    assert_eq!(stage.service.look(|state| state.started.clone()), ["c", "d"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_past_its_deadline_is_not_started() {
    let stage = Stage::start(1).await;
    stage.publish(request("a", "echo", "").with_header(header::DEADLINE_MS, "1")).await;
    let none = request("b", "echo", "").with_header(header::TIMEOUT_MS, "0");
    stage.publish(none).await;
    assert_eq!(
        stage.outcomes(2).await,
        [
            "a: Timeout { asked: 60s, execution: NotStarted }",
            "b: Timeout { asked: 0ns, execution: NotStarted }"
        ]
    );
    assert_eq!(stage.service.look(|state| state.started.len()), 0);
}

#[tokio::test(start_paused = true)]
async fn work_that_overruns_is_dropped_and_answered_before_the_caller_gives_up() {
    let stage = Stage::start(1).await;
    let started = Instant::now();
    stage.publish(request("c", "held", "").with_header(header::TIMEOUT_MS, "10000")).await;
    assert_eq!(stage.outcomes(1).await, ["c: Timeout { asked: 10s, execution: Started }"]);
    let took = started.elapsed();
    assert!(took >= 9 * SECOND && took < Duration::from_millis(9_100), "{took:?}");
    assert_eq!(stage.service.look(|state| state.dropped.clone()), ["c"]);
    assert_eq!(stage.service.look(|state| state.told.clone()), ["c"]);
    let deadline = stage.service.look(|state| state.deadline).unwrap();
    assert_eq!(deadline.at(), started + 9 * SECOND);
    assert_eq!(deadline.asked(), 10 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_malformed_request_is_answered_once_when_it_can_be() {
    let stage = Stage::start(1).await;
    for body in
        ["", "null", "[]", "{\"toolName\":\"echo\"}", "{\"toolCallId\":\"c\",\"toolName\":7}"]
    {
        let malformed = Envelope::new("Test", "RockBot", Bytes::from_static(body.as_bytes()));
        stage.publish(malformed.with_reply_to(topic("replies"))).await;
    }

    let binary = Envelope::new("Test", "RockBot", Bytes::from_static(b"\xff\xfe"));
    stage.publish(binary.with_reply_to(topic("replies"))).await;
    stage.publish(request("after", "echo", "")).await;
    let outcomes = stage.outcomes(7).await;
    assert!(outcomes[..6].iter().all(|outcome| outcome.contains(": Malformed(")), "{outcomes:?}");
    assert!(outcomes[4].starts_with("c: "), "the ids that could be read: {outcomes:?}");
    assert_eq!(outcomes[6], "after was run RockBot");
    assert!(stage.bus.inner.dead_letters(WORKERS).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_request_that_cannot_be_answered_is_a_dead_letter_with_the_reason() {
    let stage = Stage::start(1).await;
    stage.publish(Envelope::new("Test", "RockBot", Bytes::from_static(b"{"))).await;
    stage.publish(Envelope { reply_to: None, ..request("c", "echo", "") }).await;
    stage.publish(request("after", "echo", "")).await;
    stage.outcomes(1).await;
    let letters = stage.bus.inner.dead_letters(WORKERS);
    let reasons: Vec<_> = letters.iter().map(|letter| letter.reason.as_str()).collect();
    assert_eq!(reasons.len(), 2);
    assert!(reasons[0].starts_with("the body is not JSON"), "{reasons:?}");
    assert_eq!(reasons[1], "the request names no reply topic");
    assert_eq!(stage.service.look(|state| state.started.clone()), ["after"]);
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_reply_topic_is_answered_where_the_service_says() {
    let bus = Faulty::new();
    let replies = Inbox::open(&*bus, "anywhere").await;
    let service = Scripted { default_reply: Some(topic("anywhere")), ..Scripted::default() };
    let _responder = Responder::start(bus.clone(), listen("one", 1), service).await.unwrap();
    let unaddressed = Envelope { reply_to: None, ..request("c", "echo", "") };
    bus.publish(&topic(WORK), unaddressed).await.unwrap();
    assert_eq!(outcome(&replies.received(1).await[0]), "c was run RockBot");

    // What cannot be read is not answered to somebody who did not ask.
    let malformed = Envelope::new("Test", "RockBot", Bytes::new());
    bus.publish(&topic(WORK), malformed).await.unwrap();
    until("a dead letter", || bus.inner.dead_letters(WORKERS).len() == 1).await;
    assert_eq!(replies.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_outcome_that_fits_into_no_message_is_an_error_that_says_so() {
    let stage = Stage::start(1).await;
    stage.publish(request("c", "large", &BODY_BYTES_MAX.to_string())).await;
    stage.publish(request("d", "large", &(BODY_BYTES_MAX + 1).to_string())).await;
    let replies = stage.replies.received(2).await;
    assert_eq!(replies[0].body.len(), BODY_BYTES_MAX);
    assert_eq!(outcome(&replies[1]), "d: TooLarge { bytes: 16777217 }");
}

#[tokio::test(start_paused = true)]
async fn no_more_calls_run_than_there_are_permits() {
    let stage = Stage::start(3).await;
    for number in 0..10 {
        stage.publish(request(&number.to_string(), "sleep", "1")).await;
    }
    stage.outcomes(10).await;
    assert_eq!(stage.service.look(|state| state.most_running), 3);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_is_gone_holds_up_nobody() {
    let stage = Stage::start(1).await;
    let nowhere = topic("nobody.listens");
    for number in 0..100 {
        let lonely = request(&number.to_string(), "echo", "");
        stage.publish(lonely.with_reply_to(nowhere.clone())).await;
    }
    let started = Instant::now();
    stage.publish(request("c", "echo", "")).await;
    stage.outcomes(1).await;
    assert!(started.elapsed() < Duration::from_millis(100), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_comes_back_soon_gets_its_reply() {
    let stage = Stage::start(1).await;
    stage.publish(request("c", "echo", "").with_reply_to(topic("back.soon"))).await;
    stage.publish(request("d", "echo", "").with_reply_to(topic("back.late"))).await;
    tokio::time::sleep(4 * SECOND).await;
    let soon = Inbox::open(&*stage.bus, "back.soon").await;
    assert_eq!(outcome(&soon.received(1).await[0]), "c was run RockBot");
    tokio::time::sleep(2 * SECOND).await;
    let late = Inbox::open(&*stage.bus, "back.late").await;
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!((soon.len(), late.len()), (1, 0));
}

/// Replies of 16 MiB that nobody takes must not pile up.
#[tokio::test(start_paused = true)]
async fn replies_that_wait_for_their_caller_are_bounded_in_bytes() {
    let stage = Stage::start(1).await;
    let content = (15 << 20).to_string();

    for number in 0..8 {
        let lonely = request(&number.to_string(), "large", &content);
        stage.publish(lonely.with_reply_to(topic("back.soon"))).await;
    }

    stage.service.started(8).await;
    stage.publish(request("c", "echo", "")).await;
    stage.outcomes(1).await;
    let back = Inbox::open(&*stage.bus, "back.soon").await;
    tokio::time::sleep(10 * SECOND).await;
    let bytes: usize = back.received(0).await.iter().map(|reply| reply.body.len()).sum();
    assert!(bytes > 0 && bytes <= 64 << 20, "{bytes} bytes waited");
}

/// The same while the broker is away: the requests are at work, and so are their replies.
#[tokio::test(start_paused = true)]
async fn replies_that_wait_for_the_broker_are_bounded_in_bytes() {
    let stage = Stage::start(8).await;
    let away = || Fault::Fails(PublishError::Unavailable("connection refused".to_owned()));
    stage.bus.fail_to("replies", (0..100).map(|_| away()));
    for number in 0..6 {
        stage.publish(request(&number.to_string(), "large", &(15 << 20).to_string())).await;
    }

    let replies = stage.replies.received(6).await;
    let large = replies.iter().filter(|reply| reply.body.len() == 15 << 20).count();
    let others = replies.iter().filter(|reply| message::is::<ToolError>(reply));
    let others: Vec<_> = others.map(outcome).collect();
    assert_eq!(large, 4);
    assert!(others.iter().all(|other| other.ends_with(": OutcomeUnknown")), "{others:?}");
}

#[tokio::test(start_paused = true)]
async fn a_reply_outlasts_an_outage_of_the_broker() {
    let stage = Stage::start(1).await;
    stage.publish(request("c", "held", "")).await;
    stage.service.started(1).await;
    let away = || PublishError::Unavailable("connection refused".to_owned());
    stage.bus.fail((0..20).map(|_| Fault::Fails(away())));
    stage.service.release("c");
    assert_eq!(stage.outcomes(1).await, ["c was run RockBot"]);
    assert_eq!(stage.bus.published(&topic("replies")).len(), 21);
}

#[tokio::test(start_paused = true)]
async fn a_reply_is_tried_for_as_long_as_its_caller_waits_and_not_stormed() {
    let stage = Stage::start(1).await;
    stage.publish(request("c", "held", "").with_header(header::TIMEOUT_MS, "60000")).await;
    stage.service.started(1).await;
    let unconfirmed = || Fault::Fails(PublishError::Unconfirmed);
    stage.bus.fail_to("replies", (0..1_000).map(|_| unconfirmed()));
    stage.service.release("c");
    stage.publish(request("next", "echo", "")).await;
    tokio::time::sleep(50 * SECOND).await;
    let tries = stage.bus.published(&topic("replies")).len();
    assert!((150..=210).contains(&tries), "{tries} tries, in fifty seconds");

    // A worker that died now would leave the request to another.
    let next = |state: &State| state.started.iter().any(|call| call == "next");
    assert!(!stage.service.look(next), "the request is not acked");
    stage.service.until("the request is done with", next).await;
}

/// Whoever waits hears that its call is held until it has the reply.
#[tokio::test(start_paused = true)]
async fn heartbeats_go_on_until_the_reply_is_confirmed() {
    let stage = Stage::start(1).await;
    let heartbeats = Inbox::open(&*stage.bus, "alive").await;
    let alive = request("c", "held", "").with_header(header::PROGRESS_TO, "alive");
    stage.publish(alive).await;
    stage.service.started(1).await;
    heartbeats.received(1).await;

    // The broker confirms nothing for a while.
    stage.service.release("c");
    stage.bus.fail_to("replies", (0..40).map(|_| Fault::Fails(PublishError::Unconfirmed)));
    tokio::time::sleep(8 * SECOND).await;
    assert_eq!(stage.replies.len(), 0);
    assert!(heartbeats.len() >= 7, "{}", heartbeats.len());
    assert_eq!(stage.outcomes(1).await, ["c was run RockBot"]);
}

/// One confirm that takes long holds up no other caller's heartbeats.
#[tokio::test(start_paused = true)]
async fn heartbeats_do_not_wait_for_each_other() {
    let stage = Stage::start(2).await;
    let heartbeats = Inbox::open(&*stage.bus, "alive").await;
    stage.bus.fail_to("hangs", (0..100).map(|_| Fault::Hangs));
    stage.publish(request("a", "held", "").with_header(header::PROGRESS_TO, "hangs")).await;
    stage.publish(request("b", "held", "").with_header(header::PROGRESS_TO, "alive")).await;
    stage.service.started(2).await;
    tokio::time::sleep(10 * SECOND).await;
    assert!(heartbeats.len() >= 9, "{}", heartbeats.len());
    let stuck = stage.bus.published(&topic("hangs")).len();
    assert!(stuck <= 3, "{stuck} are sent and not confirmed");
}

/// Whether it ran is for whoever had it first to say, if that is alive.
#[tokio::test(start_paused = true)]
async fn an_answer_for_another_worker_is_tentative() {
    let bus = Faulty::new();
    let news = Inbox::open(&*bus, "news").await;
    redelivered(&bus, request("c", "echo", "").with_header(header::PROGRESS_TO, "news")).await;
    let stage = Stage::start_on(bus, 1).await;
    let reply = stage.replies.received(1).await.remove(0);
    assert_eq!(outcome(&reply), "c: OutcomeUnknown");
    assert!(reply.headers.get(header::TENTATIVE).is_some());
    assert_eq!(news.len(), 0);

    stage.publish(request("d", "echo", "")).await;
    let reply = stage.replies.received(2).await.remove(1);
    assert!(reply.headers.get(header::TENTATIVE).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_service_that_panics_is_answered_for_and_goes_on() {
    let stage = Stage::start(1).await;
    stage.publish(request("a", "panic", "")).await;
    stage.publish(request("b", "panic at once", "")).await;
    let unreadable = Envelope::new("Test", "RockBot", Bytes::from_static(b"panic"));
    stage.publish(unreadable.with_reply_to(topic("replies"))).await;
    stage.publish(request("c", "echo", "")).await;
    assert_eq!(
        stage.outcomes(4).await,
        [
            "a: Crashed",
            "b: Crashed",
            ": Malformed(\"the worker panicked when it read the request\")",
            "c was run RockBot"
        ]
    );
    assert!(stage.bus.inner.dead_letters(WORKERS).is_empty());
}

/// Heartbeats and cancel messages repeat the id of a call.
#[tokio::test(start_paused = true)]
async fn a_request_whose_call_id_is_too_long_is_malformed() {
    let stage = Stage::start(1).await;
    let longest = "x".repeat(ID_BYTES_MAX);
    stage.publish(request(&longest, "echo", "").with_correlation_id("longest")).await;
    stage.publish(request(&format!("{longest}x"), "echo", "").with_correlation_id("over")).await;
    let outcomes = stage.outcomes(2).await;
    assert_eq!(outcomes[0], format!("{longest} was run RockBot"));
    let reason = "the id of a call has 257 bytes, over 256";
    assert_eq!(outcomes[1], format!("{longest}: Malformed({reason:?})"));
    assert_eq!(stage.service.look(|state| state.started.len()), 1);
}
