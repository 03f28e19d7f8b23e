//! Finding tools and calling them.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::json;
use toolbus_testkit::state::StatePlace;

use crate::bench::{ADMIN, Bench, CLIENT, request, until};

#[tokio::test]
async fn cx_e3_a_call_is_answered_with_its_result_time_and_tokens() {
    let bench = Bench::new(&StatePlace::sqlite());
    let answer = bench.call("echo", json!({"text": "hello"})).await;
    assert_eq!(answer.status, 200, "{answer:#?}");
    let meta = &answer.body["meta"];
    assert!(meta["request_id"].as_str().is_some_and(|id| id.len() > 10));
    assert!(meta["timestamp"].as_str().is_some_and(|time| time.ends_with('Z')));

    let data = answer.data();
    assert_eq!(data["tool_name"], "echo");
    assert_eq!(data["status"], "success");
    assert_eq!(data["result"], "hello");
    assert!(data["execution_time_ms"].is_u64());
    assert_eq!(data["tokens_used"], json!({"input": 4, "output": 2}));

    let body = json!({"tool": "echo", "arguments": {"text": "too"}});
    let data = bench.post(CLIENT, "/v1/execute_tool", body).await.data();
    assert_eq!(data["result"], "too");
    let body = json!({"tool": "echo", "tool_name": "echo", "params": {"text": "?"}});
    bench.post(CLIENT, "/v1/execute_tool", body).await.expect(400, "INVALID_REQUEST");
}

#[tokio::test]
async fn cx_e1_a_call_that_is_refused_reads_no_secret() {
    let bench = Bench::new(&StatePlace::sqlite());
    bench.call("nothing", json!({})).await.expect(404, "TOOL_NOT_FOUND");
    // The permission comes before the schema, and the schema before the limit.
    bench.call("forbidden", json!({"text": 1})).await.expect(403, "FORBIDDEN");
    bench.call("limited", json!({"text": 1})).await.expect(400, "INVALID_ARGUMENTS");
    assert_eq!(bench.secrets_read(), 0);

    bench.call("limited", json!({"text": "1"})).await.data();
    assert_eq!(bench.secrets_read(), 1);
    let refused = bench.call("limited", json!({"text": "2"})).await.expect(429, "RATE_LIMITED");
    assert_eq!(bench.secrets_read(), 1);
    let wait = refused.body["error"]["retry_after"].as_u64().unwrap();
    assert!((1..=3_600).contains(&wait), "{wait}");
    assert_eq!(refused.headers["retry-after"], wait.to_string());
}

#[tokio::test]
async fn cx_e4_a_call_that_takes_too_long_is_cancelled() {
    let bench = Bench::new(&StatePlace::sqlite());
    let body = |timeout: u64| json!({"tool_name": "sleep", "timeout": timeout});
    for timeout in [999, 300_001] {
        let answer = bench.post(CLIENT, "/v1/execute_tool", body(timeout)).await;
        answer.expect(400, "INVALID_REQUEST");
    }

    let began = Instant::now();
    let answer = bench.post(CLIENT, "/v1/execute_tool", body(1_000)).await;
    let answer = answer.expect(504, "EXECUTION_TIMEOUT");
    assert!(answer.headers.contains_key("retry-after"));
    assert!(began.elapsed() >= Duration::from_secs(1));
    until(async || bench.cancelled.load(Ordering::SeqCst) == 1).await;
}

#[tokio::test]
async fn cx_e5_a_call_that_fails_leaves_others_alone() {
    let bench = Bench::new(&StatePlace::sqlite());
    let (failed, one, other) = tokio::join!(
        bench.call("fail", json!({})),
        bench.call("echo", json!({"text": "one"})),
        bench.call("echo", json!({"text": "other"})),
    );
    failed.expect(500, "EXECUTION_ERROR");
    assert_eq!(one.data()["result"], "one");
    assert_eq!(other.data()["result"], "other");
}

#[tokio::test]
async fn cx_e6_a_tool_that_fails_says_why() {
    let bench = Bench::new(&StatePlace::sqlite());
    let answer = bench.call("fail", json!({})).await.expect(500, "EXECUTION_ERROR");
    assert_eq!(answer.body["error"]["details"]["tool_error"], "it broke");
    assert!(answer.body["error"].get("retry_after").is_none());
}

#[tokio::test]
async fn cx_e7_servers_that_are_not_there_or_away_are_told_apart() {
    let bench = Bench::new(&StatePlace::sqlite());
    bench.call("slack/send", json!({})).await.expect(400, "TOOL_NOT_INSTALLED");
    bench.call("github/nothing", json!({})).await.expect(404, "TOOL_NOT_FOUND");
    bench.call("gone", json!({})).await.expect(503, "SERVICE_UNAVAILABLE");
    bench.call("busy", json!({})).await.expect(503, "SERVICE_UNAVAILABLE");
}

#[tokio::test]
async fn a_name_of_two_tools_is_refused_with_both() {
    let bench = Bench::new(&StatePlace::sqlite());
    let candidates = json!(["github/create", "gitlab/create"]);
    let answer = bench.call("create", json!({})).await.expect(400, "INVALID_REQUEST");
    assert_eq!(answer.body["error"]["details"]["candidates"], candidates);
    let answer = bench.get(CLIENT, "/v1/tools/create").await.expect(400, "INVALID_REQUEST");
    assert_eq!(answer.body["error"]["details"]["candidates"], candidates);

    assert_eq!(bench.call("gitlab/create", json!({})).await.data()["result"], "by gitlab");
    assert_eq!(bench.call("github__create", json!({})).await.data()["result"], "by github");
}

#[tokio::test]
async fn every_problem_of_the_arguments_is_told() {
    let bench = Bench::new(&StatePlace::sqlite());
    let params = json!({"times": "x", "kind": "c", "inner": {}, "more": 1});
    let answer = bench.call("echo", params).await.expect(400, "INVALID_ARGUMENTS");
    let problems = answer.body["error"]["details"]["problems"].as_array().unwrap().clone();
    let fields: Vec<_> = problems.iter().filter_map(|problem| problem["field"].as_str()).collect();
    for field in ["/text", "/times", "/kind", "/inner/x"] {
        assert!(fields.contains(&field), "{problems:#?}");
    }
    assert_eq!(problems.len(), 5, "{problems:#?}");
}

#[tokio::test]
async fn a_client_that_goes_away_cancels_its_call() {
    let bench = Bench::new(&StatePlace::sqlite());
    let calling = bench.call("sleep", json!({}));
    let given_up = tokio::time::timeout(Duration::from_secs(2), calling).await;
    assert!(given_up.is_err());
    until(async || bench.cancelled.load(Ordering::SeqCst) == 1).await;
}

#[tokio::test]
async fn tools_are_listed_by_pages() {
    let bench = Bench::new(&StatePlace::sqlite());
    let all = bench.get(CLIENT, "/v1/tools").await.data();
    let names: Vec<_> =
        all["items"].as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect();
    assert!(!names.contains(&json!("forbidden")), "{names:?}");
    let total = names.len() as u64;
    assert_eq!(
        all["pagination"],
        json!({"limit": 20, "offset": 0, "total": total, "has_more": false})
    );

    let page = bench.get(CLIENT, "/v1/tools?limit=2&offset=1").await.data();
    assert_eq!(page["items"][0]["name"], names[1]);
    assert_eq!(page["items"].as_array().unwrap().len(), 2);
    assert_eq!(page["pagination"]["has_more"], true);

    let of_server = bench.get(CLIENT, "/v1/tools?server=github").await.data();
    assert_eq!(of_server["pagination"]["total"], 1);
    let of_category = bench.get(CLIENT, "/v1/tools?category=messaging").await.data();
    assert_eq!(of_category["pagination"]["total"], 3);
    for wrong in ["limit=0", "limit=101", "limit=x", "category=food", "limt=1", "limit=1&limit=2"] {
        let answer = bench.get(CLIENT, &format!("/v1/tools?{wrong}")).await;
        answer.expect(400, "INVALID_REQUEST");
    }
    let unknown = bench.get(CLIENT, "/v1/tools?server=slack").await;
    unknown.expect(404, "SERVER_NOT_FOUND");
}

#[tokio::test]
async fn a_tool_is_described() {
    let bench = Bench::new(&StatePlace::sqlite());
    let tool = bench.get(CLIENT, "/v1/tools/test/limited").await.data();
    assert_eq!(tool["name"], "limited");
    assert_eq!(tool["server"], "test");
    assert_eq!(tool["category"], "messaging");
    assert_eq!(tool["tags"], json!(["messaging", "loud"]));
    assert_eq!(tool["inputSchema"]["required"], json!(["text"]));
    assert_eq!(tool["authentication_required"], true);
    assert_eq!(tool["rate_limit"], json!({"limit": 1, "per": "hour"}));
    bench.get(CLIENT, "/v1/tools/nothing").await.expect(404, "TOOL_NOT_FOUND");
    // What a caller may not use is not there for it.
    bench.get(CLIENT, "/v1/tools/forbidden").await.expect(404, "TOOL_NOT_FOUND");
}

#[tokio::test]
async fn servers_are_listed() {
    let bench = Bench::new(&StatePlace::sqlite());
    let servers = bench.get(CLIENT, "/v1/servers").await.data();
    let servers = servers["servers"].as_array().unwrap().clone();
    let states: Vec<_> =
        servers.iter().map(|server| (server["name"].clone(), server["status"].clone())).collect();
    assert_eq!(
        states,
        [
            ("away", "disconnected"),
            ("github", "connected"),
            ("gitlab", "connected"),
            ("test", "connected")
        ]
        .map(|(name, status)| (json!(name), json!(status)))
    );
    let one = bench.get(CLIENT, "/v1/servers/github").await.data();
    assert_eq!(one["tool_count"], 1);
    assert!(one["last_checked"].as_str().is_some_and(|time| time.ends_with('Z')));
    bench.get(CLIENT, "/v1/servers/slack").await.expect(404, "SERVER_NOT_FOUND");
}

#[tokio::test]
async fn tools_are_retrieved_by_both_methods() {
    let bench = Bench::new(&StatePlace::sqlite());
    let body = json!({"query": "say it again", "top_k": 3, "filter": {"server": "test"}});
    let data = bench.post(CLIENT, "/v1/retrieve_tools", body).await.data();
    assert!(data["tools"].is_array() && data["query_time_ms"].is_u64());
    assert!(data["total_tools_searched"].is_u64());
    let path = "/v1/retrieve_tools?query=say+it&top_k=50&min_score=0.5&debug=true";
    assert!(bench.get(CLIENT, path).await.data()["tools"].is_array());

    let check = async |body: serde_json::Value, code: &str| {
        bench.post(CLIENT, "/v1/retrieve_tools", body).await.expect(400, code)
    };
    check(json!({}), "MISSING_REQUIRED_FIELD").await;
    check(json!({"query": " "}), "INVALID_REQUEST").await;
    check(json!({"query": "x".repeat(501)}), "INVALID_REQUEST").await;
    check(json!({"query": "x", "top_k": 0}), "INVALID_REQUEST").await;
    check(json!({"query": "x", "top_k": 51}), "INVALID_REQUEST").await;
    let wrong = json!({
        "top_k": "many", "filter": {"min_score": 2, "categry": "x"}, "debug": 1, "more": 1,
    });
    let answer = check(wrong, "INVALID_REQUEST").await;
    let problems = answer.body["error"]["details"]["problems"].as_array().unwrap().clone();
    let mut fields: Vec<_> =
        problems.iter().filter_map(|problem| problem["field"].as_str()).collect();
    fields.sort_unstable();
    assert_eq!(fields, ["debug", "filter.categry", "filter.min_score", "more", "query", "top_k"]);

    // To ask for somebody else is for admins.
    let body = json!({"query": "x", "user_id": "local:local"});
    let answer = bench.post(CLIENT, "/v1/retrieve_tools", body.clone()).await;
    answer.expect(403, "FORBIDDEN");
    bench.post(ADMIN, "/v1/retrieve_tools", body).await.data();
}

#[tokio::test]
async fn health_needs_no_key() {
    let bench = Bench::new(&StatePlace::sqlite());
    let answer = bench.send(request("GET", "", "/v1/health").body("".into()).unwrap()).await;
    assert_eq!(answer.status, 200);
    // A server is away.
    assert_eq!(answer.data()["status"], "degraded");

    bench.api.drain(Duration::ZERO).await;
    let answer = bench.get("", "/v1/health").await;
    assert_eq!(
        (answer.status.as_u16(), answer.data()["status"].clone()),
        (503, json!("unhealthy"))
    );
    bench.call("echo", json!({"text": "x"})).await.expect(503, "SERVICE_UNAVAILABLE");
}
