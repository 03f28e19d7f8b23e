//! How changes of the registry are followed.

use std::time::Duration;
use toolbus_testkit::quiet_for;

use serde_json::json;
use toolbus_discovery::{Lifecycle, ListRequest};
use toolbus_tools::call::Output;
use toolbus_tools::id::ToolId;
use toolbus_tools::registry::{Offer, ToolState};
use toolbus_tools::{Tool, View};

use crate::support::{World, names, offer, stranger, user, work};

#[tokio::test]
async fn cx_r1_a_tool_with_mistakes_is_reported_by_field_and_the_rest_is_found() {
    let world = World::new();
    let bad = Tool::new("bad", "finds weather", "test").with_parameters(json!({
        "type": "object", "properties": {"a": {}}, "required": ["a", "b"],
    }));
    let mute = Tool::new("mute", "", "test");
    let good = Tool::new("good", "finds weather", "test");
    let provider = world.registry.provider("test");
    let offers = [bad, mute, good].map(|tool| Offer::new(tool, work)).into_iter().collect();
    assert!(provider.publish(offers).is_empty());
    world.until_current().await;

    let ann = user("ann");
    assert_eq!(world.names(&ann, "weather").await, ["good"]);
    let fields = |scope| {
        let problems = world.discovery.problems(scope).into_iter();
        problems.map(|problem| (problem.tool.to_string(), problem.field)).collect::<Vec<_>>()
    };
    let expected = [("test/bad", "inputSchema.required"), ("test/mute", "description")];
    let expected = expected.map(|(tool, field)| (tool.to_owned(), field));
    assert_eq!(fields(&ann), expected);
    // It can be called all the same, for the registry has taken it.
    assert!(world.call_unlearned(&ann, "bad", json!({"a": 1, "b": 2})).await.is_ok());
    // Who may not see it hears nothing of it.
    let blind = toolbus_tools::Scope::clone(&ann).with_view(View::all().without(["test/bad"]));
    assert_eq!(fields(&blind), expected[1..]);
    world.denied.write().push("test/mute".to_owned());
    assert_eq!(fields(&blind), []);
}

#[tokio::test]
async fn cx_r3_a_schema_that_is_none_is_reported_where_the_registry_takes_any_object() {
    let world = World::new();
    let schema = json!({"type": "object", "properties": {"a": {"type": "nonsense"}}});
    let definition = json!({"name": "odd", "inputSchema": schema}).to_string();
    let tool = Tool {
        mcp_definition: Some(toolbus_wire::json::RawJson::parse(definition).expect("JSON")),
        ..Tool::new("odd", "finds weather", "mcp:odd").with_parameters(schema)
    };
    let provider = world.registry.provider("mcp:odd");
    assert!(provider.publish(vec![Offer::new(tool, work).or_any_object()]).is_empty());
    world.until_current().await;
    assert!(world.names(&user("ann"), "weather").await.is_empty());
    let problems = world.discovery.problems(&user("ann"));
    assert_eq!((problems.len(), problems[0].field), (1, "inputSchema"));
}

#[tokio::test]
async fn cx_r4_unchanged_tools_are_no_change_changed_ones_are_found_anew_and_vanished_ones_go() {
    let world = World::new();
    let ann = user("ann");
    let provider =
        world.serve("sky", &[("forecast", "weather of tomorrow"), ("stars", "astronomy")]).await;
    assert_eq!(world.names(&ann, "weather").await, ["sky__forecast"]);

    let before = *world.discovery.revision().borrow();
    let same = |text| vec![offer("sky", "forecast", text), offer("sky", "stars", "astronomy")];
    provider.publish(same("weather of tomorrow"));
    quiet_for(Duration::from_millis(100), async || {
        let revision = *world.discovery.revision().borrow();
        if revision == before { Ok(()) } else { Err(revision) }
    })
    .await;

    provider.publish(same("temperature of tomorrow"));
    world.until_current().await;
    assert!(world.names(&ann, "weather").await.is_empty());
    assert_eq!(world.names(&ann, "temperature").await, ["sky__forecast"]);

    provider.publish(vec![offer("sky", "forecast", "temperature of tomorrow")]);
    world.until_current().await;
    assert!(world.names(&ann, "astronomy").await.is_empty());
    assert_eq!(world.discovery.state().discoverable, 1);
}

#[tokio::test]
async fn cx_r7_a_new_tool_is_found_in_time() {
    let world = World::new();
    let _sky = world.serve("sky", &[("forecast", "weather of tomorrow")]).await;
    assert_eq!(world.names(&user("ann"), "weather").await, ["sky__forecast"]);
    let listed = world.discovery.list(&user("ann"), &ListRequest::default()).expect("a list");
    assert_eq!(listed.tools[0].lifecycle, Lifecycle::Discoverable);
}

/// Without a moment in which discovery could have followed.
#[tokio::test]
async fn cx_r8_what_was_removed_is_in_no_cached_answer() {
    let world = World::new();
    let ann = user("ann");
    let sky = world.serve("sky", &[("forecast", "weather of tomorrow")]).await;
    let sea = world.serve("sea", &[("forecast", "weather at sea")]).await;
    assert_eq!(world.names(&ann, "weather").await.len(), 2);
    drop(sky);
    let found = world.find(&ann, "weather").await;
    assert_eq!((names(&found), found.searched), (vec!["sea__forecast".to_owned()], 1));
    let listed = world.discovery.list(&ann, &ListRequest::default()).expect("a list");
    assert_eq!(listed.total, 1);
    drop(sea);
    assert!(world.discovery.describe(&ann, "sea__forecast").is_err());
}

#[tokio::test]
async fn rule_3c_19_a_tool_that_is_away_is_found_with_a_penalty() {
    let world = World::new();
    let ann = user("ann");
    let sky = world.serve("sky", &[("forecast", "weather of tomorrow")]).await;
    let before = world.find(&ann, "weather").await;
    sky.set_state(ToolState::Away);
    world.until_current().await;

    let after = world.find(&ann, "weather").await;
    assert_eq!(after.tools[0].entry.state, ToolState::Away);
    assert!(after.tools[0].score < before.tools[0].score);
    let listed = world.discovery.list(&ann, &ListRequest::default()).expect("a list");
    assert_eq!(listed.tools[0].entry.state, ToolState::Away);
    sky.set_state(ToolState::Available);
    world.until_current().await;
    assert_eq!(world.find(&ann, "weather").await.tools[0].score, before.tools[0].score);
}

#[tokio::test]
async fn cx_r9_following_goes_on_with_many_changes_and_ends_when_it_is_closed() {
    let world = World::new();
    let provider = world.registry.provider("mcp:many");
    let offers = |n: usize| {
        (0..n).map(|n| offer("many", &format!("t{n}"), "counts sheep")).collect::<Vec<_>>()
    };
    for n in [700, 1, 900] {
        provider.publish(offers(n));
    }
    world.until_current().await;
    assert_eq!(world.discovery.state().discoverable, 900);
    let found = world.find(&user("ann"), "sheep").await;
    assert_eq!((found.searched, found.tools.len()), (900, 50));

    world.discovery.close().await;
    provider.publish(Vec::new());
    // What is gone is not found, also when nobody follows any more.
    assert!(world.names(&stranger("bob"), "sheep").await.is_empty());
}

/// Two tools with one id: the first is found.
#[tokio::test]
async fn cx_r2_a_second_tool_of_a_name_at_one_server_is_reported() {
    let world = World::new();
    let id = ToolId::of("mcp:sky", "forecast");
    let tool = |name: &str| {
        let work = |_: toolbus_tools::call::Invocation| async { Ok(Output::default()) };
        Offer::new(Tool::new(name, "weather", "mcp:sky"), work).with_identity(id.clone(), None)
    };
    let provider = world.registry.provider("mcp:sky");
    assert!(provider.publish(vec![tool("one"), tool("two")]).is_empty());
    world.until_current().await;
    assert_eq!(world.names(&user("ann"), "weather").await, ["one"]);
    let problems = world.discovery.problems(&user("ann"));
    assert_eq!((problems.len(), problems[0].field), (1, "name"));
}
