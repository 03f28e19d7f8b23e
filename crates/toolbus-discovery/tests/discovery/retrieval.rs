//! What a query is answered.

use serde_json::json;
use toolbus_discovery::{
    Category, DiscoveryConfig, FactorScores, KnownServer, RetrieveError, RetrieveFilter,
    RetrieveRequest,
};
use toolbus_tools::call::Invocation;
use toolbus_tools::registry::Offer;
use toolbus_tools::{Audience, Scope, Tool, View};

use crate::support::{NOON_MS, World, in_session, names, offer, request, stranger, user, work};

async fn invalid(world: &World, request: RetrieveRequest) -> &'static str {
    match world.discovery.retrieve(&user("ann"), &request).await {
        Err(RetrieveError::Invalid { field, .. }) => field,
        Err(_) => "another error",
        Ok(_) => "none",
    }
}

async fn factors(world: &World, scope: &Scope, tool: &str) -> FactorScores {
    let found = world.find(scope, "weather").await;
    let found = found.tools.iter().find(|found| found.entry.tool.name == tool);
    found.expect("it is found").factors.expect("factors")
}

#[tokio::test]
async fn cx_d1_a_query_has_words_and_at_most_500_characters() {
    let world = World::new();
    for query in ["", "   ", "?!", &"é".repeat(501)] {
        assert_eq!(invalid(&world, request(query)).await, "query", "{query}");
    }
    assert_eq!(invalid(&world, request(&"é".repeat(500))).await, "none");
}

#[tokio::test]
async fn cx_d4_the_limit_is_from_1_to_50() {
    let world = World::new();
    let _sky = world.serve("sky", &[("a", "weather one"), ("b", "weather two")]).await;
    for limit in [0, 51, usize::MAX] {
        assert_eq!(invalid(&world, RetrieveRequest { limit, ..request("x") }).await, "limit");
    }
    let one = RetrieveRequest { limit: 1, ..request("weather") };
    let found = world.discovery.retrieve(&user("ann"), &one).await.expect("a request");
    assert_eq!(found.tools.len(), 1);
}

#[tokio::test]
async fn cx_d5_rule_3c_6_filters_hold_together() {
    let world = World::new();
    let _git = world.serve("github", &[("a", "weather of commits"), ("b", "stars")]).await;
    let _sky = world.serve("sky", &[("a", "weather of tomorrow")]).await;
    let ann = user("ann");
    let find = async |filter: RetrieveFilter| {
        let request = RetrieveRequest { filter, ..request("weather") };
        world.discovery.retrieve(&ann, &request).await.expect("a request")
    };
    let all = find(RetrieveFilter::default()).await;
    assert_eq!((all.tools.len(), all.searched), (2, 3));

    let github = RetrieveFilter { server: Some("github".into()), ..RetrieveFilter::default() };
    let found = find(github.clone()).await;
    assert_eq!((names(&found), found.searched), (vec!["github__a".to_owned()], 2));
    let custom = Some(Category::Custom);
    assert!(find(RetrieveFilter { category: custom, ..github.clone() }).await.tools.is_empty());
    let category = Some(Category::VersionControl);
    assert_eq!(find(RetrieveFilter { category, ..github }).await.tools.len(), 1);

    // The least score is compared with what is reported.
    let best = all.tools[0].score;
    let of = |score| RetrieveFilter { score_min: Some(score), ..RetrieveFilter::default() };
    assert!(!find(of(best)).await.tools.is_empty());
    assert!(find(of(best + 0.001)).await.tools.is_empty());
    for score in [-0.1, 1.1, f64::NAN] {
        let request = RetrieveRequest { filter: of(score), ..request("x") };
        assert_eq!(invalid(&world, request).await, "filter.score_min");
    }
}

#[tokio::test]
async fn cx_d6_a_hit_has_all_that_is_known_of_the_tool() {
    let world = World::new();
    let tool = Tool { tags: vec!["git".to_owned()], ..Tool::new("pr", "weather", "mcp:hub") };
    let provider = world.registry.provider("mcp:hub");
    assert!(provider.publish(vec![Offer::new(tool, work)]).is_empty());
    world.until_current().await;
    let found = world.find(&user("ann"), "weather").await;
    let hit = &found.tools[0];
    assert_eq!((&*hit.server, hit.category), ("hub", Category::VersionControl));
    assert_eq!(hit.entry.tool.tags, ["git"]);
    assert!((0.0..=1.0).contains(&hit.score) && hit.score > 0.0);
    assert_eq!(found.searched, 1);
}

#[tokio::test]
async fn a_tool_is_found_by_its_audience_alone() {
    let world = World::new();
    let of_ann = Audience::only(|principal| &*principal.name == "ann");
    let tool = Tool::new("gmail_read", "Reads the weather", "google").for_audience(of_ann);
    let provider = world.registry.provider("google");
    assert!(provider.publish(vec![Offer::new(tool, work)]).is_empty());
    world.until_current().await;

    assert_eq!(world.names(&user("ann"), "weather").await, ["gmail_read"]);
    // What is kept of an answer is for who asked, and for who may use as much.
    assert_eq!(world.names(&user("bob"), "weather").await, [""; 0]);
    assert!(world.discovery.describe(&user("ann"), "gmail_read").is_ok());
    assert!(world.discovery.describe(&user("bob"), "gmail_read").is_err());
}

/// Fifty tools that one may not use are nearer to the query.
#[tokio::test]
async fn cx_d7_rule_3c_5_what_one_may_not_use_is_nowhere_and_hides_nothing() {
    let world = World::new();
    let near: Vec<_> =
        (0..60).map(|n| offer("secret", &format!("w{n}"), "weather forecast")).collect();
    let secret = world.registry.provider("mcp:secret");
    assert!(secret.publish(near).is_empty());
    let _sky = world.serve("sky", &[("x", "the weather, among many other things")]).await;
    let _ask = world.serve("ask", &[("y", "weather with an approval")]).await;
    world.denied.write().extend((0..60).map(|n| format!("mcp:secret/w{n}")));
    world.asked.write().push("mcp:ask/y".to_owned());

    let check = async |scope: &Scope, expected: &[&str]| {
        let found = world.find(scope, "weather forecast").await;
        let mut all = names(&found);
        all.sort();
        assert_eq!(all, expected);
        assert_eq!(found.searched, expected.len());
        assert!(!found.recommended_servers.iter().any(|server| server == "secret"));
    };
    check(&user("ann"), &["ask__y", "sky__x"]).await;
    // Not even the percentile of use tells how many there are.
    world.use_times(&user("ann"), "sky__x", 1).await;
    let known = factors(&world, &user("bob"), "sky__x").await;
    assert!((known.popularity - (0.75 + 0.1 + 0.02)).abs() < 1e-9, "{known:?}");
    check(&Scope::clone(&user("ann")).with_view(View::all().only(["mcp:ask/*"])), &["ask__y"])
        .await;

    let events = world.discovery.queries(100).await.expect("no store");
    let text = serde_json::to_string(&events).expect("JSON");
    assert!(text.contains("mcp:sky/x") && !text.contains("mcp:secret"), "{text}");
}

#[tokio::test]
async fn cx_d8_ties_are_by_name_then_server() {
    let world = World::new();
    let _b = world.serve("b", &[("weather2", "tells"), ("weather1", "tells")]).await;
    let _a = world.serve("a", &[("weather1", "tells"), ("weather2", "tells")]).await;
    let found = world.find(&user("ann"), "tells").await;
    let scores: Vec<_> = found.tools.iter().map(|tool| tool.score).collect();
    assert!(scores.windows(2).all(|pair| pair[0] >= pair[1]), "{scores:?}");
    if scores.iter().all(|score| *score == scores[0]) {
        let expected = ["a__weather1", "b__weather1", "a__weather2", "b__weather2"];
        assert_eq!(names(&found), expected);
    }
}

#[tokio::test]
async fn cx_d9_factors_are_answered_where_they_are_asked_for() {
    let world = World::new();
    let _sky = world.serve("sky", &[("x", "weather")]).await;
    let known = factors(&world, &user("ann"), "sky__x").await;
    assert_eq!((known.popularity, known.performance, known.user_history), (0.5, 0.5, 0.0));
    assert_eq!(known.boost, 1.0);
    let plain = RetrieveRequest { debug: false, ..request("weather") };
    let found = world.discovery.retrieve(&user("ann"), &plain).await.expect("a request");
    assert_eq!(found.tools[0].factors, None);
    let sum = 0.4 * known.similarity + 0.25 * 0.5 + 0.15 * 0.5;
    assert!((found.tools[0].score - sum).abs() < 1e-9);
}

#[tokio::test]
async fn cx_d10_a_query_that_is_known_is_answered_at_once() {
    let world = World::new();
    let provider = world.registry.provider("mcp:many");
    let offers = (0..1_000).map(|n| offer("many", &format!("t{n}"), "weather of a place"));
    assert!(provider.publish(offers.collect()).is_empty());
    world.until_current().await;
    let ann = user("ann");
    let first = world.find(&ann, "Weather, of a PLACE!").await;
    let again = world.find(&ann, "weather of a place").await;
    assert_eq!((names(&again), again.searched), (names(&first), first.searched));
}

#[tokio::test]
async fn rule_3c_7_a_policy_that_changes_makes_cached_answers_others() {
    let world = World::new();
    let _sky = world.serve("sky", &[("x", "weather"), ("y", "weather too")]).await;
    let ann = user("ann");
    assert_eq!(world.find(&ann, "weather").await.searched, 2);
    world.denied.write().push("mcp:sky/x".to_owned());
    let found = world.find(&ann, "weather").await;
    assert_eq!((names(&found), found.searched), (vec!["sky__y".to_owned()], 1));
    world.denied.write().clear();
    assert_eq!(world.find(&ann, "weather").await.searched, 2);
}

#[tokio::test]
async fn cx_d11_rule_3c_10_without_a_model_or_tools_it_is_no_error() {
    let world = World::new();
    let found = world.find(&user("ann"), "weather").await;
    assert_eq!((found.tools.len(), found.searched), (0, 0));
    let _sky = world.serve("sky", &[("x", "weather")]).await;
    assert!(world.find(&user("ann"), "weather").await.by_words_alone);
}

#[tokio::test]
async fn cx_d12_servers_are_recommended_where_nothing_fits() {
    let known = |name: &str, summary: &str| KnownServer {
        name: name.to_owned(),
        summary: summary.to_owned(),
    };
    let config = DiscoveryConfig {
        known_servers: vec![
            known("slack", "messages to channels"),
            known("sky", "weather forecasts"),
            known("sea", "weather at sea, tides"),
        ],
        ..DiscoveryConfig::default()
    };
    let world = World::with(None, config);
    let ann = user("ann");
    let mut servers = world.find(&ann, "weather").await.recommended_servers;
    servers.sort();
    assert_eq!(servers, ["sea", "sky"]);
    let all = world.find(&ann, "zygote").await.recommended_servers;
    assert_eq!(all, ["slack", "sky", "sea"]);

    // One that is there is not recommended, but to who may not use it.
    let _sky = world.serve("sky", &[("x", "temperatures")]).await;
    assert_eq!(world.find(&ann, "zygote").await.recommended_servers, ["slack", "sea"]);
    let blind = Scope::clone(&ann).with_view(View::all().without(["mcp:sky/*"]));
    assert_eq!(world.find(&blind, "zygote").await.recommended_servers.len(), 3);
    assert!(world.find(&ann, "temperatures").await.recommended_servers.is_empty());
}

#[tokio::test]
async fn rule_3c_21_at_17_sharp_it_is_after_hours_in_the_zone_that_is_set() {
    let config = DiscoveryConfig {
        asynchronous: vec!["mcp:sky/slow".to_owned()],
        time_zone: jiff::tz::TimeZone::get("Asia/Tokyo").expect("a zone"),
        ..DiscoveryConfig::default()
    };
    let world = World::with(None, config);
    let _sky = world.serve("sky", &[("slow", "weather"), ("fast", "weather")]).await;
    for user in [user("x"), user("y"), user("z"), user("u"), user("v")] {
        world.use_times(&user, "sky__fast", 1).await;
    }
    let ann = user("ann");
    // Noon in UTC is 21:00 there, and 08:00 is 17:00.
    let five = NOON_MS - 4 * 60 * 60 * 1_000;
    let boosts = async || {
        let slow = factors(&world, &ann, "sky__slow").await.boost;
        (slow, factors(&world, &ann, "sky__fast").await.boost)
    };
    world.set_ms(five - 1);
    assert_eq!(boosts().await, (1.0, 1.1));
    world.set_ms(five);
    assert_eq!(boosts().await, (1.2, 1.0));
}

#[tokio::test]
async fn cx_d3_tools_are_boosted_by_who_certifies_them_and_by_the_server_of_the_last_tool() {
    let config =
        DiscoveryConfig { certified: vec!["mcp:sky/*".to_owned()], ..DiscoveryConfig::default() };
    let world = World::with(None, config);
    let _sky = world.serve("sky", &[("x", "weather")]).await;
    let own = |source: &'static str| Tool {
        tags: vec!["compliance-certified".to_owned()],
        ..Tool::new(format!("{source}-own"), "weather", source)
    };
    let (ours, theirs) = (world.registry.provider("ours"), world.registry.provider("theirs"));
    assert!(ours.publish(vec![Offer::new(own("ours"), work)]).is_empty());
    assert!(theirs.publish(vec![Offer::new(own("mcp:theirs"), work)]).is_empty());
    world.until_current().await;

    let ann = in_session("ann", "session/one");
    assert_eq!(factors(&world, &ann, "sky__x").await.boost, 1.25);
    assert_eq!(factors(&world, &ann, "ours-own").await.boost, 1.25);
    // A server does not certify itself.
    assert_eq!(factors(&world, &ann, "mcp:theirs-own").await.boost, 1.0);

    world.use_times(&ann, "mcp:theirs-own", 1).await;
    assert_eq!(factors(&world, &ann, "mcp:theirs-own").await.boost, 1.15);
    assert_eq!(factors(&world, &ann, "ours-own").await.boost, 1.25);
    for other in [in_session("ann", "session/two"), in_session("bob", "session/one")] {
        assert_eq!(factors(&world, &other, "mcp:theirs-own").await.boost, 1.0);
    }
}

#[tokio::test]
async fn cx_d13_a_query_over_a_thousand_tools_finds_fifty() {
    let world = World::new();
    let provider = world.registry.provider("mcp:many");
    let offers = (0..1_000).map(|n| offer("many", &format!("t{n}"), &format!("weather of {n}")));
    assert!(provider.publish(offers.collect()).is_empty());
    world.until_current().await;
    let found = world.find(&stranger("bob"), "weather 7").await;
    assert_eq!((found.tools.len(), found.searched), (50, 1_000));
}

#[tokio::test]
async fn a_tool_that_reports_its_own_failure_is_learned_from() {
    let world = World::new();
    let tool = Tool::new("own", "weather", "test");
    let fails = |_: Invocation| async { Ok(toolbus_tools::Output::error("no")) };
    let provider = world.registry.provider("test");
    assert!(provider.publish(vec![Offer::new(tool, fails)]).is_empty());
    world.until_current().await;
    assert!(world.call(&user("ann"), "own", json!({})).await.expect("an output").is_error);
    let known = world.discovery.statistics(&user("ann"), "own").expect("there").expect("known");
    assert_eq!(known.error_rate, 1.0);
}
