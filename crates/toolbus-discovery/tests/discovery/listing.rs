//! Lists, and tools by their names.

use serde_json::json;
use toolbus_discovery::{
    CANDIDATES_MAX, Category, DescribeError, DiscoveryConfig, Lifecycle, LifecycleCounts,
    ListRequest,
};
use toolbus_tools::Tool;
use toolbus_tools::id::ToolId;
use toolbus_tools::registry::{Offer, TOOLS_MAX};

use crate::support::{DAY_MS, NOON_MS, World, offer, user, work};

#[tokio::test]
async fn a_list_has_pages_filters_and_a_total_of_what_a_scope_may_see() {
    let config = DiscoveryConfig {
        categories: vec![("mcp:sky/*".to_owned(), Category::Monitoring)],
        ..DiscoveryConfig::default()
    };
    let world = World::with(None, config);
    let _sky = world.serve("sky", &[("b", "x"), ("a", "x"), ("c", "x")]).await;
    let _git = world.serve("github", &[("a", "x")]).await;
    let ann = user("ann");
    let list = |request: ListRequest| {
        let listed = world.discovery.list(&ann, &request).expect("a list");
        let address =
            |tool: &toolbus_discovery::ListedTool| format!("{}/{}", tool.server, tool.name);
        (listed.tools.iter().map(address).collect::<Vec<_>>().join(" "), listed.total)
    };
    let check = |request: ListRequest, tools: &str, total: usize| {
        assert_eq!(list(request), (tools.to_owned(), total));
    };
    let all = ListRequest::default();
    check(all.clone(), "github/a sky/a sky/b sky/c", 4);
    check(ListRequest { limit: 2, offset: 1, ..all.clone() }, "sky/a sky/b", 4);
    check(ListRequest { offset: 9, ..all.clone() }, "", 4);
    check(ListRequest { server: Some("github".into()), ..all.clone() }, "github/a", 1);
    let monitoring = Some(Category::Monitoring);
    check(ListRequest { category: monitoring, ..all.clone() }, "sky/a sky/b sky/c", 3);
    let version_control = Some(Category::VersionControl);
    check(ListRequest { category: version_control, ..all.clone() }, "github/a", 1);

    world.denied.write().push("mcp:sky/a".to_owned());
    world.asked.write().push("mcp:sky/b".to_owned());
    check(all.clone(), "github/a sky/b sky/c", 3);
    for limit in [0, 101] {
        assert!(world.discovery.list(&ann, &ListRequest { limit, ..all.clone() }).is_err());
    }
}

#[tokio::test]
async fn rule_3c_11_a_name_that_two_servers_have_answers_both() {
    let world = World::new();
    let _one = world.serve("one", &[("search", "x"), ("other", "x")]).await;
    let _two = world.serve("two", &[("search", "x")]).await;
    let ann = user("ann");
    let found = |name: &str| {
        let found = world.discovery.describe(&ann, name);
        found.map(|tool| tool.entry.id.to_string())
    };
    for name in ["one/search", "one__search", "mcp:one/search"] {
        assert_eq!(found(name), Ok("mcp:one/search".to_owned()), "{name}");
    }
    assert_eq!(found("other"), Ok("mcp:one/other".to_owned()));
    let candidates = vec!["one/search".to_owned(), "two/search".to_owned()];
    assert_eq!(found("search"), Err(DescribeError::Ambiguous { candidates, more: 0 }));
    assert_eq!(found("none"), Err(DescribeError::NotFound));

    // What one may not see makes nothing ambiguous.
    world.denied.write().push("mcp:two/search".to_owned());
    assert_eq!(found("search"), Ok("mcp:one/search".to_owned()));
    assert_eq!(found("two/search"), Err(DescribeError::NotFound));
}

#[tokio::test]
async fn cx_r7_a_tool_that_is_not_used_any_more_is_found_and_not_recommended() {
    let world = World::new();
    let _sky = world.serve("sky", &[("forecast", "weather of tomorrow")]).await;
    let ann = user("ann");
    let state = || {
        let tool = world.discovery.describe(&ann, "sky/forecast").expect("it is there");
        tool.lifecycle
    };
    assert_eq!(state(), Lifecycle::Discoverable);
    world.use_times(&ann, "sky__forecast", 2).await;
    assert_eq!(state(), Lifecycle::Optimized);
    world.set_ms(NOON_MS + 31 * DAY_MS);
    assert_eq!(state(), Lifecycle::NotRecommended);
    world.set_ms(NOON_MS + 150 * DAY_MS);
    assert_eq!(state(), Lifecycle::NotRecommended);
    assert_eq!(world.names(&ann, "weather").await, ["sky__forecast"]);
    world.use_times(&ann, "sky__forecast", 1).await;
    assert_eq!(state(), Lifecycle::Optimized);
}

#[tokio::test]
async fn cx_r7_a_tool_that_comes_into_another_state_is_reported() {
    let world = World::new();
    let _sky = world.serve("sky", &[("forecast", "weather of tomorrow"), ("old", "x")]).await;
    // What cannot be found stays registered.
    let broken = Tool::new("sky__broken", "", "mcp:sky2");
    let offer = Offer::new(broken, work).with_identity(ToolId::of("mcp:sky2", "broken"), None);
    let second = world.registry.provider("mcp:sky2".to_owned());
    assert!(second.publish(vec![offer]).is_empty());
    let ann = user("ann");
    world.until(|discovery| discovery.lifecycle_changes().len() == 3).await;
    world.use_times(&ann, "sky__forecast", 1).await;
    world.until(|discovery| discovery.lifecycle_changes().len() == 4).await;

    let expected =
        LifecycleCounts { registered: 1, discoverable: 1, optimized: 1, not_recommended: 0 };
    assert_eq!(world.discovery.state().lifecycles, expected);
    let last = world.discovery.lifecycle_changes().swap_remove(0);
    assert_eq!(last.tool, ToolId::of("mcp:sky", "forecast"));
    assert_eq!((last.from, last.to), (Some(Lifecycle::Discoverable), Lifecycle::Optimized));
    assert_eq!(world.discovery.lifecycle(&last.tool), Lifecycle::Optimized);
    let broken = ToolId::of("mcp:sky2", "broken");
    assert_eq!(world.discovery.lifecycle(&broken), Lifecycle::Registered);

    world.set_ms(NOON_MS + 31 * DAY_MS);
    world.use_times(&ann, "sky__old", 1).await;
    world.until(|discovery| discovery.state().lifecycles.not_recommended == 1).await;
}

/// Names are strangers': any number of servers may choose one.
#[tokio::test]
async fn tools_of_one_name_on_very_many_servers_are_found_and_told_apart() {
    const SERVERS: usize = 25_000;
    let world = World::new();
    // One provider stands for them: what each server is, its tool's id says.
    let provider = world.registry.provider("mcp:all".to_owned());
    let offers = (0..SERVERS).map(|at| offer(&format!("s{at:06}"), "search", "Searches the web"));
    let errors = provider.publish(offers.collect());
    // The registry has a bound of its own, and says which tools are over it.
    assert_eq!(errors.len(), SERVERS - TOOLS_MAX);
    world.until_current().await;
    assert_eq!(world.discovery.state().discoverable, TOOLS_MAX);

    let ann = user("ann");
    let found = world.find(&ann, "search the web").await;
    assert_eq!((found.tools.len(), found.searched), (50, TOOLS_MAX));
    let ambiguous = world.discovery.describe(&ann, "search").err().expect("several have it");
    let DescribeError::Ambiguous { candidates, more } = &ambiguous else { panic!("{ambiguous}") };
    assert_eq!((candidates.len(), *more), (CANDIDATES_MAX, TOOLS_MAX - CANDIDATES_MAX));
    assert_eq!(candidates[0], "s000000/search");
    assert!(ambiguous.to_string().ends_with("s000019/search and 19980 more"), "{ambiguous}");
    let one = world.discovery.describe(&ann, "s012345/search").expect("it is one alone");
    assert_eq!(one.entry.tool.name, "s012345__search");
    world.call(&ann, "s012345__search", json!({})).await.expect("it works");
}

#[tokio::test]
async fn cx_m2_statistics_say_how_a_tool_does() {
    let world = World::new();
    let _sky = world.serve("sky", &[("forecast", "weather"), ("stars", "astronomy")]).await;
    let ann = user("ann");
    assert_eq!(world.discovery.statistics(&ann, "stars"), Ok(None));
    for _ in 0..3 {
        world.use_times(&ann, "sky__forecast", 1).await;
        world.use_times(&ann, "sky__stars", 1).await;
    }
    world.call(&ann, "sky__forecast", json!({"fail": true})).await.expect_err("it fails");

    let known = world.discovery.statistics(&ann, "forecast").expect("it is there").expect("known");
    assert_eq!((known.runs, known.success_rate, known.error_rate), (4, 0.75, 0.25));
    assert_eq!((known.uptime, known.used_before.len()), (1.0, 1));
    assert_eq!(known.used_before[0].1, 3);
    assert!(known.p99_ms.expect("measured") >= known.p50_ms.expect("measured"));
    // What one may not see is not named beside it either.
    world.denied.write().push("mcp:sky/stars".to_owned());
    let known = world.discovery.statistics(&ann, "forecast").expect("it is there").expect("known");
    assert!(known.used_before.is_empty());
}
