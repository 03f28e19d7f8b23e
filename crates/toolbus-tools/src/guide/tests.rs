use serde_json::Value;

use super::*;
use toolbus_wire::name::AgentName;

use crate::call::{Arguments, Call, Outcome};
use crate::id::{CallId, ToolId, ToolName};
use crate::registry::Offer;
use crate::scope::{Door, Principal};
use crate::view::View;
use crate::{Audience, CallError, Invoker};

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
        self.call_in(View::all(), tool, arguments).await
    }

    async fn call_in(&self, view: View, tool: &str, arguments: Value) -> Outcome {
        self.call_of(Principal::local(), view, tool, arguments).await
    }

    async fn call_of(
        &self,
        principal: Principal,
        view: View,
        tool: &str,
        arguments: Value,
    ) -> Outcome {
        let scope = Scope::new(Door::CommandLine, principal, AgentName::standard());
        let scope = Arc::new(scope.with_view(view));
        let tool = ToolName::parse(tool).unwrap();
        let call = Call::new(&scope, CallId::random(), tool, Arguments::Value(arguments));
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

/// As RockBot's documents write them.
#[tokio::test]
async fn names_of_guides_may_end_in_what_they_are() {
    let stage = Stage::new();
    stage.guides.add(guide("mcp", "", "# MCP"));
    stage.guides.add(guide("web", "", "# Web"));
    stage.guides.add(guide("house-guide", "", "# House"));
    let check = async |name: &str, page: &str| {
        assert_eq!(stage.text("get_tool_guide", json!({"name": name})).await, page);
    };
    check("mcp-tool-guide", "# MCP").await;
    check("MCP-Guide", "# MCP").await;
    check("web-tools", "# Web").await;
    check("house-guide", "# House").await;
    for name in ["-guide", "é-tool", "mcp-", "mcp-guides"] {
        let unknown =
            format!("No tool guide named '{name}'. Available guides: house-guide, mcp, web.");
        check(name, &unknown).await;
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

#[tokio::test]
async fn the_guide_of_a_group_is_seen_where_a_tool_of_it_is() {
    let stage = Stage::new();
    stage.guides.add(guide("mcp", "Call services", "# MCP"));
    stage.guides.add(guide("scripts", "Run Python", "# Scripts"));
    let run = Tool::new("run", "", "script").in_group("scripts");
    let nothing = |_: Invocation| std::future::ready(Ok(Output::default()));
    stage.invoker.registry().register(run, nothing).unwrap();

    let view = || View::all().only(["script/*", "guides/*"]);
    let list = stage.call_in(view(), "list_tool_guides", json!({})).await.unwrap();
    assert_eq!(list.content.unwrap(), "Available tool guides (1):\n- scripts: Run Python");
    let hidden = stage.call_in(view(), "get_tool_guide", json!({"name": "mcp"})).await.unwrap();
    let text = "No tool guide named 'mcp'. Available guides: scripts.";
    assert_eq!(hidden.content.unwrap(), text);
}

/// Whatever its name here is.
#[tokio::test]
async fn the_guide_of_a_group_is_seen_where_a_tool_from_elsewhere_is() {
    let stage = Stage::new();
    stage.guides.add(guide("mcp", "Call services", "# MCP"));
    let tool = Tool::new("github__create_issue", "", "mcp:github").in_group("mcp");
    let nothing = |_: Invocation| std::future::ready(Ok(Output::default()));
    let id = ToolId::of("mcp:github", "create_issue");
    let offer = Offer::new(tool, nothing).with_identity(id, None);
    let provider = stage.invoker.registry().provider("mcp:github");
    assert!(provider.publish(vec![offer]).is_empty());

    let check = async |view: View, tool: &str, expected: &str| {
        let told = stage.call_in(view, tool, json!({"name": "mcp"})).await.unwrap();
        assert_eq!(told.content.unwrap(), expected);
    };
    let only = View::all().only(["mcp:github/create_issue", "guides/*"]);
    check(only.clone(), "list_tool_guides", "Available tool guides (1):\n- mcp: Call services")
        .await;
    check(only, "get_tool_guide", "# MCP").await;
    let without = View::all().without(["mcp:github/create_issue"]);
    check(without, "list_tool_guides", "No tool guides are registered in this agent.").await;
}

/// A group without tools has a guide for everybody, whose view has everything.
#[tokio::test]
async fn the_guide_of_a_group_is_seen_by_whom_its_tools_are_there_for() {
    let stage = Stage::new();
    stage.guides.add(guide("mail", "Read mail", "# Mail"));
    stage.guides.add(guide("empty", "No tools", "# Empty"));
    let local_alone = Audience::only(|principal| *principal == Principal::local());
    let read = Tool::new("read_mail", "", "mail").in_group("mail").for_audience(local_alone);
    let nothing = |_: Invocation| std::future::ready(Ok(Output::default()));
    stage.invoker.registry().register(read, nothing).unwrap();

    let local = "Available tool guides (2):\n- empty: No tools\n- mail: Read mail";
    let others = "Available tool guides (1):\n- empty: No tools";
    for (principal, expected) in
        [(Principal::local(), local), (Principal::claimed("local"), others)]
    {
        let call = stage.call_of(principal, View::all(), "list_tool_guides", json!({}));
        assert_eq!(call.await.unwrap().content.unwrap(), expected);
    }
    let name = json!({"name": "mail"});
    let hidden = stage.call_of(Principal::claimed("x"), View::all(), "get_tool_guide", name);
    let text = "No tool guide named 'mail'. Available guides: empty.";
    assert_eq!(hidden.await.unwrap().content.unwrap(), text);
}

#[test]
fn the_two_tools_change_nothing() {
    let registry = Arc::new(Registry::new());
    Guides::default().register(&registry).unwrap();
    let tools = registry.snapshot();
    assert!(tools.tools().iter().all(|entry| entry.tool.annotations.may_repeat()));
    assert!(Guides::default().register(&registry).is_err(), "they are there once");
}
