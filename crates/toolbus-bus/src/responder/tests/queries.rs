//! What workers ask, their callers and each other, and what they answer.

use toolbus_wire::message::toolbus::{CallQuery, CallState, CallStatus, ReplyRequest};

use super::clocks::sent_ago;
use super::delivery::redelivered;
use super::*;

/// A caller that hears queries at `status`, and has waited since before any worker was there.
struct WaitingCaller {
    bus: Arc<Faulty>,
    queries: Arc<Inbox>,
}

impl WaitingCaller {
    async fn send(request: Envelope) -> Self {
        let bus = Faulty::new();
        let queries = Inbox::open(&*bus, "status").await;
        make_queue(&bus).await;
        let moment = toolbus_wire::clock::unix_now().as_millis() + 60_000 - 10;
        let request = request
            .with_header(header::STATUS_TO, "status")
            .with_header(header::DEADLINE_MS, moment.to_string())
            .with_expiry(60 * SECOND);
        bus.publish(&topic(WORK), request).await.unwrap();
        Self { bus, queries }
    }

    async fn answer(&self, state: CallState) {
        let query = self.queries.received(1).await.remove(0);
        let asked: CallQuery = json::read(&query.body).unwrap();
        let status = CallStatus { correlation_id: asked.correlation_id, state };
        self.bus.publish(&query.reply_to.unwrap(), Envelope::of(&status, "caller")).await.unwrap();
    }
}

/// The queue of the workers, before there is any.
async fn make_queue(bus: &Arc<Faulty>) {
    let pattern = TopicPattern::from(topic(WORK));
    let subscription = Subscription::durable(WORKERS, pattern, at_once(1));
    let ack = |_: Delivery| std::future::ready(Disposition::Ack);
    bus.subscribe(subscription, Arc::new(ack)).await.unwrap().kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_request_from_before_the_worker_s_start_is_run_once_its_caller_wants_it() {
    let caller = WaitingCaller::send(request("c", "echo", "")).await;
    let stage = Stage::start_on(Arc::clone(&caller.bus), 1).await;
    caller.queries.received(1).await;
    assert_eq!(stage.service.look(|state| state.started.len()), 0);
    caller.answer(CallState::Awaited).await;
    assert_eq!(stage.outcomes(1).await, ["c was run RockBot"]);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_was_given_up_before_the_worker_s_start_is_not_run() {
    let caller = WaitingCaller::send(request("c", "echo", "")).await;
    let stage = Stage::start_on(Arc::clone(&caller.bus), 1).await;
    caller.answer(CallState::Abandoned).await;
    stage.publish(request("d", "echo", "")).await;
    assert_eq!(stage.outcomes(1).await, ["d was run RockBot"]);
    assert_eq!(stage.service.look(|state| state.started.clone()), ["d"]);
    assert_eq!(stage.bus.inner.ready_count(WORKERS), 0, "it is not kept either");
}

/// Its process is gone, or is away for longer than its calls can wait.
#[tokio::test(start_paused = true)]
async fn a_request_whose_caller_does_not_answer_is_not_run() {
    let caller = WaitingCaller::send(request("c", "echo", "")).await;
    caller.queries.close().await;
    let began = Instant::now();
    let stage = Stage::start_on(Arc::clone(&caller.bus), 1).await;
    assert_eq!(stage.outcomes(1).await, ["c: Cancelled { execution: NotStarted }"]);
    assert!(began.elapsed() <= 11 * SECOND, "{:?}", began.elapsed());
    assert_eq!(stage.service.look(|state| state.started.len()), 0);
}

/// Its cancel message may be right behind it.
#[tokio::test(start_paused = true)]
async fn a_request_that_was_held_up_is_run_once_its_caller_wants_it() {
    let awaited = (CallState::Awaited, vec!["early", "late", "next"]);
    let abandoned = (CallState::Abandoned, vec!["early", "next"]);
    for (state, expected) in [awaited, abandoned] {
        let stage = Stage::start(1).await;
        let queries = Inbox::open(&*stage.bus, "status").await;
        let send = async |call: &str, ago: Duration| {
            let request = sent_ago(call, "echo", 120, ago).with_header(header::STATUS_TO, "status");
            stage.publish(request).await;
        };

        send("early", Duration::ZERO).await;
        assert_eq!(stage.outcomes(1).await, ["early was run RockBot"]);
        assert_eq!(queries.len(), 0, "it was not late");

        // The wall clock is not paused, and the worker listens since before this one is sent.
        std::thread::sleep(3 * SECOND);
        send("late", Duration::from_millis(2_500)).await;
        let query = queries.received(1).await.remove(0);
        assert_eq!(stage.service.look(|state| state.started.len()), 1);
        let asked: CallQuery = json::read(&query.body).unwrap();
        let status = CallStatus { correlation_id: asked.correlation_id, state };
        let to = query.reply_to.unwrap();
        stage.bus.publish(&to, Envelope::of(&status, "caller")).await.unwrap();

        send("next", Duration::ZERO).await;
        stage.outcomes(expected.len()).await;
        assert_eq!(stage.service.look(|state| state.started.clone()), expected);
    }
}

/// Callers that take no heartbeats cannot find out by themselves who has the call.
#[tokio::test(start_paused = true)]
async fn a_redelivered_call_is_left_to_the_worker_that_runs_it() {
    let bus = Faulty::new();
    let broadcast = Inbox::open(&*bus, topic::TOOL_CANCEL.as_str()).await;
    redelivered(&bus, request("c", "echo", "")).await;
    let stage = Stage::start_on(bus, 1).await;

    // Another worker runs it for 30 s, and answers its caller then.
    let mut asked = 0;
    let began = Instant::now();
    while began.elapsed() < 30 * SECOND {
        asked += 1;
        let query = broadcast.received(asked).await.pop().unwrap();
        let ended = began.elapsed() > 25 * SECOND;
        let state = if ended { CallState::Ended } else { CallState::Running };
        let correlation_id = "correlation of c".to_owned();
        let status = Envelope::of(&CallStatus { correlation_id, state }, "another");
        stage.bus.publish(&query.reply_to.unwrap(), status).await.unwrap();
        if ended {
            break;
        }
    }

    stage.publish(request("d", "echo", "")).await;
    assert_eq!(stage.outcomes(1).await, ["d was run RockBot"], "nothing is said of the other");
}

#[tokio::test(start_paused = true)]
async fn a_redelivered_call_that_no_worker_runs_has_an_unknown_outcome() {
    let bus = Faulty::new();
    redelivered(&bus, request("c", "echo", "")).await;
    let began = Instant::now();
    let stage = Stage::start_on(bus, 1).await;
    // It has not begun the call that it asks about, and must not take itself for another.
    let _second = stage.worker("two", 1).await.unwrap();
    assert_eq!(stage.outcomes(1).await, ["c: OutcomeUnknown"]);
    assert!(began.elapsed() < 17 * SECOND, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_worker_says_of_a_call_that_it_runs_or_has_run_it() {
    let stage = Stage::start(1).await;
    let answers = Inbox::open(&*stage.bus, "another").await;
    let ask = async |source: &str, call: &str| {
        let query = CallQuery {
            instance: "another".to_owned(),
            source: source.to_owned(),
            tool_call_id: call.to_owned(),
            correlation_id: format!("correlation of {call}"),
        };
        let query = Envelope::of(&query, "another").with_reply_to(topic("another"));
        stage.bus.publish(&topic::TOOL_CANCEL, query).await.unwrap();
    };

    stage.publish(request("c", "sleep", "3")).await;
    stage.service.started(1).await;
    ask("stranger", "c").await;
    ask("RockBot", "d").await;
    ask("RockBot", "c").await;
    answers.received(1).await;
    stage.outcomes(1).await;
    ask("RockBot", "c").await;
    let states: Vec<_> =
        answers.read::<CallStatus>(2).await.into_iter().map(|status| status.state).collect();
    assert_eq!(states, [CallState::Running, CallState::Ended]);
}

#[tokio::test(start_paused = true)]
async fn a_reply_is_sent_once_more_to_where_it_went_before() {
    let stage = Stage::start(1).await;
    let elsewhere = Inbox::open(&*stage.bus, "elsewhere").await;
    stage.publish(request("c", "echo", "")).await;
    stage.outcomes(1).await;

    let ask = async |source: &str| {
        let correlation_ids = vec!["correlation of c".to_owned(), "unknown".to_owned()];
        let request = ReplyRequest { source: source.to_owned(), correlation_ids };
        let request = Envelope::of(&request, source).with_reply_to(topic("elsewhere"));
        stage.bus.publish(&topic::TOOL_CANCEL, request).await.unwrap();
    };
    ask("stranger").await;
    ask("RockBot").await;
    assert_eq!(stage.outcomes(2).await, ["c was run RockBot", "c was run RockBot"]);
    let correlations = stage.replies.received(2).await;
    assert!(
        correlations
            .iter()
            .all(|reply| { reply.correlation_id.as_deref() == Some("correlation of c") })
    );
    tokio::time::sleep(SECOND).await;
    assert_eq!((stage.replies.len(), elsewhere.len()), (2, 0));
    assert_eq!(stage.service.look(|state| state.started.len()), 1);
}
