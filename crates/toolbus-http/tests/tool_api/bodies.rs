//! What requests may look like.

use axum::body::Body;
use serde_json::json;
use toolbus_http::BODY_BYTES_MAX;
use toolbus_testkit::state::StatePlace;

use crate::bench::{Answer, Bench, CLIENT, request};

async fn send(bench: &Bench, body: impl Into<Body>) -> Answer {
    let request = request("POST", CLIENT, "/v1/execute_tool")
        .header("content-type", "application/json; charset=utf-8");
    bench.send(request.body(body.into()).unwrap()).await
}

#[tokio::test]
async fn what_is_no_json_is_refused() {
    let bench = Bench::new(&StatePlace::sqlite());
    for body in ["", "{", "{\"tool_name\": }", "\u{0}"] {
        send(&bench, body).await.expect(400, "INVALID_JSON");
    }
    send(&bench, "[".repeat(100_000)).await.expect(400, "INVALID_JSON");
    send(&bench, vec![0xff, 0xfe]).await.expect(400, "INVALID_JSON");
    for body in ["[]", "null", "1"] {
        send(&bench, body).await.expect(400, "INVALID_REQUEST");
    }
    send(&bench, "{}").await.expect(400, "MISSING_REQUIRED_FIELD");
    send(&bench, r#"{"tool_name": null}"#).await.expect(400, "MISSING_REQUIRED_FIELD");
}

#[tokio::test]
async fn a_field_that_is_not_known_is_refused() {
    let bench = Bench::new(&StatePlace::sqlite());
    let body = json!({"tool_name": "echo", "parms": {"text": "x"}}).to_string();
    let answer = send(&bench, body).await.expect(400, "INVALID_REQUEST");
    assert_eq!(answer.body["error"]["details"]["problems"][0]["field"], "parms");
    assert_eq!(bench.secrets_read(), 0);
}

#[tokio::test]
async fn a_body_that_is_too_long_is_refused() {
    let bench = Bench::new(&StatePlace::sqlite());
    let text = "x".repeat(BODY_BYTES_MAX);
    let body = json!({"tool_name": "echo", "params": {"text": text}}).to_string();
    send(&bench, body).await.expect(413, "INVALID_REQUEST");
    let values = format!("{{\"tool_name\": [{}1]}}", "1,".repeat(300_000));
    send(&bench, values).await.expect(400, "INVALID_JSON");
}

#[tokio::test]
async fn other_methods_are_told_which_there_are() {
    let bench = Bench::new(&StatePlace::sqlite());
    let put = request("PUT", CLIENT, "/v1/retrieve_tools").body(Body::empty()).unwrap();
    let answer = bench.send(put).await.expect(405, "INVALID_REQUEST");
    let allow = answer.headers["allow"].to_str().unwrap().to_owned();
    assert!(allow.contains("GET") && allow.contains("POST"), "{allow}");

    let options = request("OPTIONS", "", "/v1/retrieve_tools").body(Body::empty()).unwrap();
    let answer = bench.send(options).await;
    assert_eq!(answer.status, 204);
    assert_eq!(answer.headers["allow"].to_str().unwrap(), allow);
    assert!(!answer.headers.contains_key("access-control-allow-origin"));
}

#[tokio::test]
async fn other_hosts_and_pages_are_refused() {
    let bench = Bench::new(&StatePlace::sqlite());
    for (header, value) in [("host", "evil.example"), ("origin", "https://evil.example")] {
        for path in ["/v1/tools", "/v1/health"] {
            let mut request = request("GET", CLIENT, path).body(Body::empty()).unwrap();
            request.headers_mut().insert(header, value.parse().unwrap());
            bench.send(request).await.expect(403, "FORBIDDEN");
        }
    }
    let mut local = request("GET", CLIENT, "/v1/tools").body(Body::empty()).unwrap();
    local.headers_mut().insert("origin", "http://localhost:3000".parse().unwrap());
    assert_eq!(bench.send(local).await.status, 200);
}
