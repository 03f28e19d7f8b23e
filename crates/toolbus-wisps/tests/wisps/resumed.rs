//! Calls that come again: what was done is not done again.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use toolbus_testkit::eventually;
use toolbus_wisps::AgentEnd;

use crate::support::{Bench, LIMIT, Setup, agent, call_as, script, search, wisp};

/// An id that nobody else has.
const ID: &str = "0123456789abcdef0123456789abcdef";

/// Makes a call and drops it once it hangs.
async fn interrupt(bench: &Bench, definitions: Value) {
    let mut running = Box::pin(bench.invoker.invoke(call_as(ID, definitions)));
    let hangs = eventually(LIMIT, async || match bench.world.running.load(Ordering::SeqCst) {
        1 if bench
            .calls()
            .last()
            .is_some_and(|call| call.arguments.to_string().contains("hang")) =>
        {
            Ok(())
        }
        running => Err(running),
    });
    tokio::select! {
        outcome = &mut running => panic!("it hangs: {outcome:?}"),
        () = hangs => {}
    }
}

#[tokio::test]
async fn a_call_that_has_ended_gives_the_same_result_again() {
    let bench = Bench::new();
    let definitions = json!([wisp(vec![script("a", "give:once")])]);
    let first = bench.spawn_as(ID, definitions.clone()).await.unwrap();
    let again = bench.spawn_as(ID, definitions.clone()).await.unwrap();
    assert_eq!(first, again);
    let elsewhere = bench.restarted();
    assert_eq!(elsewhere.spawn_as(ID, definitions.clone()).await.unwrap(), first);
    assert!(elsewhere.calls().is_empty());
    assert_eq!(bench.calls().len(), 1);

    // Another call, and the same id with something else in it.
    bench.spawn_as("ffffffffffffffffffffffffffffffff", definitions).await.unwrap();
    bench.spawn_as(ID, json!([wisp(vec![script("a", "give:other")])])).await.unwrap();
    assert_eq!(bench.calls().len(), 3);

    let failing = json!([wisp(vec![script("a", "fail:x")])]);
    let first = bench.spawn_as(ID, failing.clone()).await.unwrap();
    assert!(first.is_error);
    assert_eq!(bench.spawn_as(ID, failing).await.unwrap(), first);
}

#[tokio::test]
async fn steps_that_were_done_are_not_done_again() {
    let bench = Bench::new();
    let definitions = json!([wisp(vec![
        script("a", "give:first"),
        search("b", "hang"),
        script("c", "give:third")
    ])]);
    interrupt(&bench, definitions.clone()).await;
    assert_eq!(bench.calls().len(), 2);

    // A search changes nothing, so it is made again; it does not hang this time.
    let mut setup = Setup::default();
    setup.config.timeout = std::time::Duration::from_secs(2);
    let bench = Bench::with(Setup { place: Some(bench.place()), ..setup });
    let output = bench.spawn_as(ID, definitions).await.unwrap();
    let told = bench.told();
    assert_eq!(told, ["web_search {\"query\":\"hang\"}"], "{}", output.to_text());
}

#[tokio::test]
async fn a_step_that_was_begun_and_may_have_changed_something_is_not_run_again() {
    let bench = Bench::new();
    let definitions =
        json!([wisp(vec![search("a", "give:first"), script("b", "hang"), search("c", "x")])]);
    interrupt(&bench, definitions.clone()).await;

    let bench = bench.restarted();
    let output = bench.spawn_as(ID, definitions).await.unwrap();
    let text = output.to_text();
    assert!(
        text.contains("Failed at step `b` (External): an earlier run has begun this step"),
        "{text}"
    );
    assert!(bench.calls().is_empty());
}

#[tokio::test]
async fn a_step_that_was_not_started_is_run_again() {
    let bench = Bench::new();
    let definitions =
        json!([wisp(vec![script("a", "busy"), search("b", "x")]), wisp(vec![search("h", "hang")])]);
    let mut running = Box::pin(bench.invoker.invoke(call_as(ID, definitions.clone())));
    let is_refused =
        eventually(LIMIT, async || if bench.calls().len() == 2 { Ok(()) } else { Err(()) });
    tokio::select! {
        _ = &mut running => panic!("it hangs"),
        () = is_refused => {}
    }
    // What it has to write down is written.
    let id = bench.calls()[0].id.clone();
    let key = format!("wisp/{}/a/call", id.strip_suffix("-a").unwrap_or("wisp-0"));
    eventually(LIMIT, async || {
        tokio::select! {
            biased;
            _ = &mut running => Err("it ended"),
            kept = bench.kept(&key) => if kept.is_none() { Ok(()) } else { Err("it stands") },
        }
    })
    .await;
    drop(running);

    let mut setup = Setup::default();
    setup.config.timeout = std::time::Duration::from_secs(2);
    let bench = Bench::with(Setup { place: Some(bench.place()), ..setup });
    bench.spawn_as(ID, definitions).await.unwrap();
    assert!(bench.told().iter().any(|told| told.contains("busy")), "{:?}", bench.told());
}

#[tokio::test]
async fn a_task_of_another_agent_is_waited_for_again() {
    let bench = Bench::new();
    let definitions = json!([wisp(vec![agent("a", "t1")])]);
    let mut running = Box::pin(bench.invoker.invoke(call_as(ID, definitions.clone())));
    let is_awaited =
        eventually(
            LIMIT,
            async || if bench.world.awaited.lock().is_empty() { Err(()) } else { Ok(()) },
        );
    tokio::select! {
        _ = &mut running => panic!("it waits"),
        () = is_awaited => {}
    }
    drop(running);

    let mut setup = Setup { place: Some(bench.place()), ..Setup::default() };
    setup.world.ends.get_mut().insert("t1".to_owned(), AgentEnd::Completed("late".to_owned()));
    let bench = Bench::with(setup);
    let output = bench.spawn_as(ID, definitions).await.unwrap();
    assert!(output.to_text().contains("Output: late"), "{}", output.to_text());
    assert!(bench.calls().is_empty(), "the task was not sent again");
}

#[tokio::test]
async fn what_cannot_be_written_down_is_not_run() {
    let mut setup = Setup::default();
    setup.memory.result_entries_max = 0;
    let bench = Bench::with(setup);
    let output = bench
        .spawn(json!([wisp(vec![script("a", "x")]), wisp(vec![search("a", "give:read")])]))
        .await;
    let text = output.to_text();
    assert!(
        text.contains("Failed at step `a` (External): the step was not run: nothing was saved"),
        "{text}"
    );
    // What changes nothing is run, and there is no key to read it by.
    assert!(text.contains("Output: read") && !text.contains("Output key"), "{text}");
    assert!(text.contains("No summary was kept"), "{text}");
    assert_eq!(bench.calls().len(), 1);
}
