//! Steps that give tasks to other agents and wait for their ends.

use std::time::Duration;

use serde_json::json;
use toolbus_testkit::eventually;
use toolbus_wisps::{AgentEnd, WispsConfig};

use crate::support::{Bench, LIMIT, Setup, agent, wisp, with};

fn ending(end: AgentEnd) -> Setup {
    let mut setup = Setup::default();
    setup.world.ends.get_mut().insert("t1".to_owned(), end);
    setup
}

#[tokio::test]
async fn the_end_of_a_task_is_the_result() {
    let bench = Bench::with(ending(AgentEnd::Completed("the answer".to_owned())));
    let step = with(agent("a", "t1"), json!({"timeout_minutes": 0.5}));
    let output = bench.spawn(json!([wisp(vec![step])])).await;
    assert!(output.to_text().contains("Output: the answer"));
    let expected =
        json!({"agent_name": "Other", "skill": "s", "message": "t1", "timeout_minutes": 1});
    assert_eq!(bench.calls()[0].arguments, expected);
    assert_eq!(*bench.world.awaited.lock(), ["t1"]);
    assert!(bench.world.cancelled.lock().is_empty());
}

#[tokio::test]
async fn an_agent_may_fail_or_ask_back() {
    let cases = [
        (AgentEnd::Failed("it timed out".to_owned()), "(External): it timed out"),
        (
            AgentEnd::InputRequired("which one?".to_owned()),
            "(Judgment): the agent asks back: which one?",
        ),
    ];
    for (end, expected) in cases {
        let output = Bench::with(ending(end)).spawn(json!([wisp(vec![agent("a", "t1")])])).await;
        assert!(output.to_text().contains(expected), "{}", output.to_text());
    }
}

#[tokio::test]
async fn a_task_that_nobody_waits_for_any_more_is_given_up() {
    let config =
        WispsConfig { agent_timeout: Duration::from_millis(100), ..WispsConfig::default() };
    let bench = Bench::with_config(config);
    let output = bench.spawn(json!([wisp(vec![agent("a", "t2")])])).await;
    assert!(output.to_text().contains("(External): it timed out"), "{}", output.to_text());
    bench.tasks.close();
    bench.tasks.wait().await;
    assert_eq!(*bench.world.cancelled.lock(), ["t2"]);
}

#[tokio::test]
async fn a_task_that_could_not_be_sent_is_not_waited_for() {
    let bench = Bench::new();
    let output =
        bench.spawn(json!([wisp(vec![agent("a", "fail:no agent named 'x' is there")])])).await;
    assert!(output.to_text().contains("no agent named 'x' is there"));
    let output = bench.spawn(json!([wisp(vec![agent("a", "give:something else")])])).await;
    assert!(output.to_text().contains("the task has no id that could be waited for"));
    assert!(bench.world.awaited.lock().is_empty());
}

#[tokio::test]
async fn cancelling_the_call_cancels_the_task() {
    let bench = Bench::new();
    let call = crate::support::call_as("c1", json!([wisp(vec![agent("a", "t3")])]));
    let cancelled = call.cancelled.clone();
    let stopping = async {
        let is_awaited =
            async || if bench.world.awaited.lock().is_empty() { Err("not yet") } else { Ok(()) };
        eventually(LIMIT, is_awaited).await;
        cancelled.cancel();
    };
    let (outcome, ()) = tokio::join!(bench.invoker.invoke(call), stopping);
    assert_eq!(outcome.unwrap_err().code, toolbus_wire::ErrorCode::Cancelled);
    bench.tasks.close();
    bench.tasks.wait().await;
    assert_eq!(*bench.world.cancelled.lock(), ["t3"]);
}
