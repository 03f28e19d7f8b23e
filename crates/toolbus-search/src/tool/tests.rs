//! The tool, called as models call it.

use std::sync::Arc;

use serde_json::{Value, json};
use toolbus_tools::call::{Call, Outcome};
use toolbus_tools::{Invoker, Registry, Scope};
use toolbus_wire::name::AgentName;

use super::{NAME, guide, register};
use crate::{KnownServices, Service, ServiceKind};

async fn call(tool: &str, arguments: Value) -> Outcome {
    let registry = Arc::new(Registry::new());
    let services = vec![Service::new(ServiceKind::McpServer, "calendar-meeting")];
    register(&registry, &KnownServices::new(services)).unwrap();
    let scope = Scope::local(AgentName::standard());
    Invoker::new(registry).invoke(Call::by_name(&scope, tool, arguments).unwrap()).await
}

#[tokio::test]
async fn it_searches_by_both_of_its_names() {
    for name in [NAME, "SearchKnownServices"] {
        let found = call(name, json!({"query": "meeting"})).await.unwrap().content.unwrap();
        assert!(found.contains("calendar-meeting"), "{found}");
    }
}

#[tokio::test]
async fn a_missing_query_is_told() {
    let error = call(NAME, json!({})).await.unwrap_err();
    assert_eq!(error.message, "Missing required parameter: query.");
}

#[tokio::test]
async fn examples_of_the_guide_can_be_called() {
    let guide = guide();
    let examples = guide.document.lines().filter_map(|line| line.split_once(" {"));
    let mut called = 0;
    for (tool, arguments) in examples {
        call(tool, serde_json::from_str(&format!("{{{arguments}")).unwrap()).await.unwrap();
        called += 1;
    }
    assert_eq!(called, 1);
}
