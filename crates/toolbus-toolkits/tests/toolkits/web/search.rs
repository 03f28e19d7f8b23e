//! `web_search`: both formats, and three providers.

use std::time::Duration;

use serde_json::{Value, json};
use toolbus_testkit::scripted_server::{Part, Reply};
use toolbus_toolkits::web::{SearchFormat, SearchService};

use super::{KEY, WebBench};

fn found() -> Value {
    json!({"web": {"results": [
        {"title": "One &amp; <strong>only</strong>", "url": "https://one.example/", "description": "The <strong>first</strong> &quot;hit&quot;"},
        {"url": "https://two.example/", "description": ""},
        {"title": "Three", "url": "https://three.example/"}
    ]}})
}

async fn bench(format: SearchFormat, reply: Reply) -> WebBench {
    let answer = move |_: &_| reply.clone();
    WebBench::start(answer, move |settings, base| {
        settings.search_format = format;
        settings.search_url = Some(base.parse().expect("a URL"));
        settings.timeout = "2s".parse().expect("a time");
        // What the operator names as a provider need not be allowed.
        settings.allowed_hosts.clear();
    })
    .await
}

async fn lines(reply: Reply) -> WebBench {
    bench(SearchFormat::Lines, reply).await
}

#[tokio::test]
async fn results_are_a_list_of_links() {
    let bench = bench(SearchFormat::Markdown, Reply::json(200, &found())).await;
    assert_eq!(
        bench.say("web_search", json!({"query": "rust"})).await,
        "1. [One & only](https://one.example/) — The first \"hit\"\n\
         2. [https://two.example/](https://two.example/)\n\
         3. [Three](https://three.example/)"
    );
    let asked = bench.server.only_request();
    assert_eq!(asked.path, "/res/v1/web/search?q=rust&count=5");
    assert_eq!(asked.headers["x-subscription-token"], KEY);
    assert_eq!(asked.headers["accept"], "application/json");
}

#[tokio::test]
async fn what_rockbot_says_of_failures_is_kept() {
    let bench = bench(SearchFormat::Markdown, Reply::json(200, &json!({}))).await;
    assert_eq!(bench.say("web_search", json!({"query": "x"})).await, "No results found.");
    assert_eq!(
        bench.fail("web_search", json!({"query": " "})).await,
        "Missing required argument: query"
    );

    let call = json!({"query": "x"});
    let broken = self::bench(SearchFormat::Markdown, Reply::json(503, &json!({"key": KEY}))).await;
    assert_eq!(
        broken.fail("web_search", call.clone()).await,
        "Search failed: the search provider answered with HTTP 503"
    );
    let nonsense = Reply::body(200, "application/json", format!("{{\"{KEY}"));
    let nonsense = self::bench(SearchFormat::Markdown, nonsense).await;
    let text = nonsense.fail("web_search", call).await;
    assert!(text.starts_with("Search failed: ") && !text.contains(KEY), "{text}");
}

#[tokio::test]
async fn a_missing_query_is_named_as_rockbot_does() {
    let bench = bench(SearchFormat::Markdown, Reply::empty(500)).await;
    let scope = crate::support::scope();
    let call = toolbus_tools::call::Call::by_name(&scope, "web_search", json!({})).expect("a name");
    let error = bench.invoker.invoke(call).await.expect_err("it is refused");
    assert_eq!(error.message, "Missing required argument: query");
}

#[tokio::test]
async fn without_a_key_nothing_is_found() {
    let answer = |_: &_| Reply::json(200, &found());
    let at = |settings: &mut toolbus_toolkits::web::WebSettings, base: &str| {
        settings.search_url = Some(base.parse().expect("a URL"));
    };
    for key in [None, Some(""), Some("  ")] {
        let environment = move |_: &str| key.map(str::to_owned);
        let environment: std::sync::Arc<toolbus_toolkits::Lookup> =
            std::sync::Arc::new(environment);
        let bench = WebBench::start_with(answer, at, Some(environment.clone())).await;
        assert_eq!(bench.say("web_search", json!({"query": "x"})).await, "No results found.");
        assert!(bench.server.asked().is_empty());

        // MX-R4, MX-R5: with that format there is no tool at all.
        let lines = |settings: &mut toolbus_toolkits::web::WebSettings, base: &str| {
            at(settings, base);
            settings.search_format = SearchFormat::Lines;
        };
        let bench = WebBench::start_with(answer, lines, Some(environment)).await;
        let snapshot = bench.invoker.registry().snapshot();
        assert!(snapshot.tools().iter().all(|entry| entry.tool.name != "web_search"));
    }
}

#[tokio::test]
async fn a_key_that_a_provider_repeats_is_erased() {
    let answer = json!({"web": {"results": [
        {"title": format!("Your key is {KEY}"), "url": "https://one.example/", "description": KEY}
    ]}});
    let bench = bench(SearchFormat::Markdown, Reply::json(200, &answer)).await;
    let text = bench.say("web_search", json!({"query": "x"})).await;
    assert!(text.contains("Your key is") && !text.contains("canary"), "{text}");
}

#[tokio::test]
async fn a_key_follows_no_redirect() {
    let reply = Reply::empty(302).header("location", "/elsewhere");
    let bench = bench(SearchFormat::Markdown, reply).await;
    let text = bench.fail("web_search", json!({"query": "x"})).await;
    assert!(text.contains("redirect"), "{text}");
    assert_eq!(bench.server.asked().len(), 1);
}

#[tokio::test]
async fn searxng_and_tavily_are_asked_in_their_way() {
    let answer = |_: &_| {
        Reply::json(
            200,
            &json!({"results": [
                {"title": "A", "url": "https://a.example/", "content": "about"},
                {"title": "B", "url": "https://b.example/", "content": null}
            ]}),
        )
    };
    let expected = "1. [A](https://a.example/) — about\n2. [B](https://b.example/)";

    let searxng = WebBench::start_with(
        answer,
        |settings, base| {
            settings.search_provider = SearchService::SearXng;
            settings.search_url = Some(format!("{base}/sx/").parse().expect("a URL"));
        },
        None,
    )
    .await;
    assert_eq!(searxng.say("web_search", json!({"query": "a b&c"})).await, expected);
    assert_eq!(searxng.server.only_request().path, "/sx/search?q=a+b%26c&format=json");

    let tavily = WebBench::start(answer, |settings, base| {
        settings.search_provider = SearchService::Tavily;
        settings.api_key = Some("tavily-key".to_owned().into());
        settings.search_url = Some(base.parse().expect("a URL"));
    })
    .await;
    assert_eq!(tavily.say("web_search", json!({"query": "a b", "count": 3})).await, expected);
    let asked = tavily.server.only_request();
    assert_eq!((asked.method.as_str(), asked.path.as_str()), ("POST", "/search"));
    assert_eq!(asked.headers["authorization"], "Bearer tavily-key");
    assert_eq!(asked.body, json!({"query": "a b", "max_results": 3}));
}

#[tokio::test]
async fn mx_q1_queries_are_trimmed_and_cut() {
    let bench = lines(Reply::json(200, &json!({}))).await;
    let long = format!("  {}  ", "x".repeat(500));
    let text = bench.say("web_search", json!({"query": long})).await;
    assert_eq!(text, format!("No results found for: {}", "x".repeat(400)));
    assert_eq!(
        bench.server.only_request().path,
        format!("/res/v1/web/search?q={}&count=5", "x".repeat(400))
    );
    let text = bench.fail("web_search", json!({"query": " \n "})).await;
    assert!(text.starts_with("Error"), "{text}");
}

#[tokio::test]
async fn mx_q2_count_is_five_and_clamped() {
    let bench = lines(Reply::json(200, &json!({}))).await;
    // Rule 12: integral numbers in any spelling.
    let counts = [
        (json!(1), 1),
        (json!(20), 20),
        (json!(0), 1),
        (json!(-3), 1),
        (json!(99), 20),
        (json!("5"), 5),
        (json!(3.0), 3),
        (json!(null), 5),
        (json!(u64::MAX), 20),
    ];
    for (count, _) in &counts {
        bench.say("web_search", json!({"query": "x", "count": count})).await;
    }
    let asked: Vec<_> = bench.server.asked().into_iter().map(|asked| asked.path).collect();
    let expected: Vec<_> =
        counts.iter().map(|(_, n)| format!("/res/v1/web/search?q=x&count={n}")).collect();
    assert_eq!(asked, expected);
}

#[tokio::test]
async fn rule_12_other_counts_are_refused_by_name() {
    let bench = lines(Reply::json(200, &json!({}))).await;
    let scope = crate::support::scope();
    for count in [json!(3.7), json!("five"), json!([1])] {
        let arguments = json!({"query": "x", "count": count});
        let call = toolbus_tools::call::Call::by_name(&scope, "web_search", arguments);
        let error = bench.invoker.invoke(call.expect("a name")).await.expect_err("refused");
        assert!(error.message.contains("count"), "{error}");
    }
    assert!(bench.server.asked().is_empty());
}

#[tokio::test]
async fn mx_q3_results_are_lines_and_rule_11_without_marks() {
    let bench = lines(Reply::json(200, &found())).await;
    assert_eq!(
        bench.say("web_search", json!({"query": " rust "})).await,
        "Search: \"rust\"\nResults: 3\n\n\
         1. One & only\n   https://one.example/\n   The first \"hit\"\n\n\
         2. (no title)\n   https://two.example/\n\n\
         3. Three\n   https://three.example/"
    );
}

#[tokio::test]
async fn mx_q4_failures_have_their_texts() {
    let call = json!({"query": "x"});
    let none = lines(Reply::json(200, &json!({"web": {"results": []}}))).await;
    assert_eq!(none.say("web_search", call.clone()).await, "No results found for: x");

    let status = lines(Reply::json(429, &json!({}))).await;
    let text = status.fail("web_search", call.clone()).await;
    assert!(text.starts_with("Error") && text.contains("429"), "{text}");

    let slow = lines(Reply::json(200, &json!({})).then(Part::Wait(Duration::from_secs(30)))).await;
    assert_eq!(slow.fail("web_search", call).await, "Search request timed out");
}

#[tokio::test]
async fn mx_q5_brave_is_asked_and_read() {
    let bench = lines(Reply::json(200, &json!({"query": {}}))).await;
    let text = bench.say("web_search", json!({"query": "a&b=c d", "count": 7})).await;
    assert_eq!(text, "No results found for: a&b=c d");
    let asked = bench.server.only_request();
    assert_eq!(asked.path, "/res/v1/web/search?q=a%26b%3Dc+d&count=7");
    assert_eq!(
        (asked.method.as_str(), asked.headers["accept"].as_str()),
        ("GET", "application/json")
    );
    assert_eq!(asked.headers["x-subscription-token"], KEY);
}
