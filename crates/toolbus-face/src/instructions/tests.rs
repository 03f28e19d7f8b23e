use std::future::ready;

use toolbus_tools::{Audience, Door, Output, Principal, Registry, Tool, View};

use super::*;

fn scope(view: View) -> Scope {
    let client = Principal::claimed("mcp");
    Scope::new(Door::Mcp, client, AgentName::standard()).with_view(view)
}

#[test]
fn what_is_seen_is_told_and_nothing_else() {
    let registry = Registry::new();
    let add = |tool: Tool| registry.register(tool, |_| ready(Ok(Output::text("")))).unwrap();
    let check = |view: View, expected: &str| {
        let scope = scope(view);
        let told = instructions_of_agent(&scope.agent, &registry.snapshot(), &scope);
        assert_eq!(told, expected);
    };
    check(View::all(), "These are the tools of the agent RockBot, run by Toolbus.");

    let local_alone = Audience::only(|principal| *principal == Principal::local());
    add(Tool::new("m", "", "m").in_group("mail").for_audience(local_alone));
    add(Tool::new("tool_search", "", "guides"));
    add(Tool::new("list_tool_guides", "", "guides"));
    add(Tool::new("b", "", "b").in_group("scripts"));
    add(Tool::new("a", "", "a").in_group("memory"));
    add(Tool::new("c", "", "a").in_group("memory"));
    // Half of a pair is of no use.
    let search = "tool_search finds tools by words.";
    let begin = "These are the tools of the agent RockBot, run by Toolbus. Their groups:";
    check(View::all(), &format!("{begin} memory, scripts. {search}"));

    add(Tool::new("get_tool_guide", "", "guides"));
    let guides = "Read the guide of a group of tools before you use it for the first time: \
                  list_tool_guides lists the guides, get_tool_guide returns one.";
    check(View::all(), &format!("{begin} memory, scripts. {guides} {search}"));
    let view = View::all().without(["a/*", "guides/get_tool_guide"]);
    check(view, &format!("{begin} scripts. {search}"));
}

#[test]
fn groups_have_a_bound() {
    let registry = Registry::new();
    for number in 0..100 {
        let name = format!("t{number:02}");
        let tool = Tool::new(&name, "", "many").in_group(name.clone());
        registry.register(tool, |_| ready(Ok(Output::text("")))).unwrap();
    }
    let scope = scope(View::all());
    let told = instructions_of_agent(&scope.agent, &registry.snapshot(), &scope);
    assert!(told.ends_with(" t22, t23, and more."), "{told}");
}
