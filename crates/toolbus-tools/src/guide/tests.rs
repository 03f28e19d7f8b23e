use serde_json::Value;

use super::*;
use crate::call::{Arguments, Call, Outcome, Time};
use crate::{CallError, Invoker};

fn guide(name: &str, summary: &str, document: &str) -> Guide {
    Guide { name: name.to_owned(), summary: summary.to_owned(), document: document.to_owned() }
}

struct Stage {
    guides: Guides,
    invoker: Invoker,
}

impl Stage {
    fn new() -> Self {
        let (guides, registry) = (Guides::default(), Arc::new(Registry::new()));
        guides.register(&registry).unwrap();
        Self { guides, invoker: Invoker::new(registry) }
    }

    async fn call(&self, tool: &str, arguments: Value) -> Outcome {
        let call = Call {
            id: "1".to_owned(),
            tool: tool.to_owned(),
            arguments: Arguments::Value(arguments),
            caller: "test".to_owned(),
            session: None,
            time: Time::Default,
            cancelled: tokio_util::sync::CancellationToken::new(),
            progress: toolbus_bus::Progress::none(),
            asker: toolbus_bus::Asker::none(),
        };
        self.invoker.invoke(call).await
    }

    /// The text of an answer that is no error.
    async fn text(&self, tool: &str, arguments: Value) -> String {
        let output = self.call(tool, arguments).await.unwrap();
        assert!(!output.is_error && output.blocks.is_empty());
        output.content.unwrap()
    }
}

#[tokio::test]
async fn without_guides_the_list_says_so() {
    let stage = Stage::new();
    assert_eq!(
        stage.text("list_tool_guides", json!({})).await,
        "No tool guides are registered in this agent."
    );
}

#[tokio::test]
async fn guides_are_listed_by_name() {
    let stage = Stage::new();
    stage.guides.add(guide("web", "Search and read the web", ""));
    stage.guides.add(guide("mcp", "Call services", ""));
    stage.guides.add(guide("scripts", "Run Python", ""));
    // A guide takes the place of the one that has its name.
    stage.guides.add(guide("MCP", "Call MCP servers", ""));
    stage.guides.add(guide("mcp", "Call MCP servers", ""));
    let list = stage.text("list_tool_guides", json!({})).await;
    assert_eq!(stage.text("ListToolGuides", json!({})).await, list);
    insta::assert_snapshot!(list, @r"
    Available tool guides (3):
    - mcp: Call MCP servers
    - scripts: Run Python
    - web: Search and read the web
    ");
}

#[tokio::test]
async fn a_guide_is_given_in_full_whatever_the_case_of_its_name() {
    let stage = Stage::new();
    let page = "# MCP\n\nCall `mcp_list_services` first.\n";
    stage.guides.add(guide("mcp", "Call MCP servers", page));
    for name in ["mcp", "MCP", " Mcp\n"] {
        assert_eq!(stage.text("get_tool_guide", json!({"name": name})).await, page);
        assert_eq!(stage.text("GetToolGuide", json!({"name": name})).await, page);
    }
}

#[tokio::test]
async fn an_unknown_guide_is_answered_with_the_names_of_those_there_are() {
    let stage = Stage::new();
    stage.guides.add(guide("b", "", ""));
    stage.guides.add(guide("a", "", ""));
    assert_eq!(
        stage.text("get_tool_guide", json!({"name": "x"})).await,
        "No tool guide named 'x'. Available guides: a, b."
    );
}

#[tokio::test]
async fn a_guide_has_to_be_named() {
    let stage = Stage::new();
    let error = stage.call("get_tool_guide", json!({})).await.unwrap_err();
    assert_eq!(error, CallError::invalid_arguments("Missing required argument: name"));
    assert!(stage.call("get_tool_guide", json!({"name": 7})).await.is_err());
}

#[test]
fn the_two_tools_change_nothing() {
    let registry = Registry::new();
    Guides::default().register(&registry).unwrap();
    assert!(registry.list().iter().all(|registered| registered.tool.annotations.may_repeat()));
    assert!(Guides::default().register(&registry).is_err(), "they are there once");
}
