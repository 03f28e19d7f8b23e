//! Servers that want to look popular.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use toolbus_tools::Door;
use toolbus_tools::call::Call;
use toolbus_tools::observe::{CallEvent, CallEventKind, CallRecord, CallStatus};
use toolbus_wire::Execution;

use crate::support::{World, stranger, user};

async fn popularity(world: &World, tool: &str) -> f64 {
    let found = world.find(&user("somebody"), "weather").await;
    let found = found.tools.iter().find(|found| found.entry.tool.name == tool);
    found.expect("it is found").factors.expect("factors").popularity
}

#[tokio::test]
async fn one_that_calls_itself_all_the_time_is_less_popular_than_one_that_many_use() {
    let world = World::new();
    let _evil = world.serve("evil", &[("x", "weather one")]).await;
    let _good = world.serve("good", &[("x", "weather two")]).await;
    world.use_times(&user("evil-fan"), "evil__x", 300).await;
    for n in 0..12 {
        world.use_times(&user(&format!("user{n}")), "good__x", 1).await;
    }
    let (evil, good) = (popularity(&world, "evil__x").await, popularity(&world, "good__x").await);
    assert!(good > evil, "{good} {evil}");
}

#[tokio::test]
async fn any_number_of_claimed_names_is_one_principal() {
    let world = World::new();
    let _evil = world.serve("evil", &[("x", "weather one")]).await;
    let _good = world.serve("good", &[("x", "weather two")]).await;
    for n in 0..300 {
        world.use_times(&stranger(&format!("fan{n}")), "evil__x", 1).await;
    }
    for n in 0..12 {
        world.use_times(&user(&format!("user{n}")), "good__x", 1).await;
    }
    let (evil, good) = (popularity(&world, "evil__x").await, popularity(&world, "good__x").await);
    assert!(good > evil, "{good} {evil}");
}

#[tokio::test]
async fn a_server_whose_own_credential_calls_its_tools_makes_nothing_of_it() {
    let world = World::new();
    let _evil = world.serve("evil", &[("x", "weather")]).await;
    let before = popularity(&world, "evil__x").await;
    for _ in 0..3 {
        world.call_unlearned(&user("Evil"), "evil__x", json!({})).await.expect("it works");
    }
    world.use_times(&user("ann"), "evil__x", 1).await;
    let known = world.discovery.statistics(&user("ann"), "x").expect("there").expect("known");
    assert_eq!(known.runs, 1);
    assert!(popularity(&world, "evil__x").await > before);
}

/// Calls that a tool makes of a tool of the same server, and of another one.
#[tokio::test]
async fn calls_that_a_tool_makes_of_its_own_server_are_not_uses() {
    let world = World::new();
    let _evil = world.serve("evil", &[("outer", "weather"), ("inner", "weather")]).await;
    let _good = world.serve("good", &[("inner", "weather")]).await;
    let ann = user("ann");
    let observer = world.discovery.observer();
    let outer = Call::by_name(&ann, "evil__outer", json!({})).expect("a name");
    let event = |call: &Call, kind: CallEventKind<'_>| {
        let (id, tool, scope) = (&call.id, &call.tool, &*call.scope);
        observer.on_event(&CallEvent { call: id, tool, scope, sequence: 0, kind });
    };
    event(&outer, CallEventKind::Began(&outer));

    let child = Arc::new(ann.child(Door::Chain, &outer.id).expect("not too deep"));
    for tool in ["evil__inner", "good__inner"] {
        let inner = Call::by_name(&child, tool, json!({})).expect("a name");
        let record = CallRecord {
            subject: world.registry.find(tool).map(|entry| entry.id.clone()),
            arguments: None,
            input_bytes: None,
            output_bytes: None,
            status: CallStatus::Ok,
            error: None,
            refused_by: None,
            execution: Execution::Started,
            took: Duration::from_millis(3),
        };
        event(&inner, CallEventKind::Began(&inner));
        event(&inner, CallEventKind::Started);
        event(&inner, CallEventKind::Ended(&record));
    }
    world.until(|discovery| discovery.state().learned_calls == 1).await;
    let known = |name: &str| world.discovery.statistics(&ann, name).expect("it is there");
    assert!(known("evil/inner").is_none());
    assert_eq!(known("good/inner").expect("known").runs, 1);
}
