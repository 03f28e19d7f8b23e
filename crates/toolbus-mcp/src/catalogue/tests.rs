//! Listings, their order and their limits.

use serde_json::{Value, json};

use super::*;

fn tool(value: Value) -> McpTool {
    serde_json::from_value(value).expect("a tool")
}

fn named(name: &str) -> McpTool {
    tool(json!({"name": name, "inputSchema": {"type": "object"}}))
}

fn listed(filter: &ToolFilter, tools: Vec<McpTool>) -> (Vec<String>, Option<&'static str>) {
    let mut listing = Listing::new(filter);
    listing.add_page(tools);
    let cut = listing.cut;
    (listing.finish().tools().map(|tool| tool.name.clone()).collect(), cut)
}

#[test]
fn order_is_the_servers_and_hidden_tools_are_hidden() {
    let filter = ToolFilter::new(None::<[&str; 0]>, ["B"]);
    let tools = ["c", "b", "a", "C"].map(named).to_vec();
    assert_eq!(listed(&filter, tools), (["c", "a", "C"].map(str::to_owned).to_vec(), None));
}

#[test]
fn names_that_cannot_be_used_are_passed_over() {
    let long = "x".repeat(TOOL_NAME_BYTES_MAX + 1);
    let (names, cut) = listed(&ToolFilter::default(), vec![named(""), named(&long), named("a")]);
    assert_eq!((names, cut), (vec!["a".to_owned()], None));
    let (names, cut) = listed(&ToolFilter::default(), vec![named("a"), named("a")]);
    assert_eq!((names, cut), (vec!["a".to_owned()], Some("two tools of the same name")));
}

#[test]
fn there_are_only_so_many_tools() {
    let tools = (0..=TOOLS_MAX).map(|number| named(&number.to_string())).collect();
    let (names, cut) = listed(&ToolFilter::default(), tools);
    assert_eq!((names.len(), cut), (TOOLS_MAX, Some("too many tools")));
}

#[test]
fn there_are_only_so_many_bytes() {
    let big = "x".repeat(CATALOGUE_BYTES_MAX);
    let tools = vec![
        named("a"),
        tool(json!({"name": "b", "description": big, "inputSchema": {}})),
        named("c"),
    ];
    let (names, cut) = listed(&ToolFilter::default(), tools);
    assert_eq!(names, ["a", "c"]);
    assert_eq!(cut, Some("too many bytes of tools"));
}

#[test]
fn what_is_kept_of_a_tool() {
    let mut listing_filter = ToolFilter::default();
    let filter = &mut listing_filter;
    let mut listing = Listing::new(filter);
    listing.add_page(vec![
        tool(json!({"name": "z", "description": "d", "annotations": {"readOnlyHint": true},
            "inputSchema": {"type": "object", "properties": {"b": {}, "a": {}}}})),
        tool(json!({"name": "y", "annotations": {"idempotentHint": false}, "inputSchema": {}})),
        tool(json!({"name": "x", "annotations": {"idempotentHint": true}, "inputSchema": {}})),
        tool(json!({"name": "w", "inputSchema": {}})),
    ]);
    let catalogue = listing.finish();
    let z = catalogue.find("z").expect("z");
    assert_eq!(z.parameters_schema, r#"{"type":"object","properties":{"b":{},"a":{}}}"#);
    let repeatable: Vec<_> = catalogue.tools().filter(|tool| tool.may_repeat).collect();
    assert_eq!(repeatable.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["z", "x"]);
    assert_eq!((catalogue.len(), catalogue.find("Z")), (4, None));
}
