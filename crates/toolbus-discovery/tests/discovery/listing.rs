//! Lists, and tools by their names.

use serde_json::json;
use toolbus_discovery::{Category, DescribeError, DiscoveryConfig, Lifecycle, ListRequest};

use crate::support::{DAY_MS, NOON_MS, World, user};

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
    assert_eq!(found("search"), Err(DescribeError::Ambiguous { candidates }));
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
