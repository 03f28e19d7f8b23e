//! What is learned from calls and queries.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio_util::sync::CancellationToken;
use toolbus_discovery::{FactorScores, Target};
use toolbus_store::LazyStore;
use toolbus_testkit::eventually;
use toolbus_testkit::state::StatePlace;
use toolbus_tools::Scope;
use toolbus_tools::call::{Call, CallTime, Invocation, Output};
use toolbus_tools::registry::Offer;

use crate::support::{WAIT_TIMEOUT, World, request, stranger, user};

async fn factors(world: &World, scope: &Scope, tool: &str) -> FactorScores {
    let found = world.find(scope, "weather").await;
    let found = found.tools.iter().find(|found| found.entry.tool.name == tool);
    found.expect("it is found").factors.expect("factors")
}

#[tokio::test]
async fn cx_m1_every_execution_is_one_event_with_who_what_and_how() {
    let world = World::new();
    let _sky = world.serve("sky", &[("x", "weather"), ("secret", "weather")]).await;
    let ann = user("ann");
    world.denied.write().push("mcp:sky/secret".to_owned());
    // None of these is an execution.
    for (tool, arguments) in
        [("sky__secret", json!({})), ("sky__x", json!({"fail": 1})), ("none", json!({}))]
    {
        world.call_unlearned(&ann, tool, arguments).await.expect_err("it is refused");
    }
    world.call(&ann, "sky__x", json!({})).await.expect("it works");
    let failed = world.call(&stranger("bob"), "sky__x", json!({"fail": true})).await;
    failed.expect_err("it fails");

    let events = world.discovery.executions(100).await.expect("no store");
    let of = |at: usize| {
        let event = &events[at];
        let error = event.error.as_deref().unwrap_or("-");
        format!("{} {} {} {} {error}", event.tool_name, event.server, event.user_id, event.status)
    };
    assert_eq!(events.len(), 2);
    assert_eq!(of(0), "x sky claimed:bob error execution_failed");
    assert_eq!(of(1), "x sky token:here/ann success -");
    // `{}` and "the result"; what failed has no result.
    assert_eq!((events[1].input_tokens, events[1].output_tokens), (Some(1), Some(3)));
    assert_eq!((events[0].input_tokens, events[0].output_tokens), (Some(4), None));
    // Moments are in UTC (3c.22).
    assert_eq!(events[1].timestamp, "2026-11-27T12:00:00Z");
}

#[tokio::test]
async fn cx_m3_queries_of_who_is_known_are_events_and_others_are_answered_only() {
    let world = World::new();
    let _sky = world.serve("sky", &[("x", "weather of today"), ("y", "weather too")]).await;
    assert_eq!(world.names(&stranger("bob"), "weather").await.len(), 2);
    let mut asked = request("What\u{0} weather?");
    (asked.limit, asked.source) = (1, "dashboard".into());
    for _ in 0..2 {
        world.discovery.retrieve(&user("ann"), &asked).await.expect("a request");
    }
    let events = eventually(WAIT_TIMEOUT, async || {
        let events = world.discovery.queries(100).await.expect("no store");
        if events.len() == 2 { Ok(events) } else { Err(format!("{events:?}")) }
    })
    .await;

    let event = &events[0];
    assert_ne!(event.id, events[1].id);
    assert_eq!((&*event.user_id, &*event.source), ("token:here/ann", "dashboard"));
    assert_eq!(event.query, "What weather?");
    assert_eq!((event.selected_tools.len(), event.retrieved_tools.len()), (1, 2));
    let score = &event.scores[&event.selected_tools[0]];
    assert!(score["similarity"].is_number() && score["score"].is_number(), "{score}");
    assert_eq!(event.created_at, "2026-11-27T12:00:00Z");
}

#[tokio::test]
async fn cx_m4_calls_and_queries_go_on_where_nothing_can_be_written() {
    let place = StatePlace::sqlite();
    let folder = place.folder().expect("a folder");
    // A file stands where the folder of the state would be.
    std::fs::write(folder.join("no-folder"), "").expect("a file");
    let location = format!("sqlite:{}", folder.join("no-folder/state.db").display());
    let migrations = [toolbus_discovery::MIGRATIONS];
    let store = LazyStore::new(location.parse().expect("a location"), &migrations);
    let world = World::with(Some(store), Default::default());
    let _sky = world.serve("sky", &[("x", "weather")]).await;
    let ann = user("ann");
    world.use_times(&ann, "sky__x", 20).await;
    assert!(factors(&world, &ann, "sky__x").await.user_history > 0.9);
    world.discovery.close().await;
}

/// Nobody takes events out of the queue, and calls are as quick as ever.
#[tokio::test(flavor = "multi_thread")]
async fn cx_m4_events_that_do_not_fit_are_dropped_and_counted() {
    let world = World::new();
    let _sky = world.serve("sky", &[("x", "weather")]).await;
    world.discovery.close().await;
    let ann = user("ann");
    for _ in 0..100 {
        world.call_unlearned(&ann, "sky__x", json!({})).await.expect("it works");
    }
    assert_eq!(world.discovery.state().dropped, 100);
}

#[tokio::test]
async fn cx_m5_cx_m6_who_uses_a_tool_finds_it_first_and_others_find_what_they_did() {
    let world = World::new();
    let _sky = world.serve("sky", &[("a", "weather one"), ("b", "weather two")]).await;
    let (ann, bob) = (user("ann"), user("bob"));
    let before = factors(&world, &bob, "sky__b").await;
    world.use_times(&ann, "sky__b", 1).await;
    assert_eq!(world.names(&ann, "weather").await[0], "sky__b");
    let once = factors(&world, &ann, "sky__b").await;
    assert_eq!(once.user_history, 1.0);

    let others = factors(&world, &bob, "sky__b").await;
    assert_eq!((before.user_history, others.user_history, others.boost), (0.0, 0.0, 1.0));
    assert!(others.popularity > before.popularity);
    // Who only says to be Ann has no history of hers, and makes none.
    assert_eq!(factors(&world, &stranger("ann"), "sky__b").await.user_history, 0.0);
    world.use_times(&stranger("bob"), "sky__a", 1).await;
    assert_eq!(factors(&world, &stranger("bob"), "sky__a").await.user_history, 0.0);
}

#[tokio::test]
async fn cx_m6_what_was_learned_changes_the_next_answer_and_not_the_cached_one_before() {
    let world = World::new();
    let _sky = world.serve("sky", &[("a", "weather one"), ("b", "weather two")]).await;
    let ann = user("ann");
    world.use_times(&ann, "sky__b", 1).await;
    for _ in 0..3 {
        let before = factors(&world, &ann, "sky__b").await;
        world.call(&ann, "sky__b", json!({"fail": true})).await.expect_err("it fails");
        world.call(&ann, "sky__b", json!({})).await.expect("it works");
        let after = factors(&world, &ann, "sky__b").await;
        assert!(after.performance < before.performance, "{before:?} {after:?}");
    }
}

#[tokio::test]
async fn rule_3c_13_mistakes_of_callers_do_not_lower_a_tool() {
    let world = World::new();
    let _sky = world.serve("sky", &[("x", "weather")]).await;
    let ann = user("ann");
    world.use_times(&ann, "sky__x", 1).await;
    let before = world.discovery.statistics(&ann, "x").expect("there");
    for _ in 0..5 {
        world.call_unlearned(&ann, "sky__x", json!({"fail": 1})).await.expect_err("no boolean");
        world.denied.write().push("mcp:sky/x".to_owned());
        world.call_unlearned(&ann, "sky__x", json!({})).await.expect_err("denied");
        world.denied.write().clear();
    }
    // What comes after them is learned after them.
    let _sea = world.serve("sea", &[("x", "tides")]).await;
    world.use_times(&ann, "sea__x", 1).await;
    let after = world.discovery.statistics(&ann, "mcp:sky/x").expect("there");
    let runs = |known: &Option<toolbus_discovery::ToolStatistics>| {
        known.as_ref().map(|known| (known.runs, known.error_rate.to_bits()))
    };
    assert_eq!(runs(&before), runs(&after));
    world.call(&ann, "sky__x", json!({"fail": true})).await.expect_err("it fails");
    let failed = world.discovery.statistics(&ann, "mcp:sky/x").expect("there").expect("known");
    assert_eq!((failed.runs, failed.error_rate), (2, 0.5));
}

#[tokio::test]
async fn rule_3c_13_a_time_out_lowers_a_tool_if_it_had_time() {
    let world = World::new();
    let tool = toolbus_tools::Tool::new("slow", "weather", "test");
    let waits = |_: Invocation| async {
        CancellationToken::new().cancelled().await;
        Ok(Output::default())
    };
    let provider = world.registry.provider("test");
    assert!(provider.publish(vec![Offer::new(tool, waits)]).is_empty());
    world.until_current().await;
    let ann = user("ann");
    let call = async |time: Duration| {
        let call = Call::by_name(&ann, "slow", json!({})).expect("a name");
        let call = call.with_time(CallTime::of_execution(time));
        world.invoker.invoke(call).await.expect_err("it takes too long");
    };
    call(Duration::from_millis(20)).await;
    call(Duration::from_millis(1_050)).await;
    world.until(|discovery| discovery.state().learned_calls == 1).await;
    let known = world.discovery.statistics(&ann, "slow").expect("there").expect("known");
    assert_eq!((known.runs, known.error_rate), (1, 1.0));
    let events = world.discovery.executions(10).await.expect("no store");
    assert!(events.iter().any(|event| event.status == "timeout" && event.duration_ms >= 1_000));
}

#[tokio::test]
async fn cx_m7_tools_that_miss_a_target_are_listed_for_who_may_see_them() {
    let world = World::new();
    let _sky = world.serve("sky", &[("x", "weather"), ("y", "weather")]).await;
    let ann = user("ann");
    for _ in 0..20 {
        world.call(&ann, "sky__x", json!({"fail": true})).await.expect_err("it fails");
        world.call(&ann, "sky__y", json!({})).await.expect("it works");
    }
    let missed = |scope: &Arc<Scope>| {
        let missed = world.discovery.missed_targets(scope).into_iter();
        missed.map(|miss| (miss.tool.to_string(), miss.target)).collect::<Vec<_>>()
    };
    let x = "mcp:sky/x".to_owned();
    let expected = [(x.clone(), Target::ErrorRate), (x.clone(), Target::SuccessRate)];
    assert_eq!(missed(&ann), expected);
    world.denied.write().push(x);
    assert_eq!(missed(&ann), []);
}
