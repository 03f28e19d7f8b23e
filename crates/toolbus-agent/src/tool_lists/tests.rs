use serde_json::json;
use toolbus_models::dialect::Dialect;
use toolbus_models::message::{
    AssistantMessage, AssistantPart, CallArguments, ModelCall, ToolResult,
};
use toolbus_tools::call::{Invocation, Output};
use toolbus_tools::{Door, Principal, Registry, Tool};
use toolbus_wire::name::AgentName;

use super::*;

fn invoker(with_search: bool) -> Invoker {
    let registry = Registry::new();
    let add = |name: &str| {
        let tool = Tool::new(name, "x".repeat(1_000), "test");
        let run = |_: Invocation| std::future::ready(Ok(Output::text("")));
        registry.register(tool, run).unwrap();
    };
    add("first");
    if with_search {
        add(tool_search::NAME);
    }
    for number in 0..10 {
        add(&format!("more-{number}.x"));
    }
    Invoker::new(Arc::new(registry))
}

fn names(list: &ToolList) -> Vec<String> {
    let definitions = list.lowered(Dialect::Mcp).definitions();
    definitions.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
}

fn searched(result: &str, tool: &str) -> Vec<Arc<Message>> {
    let call = ModelCall {
        id: "1".to_owned(),
        name: tool.to_owned(),
        arguments: CallArguments::Json { value: json!({}) },
        written: None,
    };
    let answer = AssistantMessage { parts: vec![AssistantPart::Call(call)] };
    let results = vec![ToolResult::success("1", result)];
    vec![Arc::new(Message::Assistant(answer)), Arc::new(Message::Results { results })]
}

#[test]
fn tools_that_do_not_fit_are_there_once_they_were_found() {
    let scope = Scope::new(Door::Turn, Principal::local(), AgentName::standard());
    let invoker = invoker(true);
    let all = ToolLists::new(1 << 20).list(&invoker, &scope, &[]);
    assert_eq!(names(&all).len(), 12);

    let lists = ToolLists::new(3_500);
    let few = lists.list(&invoker, &scope, &[]);
    assert_eq!(names(&few), ["first", "tool_search", "more-0.x", "more-1.x"]);
    assert!(Arc::ptr_eq(&few, &lists.list(&invoker, &scope, &[])), "it is lowered once");

    let found = searched("- more-7.x: does\n- more-4.x.\n- unknown: no", "tool_search");
    let list = lists.list(&invoker, &scope, &found);
    assert_eq!(names(&list)[2..], ["more-0.x", "more-1.x", "more-7.x", "more-4.x"]);
    // What another tool says of names finds nothing.
    let other = searched("- more-7.x: does", "first");
    assert_eq!(names(&lists.list(&invoker, &scope, &other)).len(), 4);
}

#[test]
fn without_a_search_nothing_is_left_out() {
    let scope = Scope::new(Door::Turn, Principal::local(), AgentName::standard());
    let list = ToolLists::new(1).list(&invoker(false), &scope, &[]);
    assert_eq!(names(&list).len(), 11);
}
