//! One call from end to end: its outcome, its time, its end before the time, and its progress.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use tokio::time::{Instant, sleep};
use toolbus_bus::requester::{self, REQUESTS_MAX};
use toolbus_bus::{Envelope, Progress, PublishError};
use toolbus_tools::bus::{error_of, output_of, reply_to};
use toolbus_tools::call::{Arguments, Call};
use toolbus_tools::{CallError, Output};
use toolbus_wire::message::tool::{CallIds, ToolInvokeRequest};
use toolbus_wire::{ErrorCode, Execution, message};

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn an_outcome_is_the_same_at_both_ends() {
    let fleet = Fleet::start().await;
    let here = tools(&Watched::default());
    for (tool, what) in [
        ("work", "anything"),
        ("read", "anything"),
        ("work", "block"),
        ("work", "fail itself"),
        ("work", "fail"),
        ("work", "panic"),
        ("missing", "anything"),
    ] {
        let remote = fleet.call(tool, what).await;
        assert_eq!(remote, here.invoke(call(tool, what)).await, "{tool} {what}");
    }
    let refused = Call { arguments: Arguments::Value(json!({"x": 1})), ..call("work", "") };
    assert_eq!(
        fleet.caller.invoke(refused).await,
        Err(CallError::invalid_arguments("Missing required argument: do"))
    );
    assert_eq!(fleet.requester.stats(), requester::Stats::default());
}

/// A tool that has run has an outcome, however much it says.
#[tokio::test(start_paused = true)]
async fn an_output_that_is_too_large_for_a_message_is_cut() {
    let fleet = Fleet::start().await;
    let output = fleet.call("work", "say too much").await.unwrap();
    assert!(output.content.unwrap().contains("chars omitted]"));
    assert!(output.blocks.is_empty() && output.structured.is_none());
}

#[tokio::test(start_paused = true)]
async fn each_hop_has_less_time_and_a_timeout_names_what_was_asked_for() {
    let fleet = Fleet::start().await;
    let started = Instant::now();
    let outcome = fleet.call("work", "never end").await;
    let timeout = CallError::new(ErrorCode::Timeout, "tool 'work' did not end within 100000 ms");
    assert_eq!(outcome, Err(timeout.with_execution(Execution::Started)));
    let took = started.elapsed();
    assert!(took > 97 * SECOND && took < 99 * SECOND, "the worker says so, in time: {took:?}");
    let left = fleet.look(|seen| seen.left[0]);
    assert!(left > 97 * SECOND && left <= 98 * SECOND, "{left:?}");
    // It had a moment to hear that it was cancelled.
    sleep(SECOND).await;
    assert_eq!(fleet.look(|seen| seen.dropped), 1);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_reaches_the_tool() {
    let fleet = Fleet::start().await;
    for (nth, what) in ["never end", "end on cancel"].into_iter().enumerate() {
        let call = call("work", what);
        let cancelled = call.cancelled.clone();
        let cancelling = async {
            until(&fleet.seen, "the tool runs", |seen| seen.started.len() == nth + 1).await;
            cancelled.cancel();
            Instant::now()
        };
        let (outcome, since) = tokio::join!(fleet.caller.invoke(call), cancelling);
        assert_eq!(outcome, Err(CallError::cancelled()));
        assert!(since.elapsed() < SECOND / 10, "the caller is not kept");
        until(&fleet.seen, "the tool is told", |seen| seen.cancelled == nth + 1).await;
        assert!(since.elapsed() < SECOND);
    }
    assert_eq!(fleet.look(|seen| seen.dropped), 1);
}

#[tokio::test(start_paused = true)]
async fn progress_reaches_the_caller_before_the_outcome() {
    let fleet = Fleet::start().await;
    let heard = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&heard);
    let progress = Progress::to(move |news| sink.lock().push((news.seq, news.progress)));
    let outcome = fleet.caller.invoke(Call { progress, ..call("work", "talk") }).await;
    assert_eq!(outcome, Ok(Output::text("talked")));
    assert_eq!(*heard.lock(), [(0, Some(1.0)), (1, Some(2.0)), (2, Some(3.0))]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_nobody_can_take_fails_at_once() {
    let fleet = Fleet::start().await;
    let started = Instant::now();
    let error = fleet.call("nowhere", "anything").await.unwrap_err();
    assert_eq!(error.code, ErrorCode::Unroutable);
    assert_eq!(error.message, "tool 'nowhere': no queue takes the topic nobody.listens");
    assert_eq!(started.elapsed(), Duration::ZERO);
}

#[test]
fn every_failure_of_a_request_has_its_code() {
    let check = |error: requester::Error, code: ErrorCode, text: &str| {
        let told = error_of("x", error);
        assert_eq!((told.code, told.message.as_str()), (code, text));
    };
    let publish = requester::Error::Publish;
    let asked = 5 * SECOND;
    check(
        requester::Error::Timeout { asked },
        ErrorCode::Timeout,
        "tool 'x' did not end within 5000 ms",
    );
    check(requester::Error::Cancelled, ErrorCode::Cancelled, "the call was cancelled");
    check(
        requester::Error::WorkerLost,
        ErrorCode::OutcomeUnknown,
        "tool 'x': the worker that had taken the call was lost",
    );
    check(
        requester::Error::Busy,
        ErrorCode::Busy,
        &format!("tool 'x': {REQUESTS_MAX} requests are under way already"),
    );
    check(requester::Error::Closed, ErrorCode::OutcomeUnknown, "tool 'x': the requester is closed");
    check(
        requester::Error::Refused("full".to_owned()),
        ErrorCode::Busy,
        "tool 'x': the broker refused the call: full",
    );
    check(
        requester::Error::Unconfirmed,
        ErrorCode::OutcomeUnknown,
        "tool 'x': the broker did not confirm the call, and no worker has spoken of it",
    );
    check(
        publish(PublishError::Unavailable("away".to_owned())),
        ErrorCode::Unroutable,
        "tool 'x': the broker is not reachable: away",
    );
    check(
        publish(PublishError::TooLarge { bytes: 1 }),
        ErrorCode::InvalidArguments,
        "tool 'x': a body of 1 bytes is over the limit of 16777216",
    );
    check(publish(PublishError::Closed), ErrorCode::Unroutable, "tool 'x': the bus is closed");
    // What a closed bus did not take was never sent.
    let closed = error_of("x", publish(PublishError::Closed));
    assert_eq!((closed.execution, closed.is_retryable), (Execution::NotStarted, true));
}

#[test]
fn an_outcome_survives_its_message() {
    let ids = CallIds { tool_call_id: "c".to_owned(), tool_name: "x".to_owned() };
    for outcome in [
        Ok(Output::default()),
        Ok(Output::text("")),
        Ok(Output::error("no luck")),
        Err(CallError::new(ErrorCode::RateLimited, "slow down")),
    ] {
        let reply = reply_to(&ids, outcome.clone());
        let envelope = Envelope::new(reply.message_type, "worker", reply.body);
        assert_eq!(output_of(&envelope), outcome);
    }
    let garbage = Envelope::new("RockBot.Tools.ToolInvokeResponse", "odd", "[".into());
    let error = output_of(&garbage).unwrap_err();
    assert_eq!(error.code, ErrorCode::OutcomeUnknown);
    assert!(error.message.starts_with("the reply of odd cannot be read: "), "{}", error.message);
}

/// Models number their calls alike in every session, so the wire has ids of its own.
#[tokio::test(start_paused = true)]
async fn each_call_has_an_id_of_its_own_on_the_wire() {
    let fleet = Fleet::start().await;
    let requests = Inbox::open(&fleet.broker, "tool.invoke.agent.*").await;
    for _ in 0..2 {
        assert!(fleet.call("work", "anything").await.is_ok());
    }
    let ids: Vec<_> = requests.received(2).await.iter().map(wire_id).collect();
    assert!(ids.iter().all(|id| id.len() == 32) && ids[0] != ids[1], "{ids:?}");
}

fn wire_id(request: &Envelope) -> String {
    message::read::<ToolInvokeRequest>(request).unwrap().tool_call_id
}
