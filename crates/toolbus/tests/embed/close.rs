//! Closing ends everything that was started, and nothing else.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use toolbus::bus::Health;
use toolbus::{
    Bus, CLOSE_GRACE_DEFAULT, Call, CallError, ErrorCode, Execution, McpServers, MemoryBus,
    NoArguments, Outcome, Scripts, ToolContext, Toolbus, TypedTool, tool,
};
use toolbus_testkit::eventually;

use crate::support::*;

const SECOND: Duration = Duration::from_secs(1);

/// A tool that says when it runs and takes so long.
fn taking(time: Duration, started: &Arc<Notify>) -> TypedTool {
    let started = Arc::clone(started);
    tool("work", "Works.", move |_: NoArguments, _| {
        started.notify_one();
        async move {
            tokio::time::sleep(time).await;
            Ok("done")
        }
    })
}

/// What a call comes to that runs while the toolbus is closed, and how long closing took.
async fn close_under(toolbus: &Toolbus, started: &Notify) -> (Outcome, Duration) {
    let running = call(toolbus, "work", json!({}));
    let closing = async {
        started.notified().await;
        let started_at = Instant::now();
        toolbus.close().await;
        started_at.elapsed()
    };
    tokio::join!(running, closing)
}

fn assert_refused(outcome: Outcome) {
    let CallError { code, execution, message, .. } = outcome.unwrap_err();
    assert_eq!((code, execution), (ErrorCode::Cancelled, Execution::NotStarted));
    assert_eq!(message, "the agent was closed before the call");
}

#[tokio::test]
async fn what_is_closed_takes_no_calls() {
    let toolbus = Toolbus::builder().scripts(Scripts::remote()).tool(adding("add"));
    let toolbus = toolbus.serve_calls(NonZeroU16::MIN).open().await.unwrap();
    let invoker = toolbus.invoker().clone();
    let scope = toolbus.local_scope();
    toolbus.close().await;

    assert_refused(sum(&toolbus, "add").await);
    assert_refused(call(&toolbus, "execute_python_script", json!({"script": ""})).await);
    // Who holds on to the invoker finds the tools gone, and the bus.
    let code = async |tool: &str, arguments| {
        let call = Call::by_name(&scope, tool, arguments).unwrap();
        invoker.invoke(call).await.unwrap_err().code
    };
    assert_eq!(code("add", json!({"a": 1, "b": 2})).await, ErrorCode::ToolNotFound);
    let script = json!({"script": ""});
    assert_eq!(code("execute_python_script", script).await, ErrorCode::OutcomeUnknown);
    assert!(matches!(toolbus.bus().health(), Health::Down { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_runs_is_waited_for() {
    let started = Arc::new(Notify::new());
    let tool = taking(CLOSE_GRACE_DEFAULT - SECOND, &started);
    let toolbus = Toolbus::builder().tool(tool).open().await.unwrap();
    let (outcome, took) = close_under(&toolbus, &started).await;
    assert_eq!(text(outcome), "done");
    assert!((4 * SECOND..5 * SECOND).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_outlives_the_grace_ends_as_cancelled() {
    let started = Arc::new(Notify::new());
    let toolbus = Toolbus::builder().tool(taking(50 * SECOND, &started)).open().await.unwrap();
    let (outcome, took) = close_under(&toolbus, &started).await;
    let error = outcome.unwrap_err();
    assert_eq!((error.code, error.execution), (ErrorCode::Cancelled, Execution::Unknown));
    assert!(!error.is_retryable);
    assert!((5 * SECOND..6 * SECOND).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_tool_hears_that_it_is_cancelled_and_may_tidy_up() {
    let started = Arc::new(Notify::new());
    let starts = Arc::clone(&started);
    let tool = tool("work", "", move |_: NoArguments, context: ToolContext| {
        starts.notify_one();
        async move {
            context.cancelled().await;
            Ok(format!("tidied up, {}", context.is_cancelled()))
        }
    });
    let toolbus = Toolbus::builder().tool(tool).open().await.unwrap();
    let (outcome, _) = close_under(&toolbus, &started).await;
    assert_eq!(text(outcome), "tidied up, true");
}

#[tokio::test(start_paused = true)]
async fn no_new_call_is_taken_while_the_old_are_waited_for() {
    let started = Arc::new(Notify::new());
    let toolbus = Toolbus::builder().tool(taking(SECOND, &started)).tool(adding("add"));
    let toolbus = toolbus.open().await.unwrap();
    let late = async {
        tokio::time::sleep(SECOND / 2).await;
        sum(&toolbus, "add").await
    };
    let ((outcome, _), late) = tokio::join!(close_under(&toolbus, &started), late);
    assert_eq!(text(outcome), "done");
    assert_refused(late);
}

#[tokio::test(start_paused = true)]
async fn whoever_closes_a_second_time_waits_for_the_first() {
    let started = Arc::new(Notify::new());
    let toolbus = Toolbus::builder().tool(taking(SECOND, &started)).open().await.unwrap();
    let second = async {
        tokio::time::sleep(SECOND / 2).await;
        toolbus.clone().close().await;
        matches!(toolbus.bus().health(), Health::Down { .. })
    };
    let (_, is_down) = tokio::join!(close_under(&toolbus, &started), second);
    assert!(is_down, "the first was not done");
    toolbus.close().await;
}

#[tokio::test(start_paused = true)]
async fn whoever_closes_again_after_giving_up_waits_all_the_same() {
    let started = Arc::new(Notify::new());
    let toolbus = Toolbus::builder().tool(taking(4 * SECOND, &started)).open().await.unwrap();
    let closing = async {
        started.notified().await;
        assert!(timeout(SECOND, toolbus.close()).await.is_err());
        toolbus.close().await;
        matches!(toolbus.bus().health(), Health::Down { .. })
    };
    let (outcome, is_down) = tokio::join!(call(&toolbus, "work", json!({})), closing);
    assert_eq!(text(outcome), "done");
    assert!(is_down, "the first was not done");
}

#[tokio::test(start_paused = true)]
async fn closing_goes_on_when_nobody_waits_for_it() {
    let started = Arc::new(Notify::new());
    let toolbus = Toolbus::builder().tool(taking(50 * SECOND, &started)).open().await.unwrap();
    let bus = Arc::clone(toolbus.bus());
    let giving_up = async {
        started.notified().await;
        assert!(timeout(SECOND, toolbus.close()).await.is_err());
    };
    let (outcome, ()) = tokio::join!(call(&toolbus, "work", json!({})), giving_up);
    assert_eq!(outcome.unwrap_err().code, ErrorCode::Cancelled, "its grace is over");

    drop(toolbus);
    let down = async || match bus.health() {
        Health::Down { .. } => Ok(()),
        health => Err(health),
    };
    eventually(LIMIT, down).await;
}

#[tokio::test]
async fn a_grace_may_be_as_long_as_it_likes() {
    let toolbus = Toolbus::builder().tool(adding("add")).serve_calls(NonZeroU16::MIN);
    let toolbus = toolbus.open().await.unwrap();
    toolbus.close_within(Duration::MAX).await;
    assert!(matches!(toolbus.bus().health(), Health::Down { .. }), "closing was cut off");
}

#[tokio::test]
async fn a_bus_that_was_given_stays_open() {
    let bus = Arc::new(MemoryBus::new());
    let first = Toolbus::builder().bus(bus.clone()).tool(adding("add"));
    let first = first.open().await.unwrap();
    first.close().await;
    assert!(bus.health().is_up());

    // And nothing of the first is left on it that would be in the way.
    let second = Toolbus::builder().bus(bus).tool(adding("add"));
    let second = second.serve_calls(NonZeroU16::MIN).open().await.unwrap();
    assert_eq!(text(sum(&second, "add").await), "3");
    second.close().await;
}

/// A call that runs is not cut off: whoever made it is elsewhere, and still waits.
#[tokio::test]
async fn a_toolbus_that_is_dropped_leaves_nothing_behind() {
    let mark = mark();
    let bus = MemoryBus::new();
    let work = Work::default();
    let toolbus = Toolbus::builder().bus(Arc::new(bus.connect())).tool(work.tool());
    let toolbus = toolbus.scripts(Scripts::remote()).mcp(McpServers::json(own_server(&mark)));
    let toolbus = toolbus.serve_calls(NonZeroU16::MIN).open().await.unwrap();
    let elsewhere = caller_of(&bus, &toolbus, "work").await;
    assert!(toolbus.wait_for_servers(LIMIT).await);
    assert!(processes_with(&mark) > 0);
    work.go.notify_one();
    assert_eq!(text(call(&elsewhere, "work", json!({})).await), "done");
    work.started.notified().await;

    let dropping = async {
        work.started.notified().await;
        drop(toolbus);
        eventually(LIMIT, async || match processes_with(&mark) {
            0 => Ok(()),
            count => Err(count),
        })
        .await;
        work.go.notify_one();
    };
    let (outcome, ()) = tokio::join!(call(&elsewhere, "work", json!({})), dropping);
    assert_eq!(text(outcome), "done");

    // The tool is gone, and so is who answered its calls.
    eventually(LIMIT, async || match Arc::strong_count(&work.is_done) {
        1 => Ok(()),
        count => Err(count),
    })
    .await;
    elsewhere.close().await;
}

#[tokio::test]
async fn what_cannot_be_opened_leaves_nothing_behind() {
    let bus = Arc::new(MemoryBus::new());
    let held = Arc::new(());
    let builder = || {
        let held = Arc::clone(&held);
        let hold = tool("hold", "", move |_: NoArguments, _| {
            let _held = Arc::clone(&held);
            async { Ok(()) }
        });
        Toolbus::builder().bus(bus.clone()).scripts(Scripts::remote()).tool(hold)
    };
    // After the agent was started.
    let number = tool("number", "", |number: i64, _| async move { Ok(number) });
    assert!(builder().tool(number).open().await.is_err());
    let count = async || match Arc::strong_count(&held) {
        1 => Ok(()),
        count => Err(count),
    };
    eventually(LIMIT, count).await;
    builder().open().await.unwrap().close().await;
}
