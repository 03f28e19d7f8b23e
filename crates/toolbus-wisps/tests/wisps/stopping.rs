//! Calls that are cancelled, whose time is over, or that are dropped.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::json;
use toolbus_testkit::eventually;
use toolbus_tools::Scope;
use toolbus_tools::call::CallTime;
use toolbus_wire::ErrorCode;
use toolbus_wisps::WispsConfig;

use crate::support::{Bench, LIMIT, call_as, scope, scope_of, script, search, wisp, with};

/// Waits until so many calls run.
async fn until_running(bench: &Bench, count: usize) {
    eventually(LIMIT, async || match bench.world.running.load(Ordering::SeqCst) {
        running if running == count => Ok(()),
        running => Err(running),
    })
    .await;
}

#[tokio::test]
async fn cancelling_the_call_cancels_all_of_it() {
    let bench = Bench::new();
    let wisps: Vec<_> =
        (0..30).map(|_| wisp(vec![search("a", "hang"), search("b", "x")])).collect();
    let call = call_as("c1", json!(wisps));
    let cancelled = call.cancelled.clone();
    let stopping = async {
        until_running(&bench, 10).await;
        cancelled.cancel();
    };
    let (outcome, ()) = tokio::join!(bench.invoker.invoke(call), stopping);
    assert_eq!(outcome.unwrap_err().code, ErrorCode::Cancelled);
    assert_eq!(bench.world.running.load(Ordering::SeqCst), 0);
    assert_eq!(bench.calls().len(), 10, "none was begun after it");
}

#[tokio::test]
async fn cancelling_the_scope_cancels_all_of_it() {
    let bench = Bench::new();
    let scope = scope();
    let stopping = async {
        until_running(&bench, 1).await;
        scope.cancelled.cancel();
    };
    let running = bench.spawn_in(&scope, json!([wisp(vec![search("a", "hang")])]));
    let (outcome, ()) = tokio::join!(running, stopping);
    assert_eq!(outcome.unwrap_err().code, ErrorCode::Cancelled);
    assert_eq!(bench.world.running.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn what_has_not_ended_in_time_has_failed_and_the_rest_is_told() {
    let config = WispsConfig { timeout: Duration::from_secs(2), ..WispsConfig::default() };
    let bench = Bench::with_config(config);
    let began = Instant::now();
    let wisps = json!([
        wisp(vec![search("a", "give:done")]),
        wisp(vec![search("a", "x"), search("b", "hang"), search("c", "x")]),
    ]);
    let text = bench.spawn(wisps).await.to_text().into_owned();
    assert!(began.elapsed() < Duration::from_secs(10));
    assert!(text.starts_with("PARTIAL FAILURE: 1 of 2"), "{text}");
    assert!(text.contains("Output: done"), "{text}");
    assert!(text.contains("Failed at step `b` (External)"), "{text}");
    assert_eq!(bench.world.running.load(Ordering::SeqCst), 0);
    assert_eq!(bench.calls().len(), 3);
}

#[tokio::test]
async fn a_caller_with_less_time_is_told_in_time() {
    let bench = Bench::new();
    let call = call_as("c1", json!([wisp(vec![search("a", "hang")])]));
    let call = call.with_time(CallTime::within(Duration::from_secs(3)));
    let output = bench.invoker.invoke(call).await.expect("a result, and no timeout");
    assert!(output.is_error);
    assert!(output.to_text().contains("Failed at step `a` (External)"), "{}", output.to_text());
}

#[tokio::test]
async fn a_step_has_a_time_of_its_own() {
    let bench = Bench::new();
    let short = with(
        search("a", "hang"),
        json!({"timeout_minutes": 0.003, "on_failure": {"skip_to": "b"}}),
    );
    let text = bench.spawn(json!([wisp(vec![short, search("b", "give:after")])])).await;
    let text = text.to_text();
    assert!(
        text.contains(
            "Skipped over step `a` (External): tool 'web_search' did not end within 180 ms"
        ),
        "{text}"
    );
    assert!(text.contains("Output: after"), "{text}");
}

#[tokio::test]
async fn a_call_that_is_dropped_leaves_nothing_running() {
    let bench = Bench::new();
    let wisps = json!([wisp(vec![search("a", "hang")]), wisp(vec![script("a", "hang")])]);
    {
        let mut running = Box::pin(bench.invoker.invoke(call_as("c1", wisps.clone())));
        tokio::select! {
            _ = &mut running => panic!("it hangs"),
            () = until_running(&bench, 2) => {}
        }
    }
    assert_eq!(bench.world.running.load(Ordering::SeqCst), 0);
    for call in bench.calls() {
        assert!(call.scope.cancelled.is_cancelled());
    }
}

#[tokio::test]
async fn the_same_call_does_not_run_twice_at_a_time_and_calls_are_bounded() {
    let config = WispsConfig { batches_max: 2, ..WispsConfig::default() };
    let bench = Bench::with_config(config);
    let wait = || json!([wisp(vec![search("a", "wait")])]);
    // An id that nobody else has: each call has a run of its own here.
    let id = |n: u32| format!("{n:032x}");
    let trying = async {
        until_running(&bench, 2).await;
        let again = bench.spawn_as(&id(1), wait()).await.unwrap_err();
        assert_eq!(again.code, ErrorCode::Busy);
        assert!(again.message.contains("under way already"), "{again}");
        let third = bench.spawn_as(&id(3), wait()).await.unwrap_err();
        assert!(
            third.is_retryable && third.message.contains("2 calls with wisps are under way"),
            "{third}"
        );
        bench.world.gate.add_permits(2);
    };
    let (one, two) = (id(1), id(2));
    let (first, second, ()) =
        tokio::join!(bench.spawn_as(&one, wait()), bench.spawn_as(&two, wait()), trying);
    assert!(!first.unwrap().is_error && !second.unwrap().is_error);
    bench.world.gate.add_permits(1);
    assert!(!bench.spawn_as(&id(3), wait()).await.unwrap().is_error);
}

#[tokio::test]
async fn a_scope_that_is_nested_too_deep_has_no_wisps() {
    let bench = Bench::new();
    let deep = Scope { depth: toolbus_tools::scope::DEPTH_MAX, ..(*scope()).clone() };
    let refused = bench.spawn_in(&Arc::new(deep), json!([wisp(vec![search("a", "x")])])).await;
    assert_eq!(refused.unwrap_err().code, ErrorCode::Denied);
    assert!(bench.calls().is_empty());
}

#[tokio::test]
async fn no_owner_takes_all_the_room() {
    let config = WispsConfig { owner_batches_max: 1, ..WispsConfig::default() };
    let bench = Bench::with_config(config);
    let trying = async {
        until_running(&bench, 1).await;
        let second = bench.try_spawn(json!([wisp(vec![search("a", "x")])])).await.unwrap_err();
        assert_eq!(second.code, ErrorCode::Busy);
        let other = scope_of("other");
        let others = bench.spawn_in(&other, json!([wisp(vec![search("a", "x")])])).await;
        assert!(!others.unwrap().is_error);
        bench.world.gate.add_permits(1);
    };
    let running = bench.spawn(json!([wisp(vec![search("a", "wait")])]));
    let (output, ()) = tokio::join!(running, trying);
    assert!(!output.is_error);
}
