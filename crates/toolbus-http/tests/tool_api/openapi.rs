//! The description of the interface.

use axum::body::Body;
use serde_json::Value;
use toolbus_testkit::state::StatePlace;

use crate::bench::{Bench, request};

#[tokio::test]
async fn the_description_names_every_address() {
    let bench = Bench::new(&StatePlace::sqlite());
    let answer = request("GET", "", "/v1/openapi.json").body(Body::empty()).unwrap();
    let document = bench.send(answer).await.body;
    assert!(document["openapi"].as_str().is_some_and(|version| version.starts_with("3.1")));
    let mut operations = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            operations.push(format!("{method} {path}"));
            assert!(operation["operationId"].is_string(), "{method} {path}");
        }
    }
    operations.sort_unstable();
    assert_eq!(
        operations,
        [
            "delete /v1/jobs/{id}",
            "delete /v1/keys/{id}",
            "get /v1/health",
            "get /v1/jobs/{id}",
            "get /v1/jobs/{id}/events",
            "get /v1/keys",
            "get /v1/retrieve_tools",
            "get /v1/servers",
            "get /v1/servers/{name}",
            "get /v1/tools",
            "get /v1/tools/{name}",
            "post /v1/execute_tool",
            "post /v1/jobs",
            "post /v1/jobs/{id}/cancel",
            "post /v1/keys",
            "post /v1/retrieve_tools",
        ]
    );
    check_references(&document, &document);
}

/// Every reference stands for something.
fn check_references(document: &Value, part: &Value) {
    match part {
        Value::Object(members) => {
            if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
                let pointer = reference.strip_prefix('#').unwrap();
                assert!(document.pointer(pointer).is_some(), "{reference}");
            }
            members.values().for_each(|member| check_references(document, member));
        }
        Value::Array(items) => items.iter().for_each(|item| check_references(document, item)),
        _ => {}
    }
}
