//! Listings, their order and their limits.

use serde_json::{Value, json};

use super::*;
use crate::trust::findings::Reader;

fn tool(value: Value) -> RawJson {
    RawJson::of(&value)
}

fn named(name: &str) -> RawJson {
    tool(json!({"name": name, "inputSchema": {"type": "object"}}))
}

fn listed(filter: &ToolFilter, tools: Vec<RawJson>) -> (Vec<String>, Option<&'static str>) {
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

/// Rules for `mcp:files/resources/read` apply to reads of resources, and to no tool.
#[test]
fn names_of_protocol_methods_are_refused_with_a_reason() {
    let filter = ToolFilter::default();
    let mut listing = Listing::new(&filter);
    let tools = ["resources/read", "read", "Tools/List", "resources/write", "prompts/get"];
    listing.add_page(tools.map(named).to_vec());
    assert_eq!(listing.cut, None);

    let mut catalogue = listing.finish();
    let names: Vec<_> = catalogue.tools().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["read", "resources/write"]);
    let notices = catalogue.take_findings().notices(Reader::Operator);
    let refused = |tool: &str| {
        format!(
            "tool '{tool}' is refused: its name is that of a protocol method, and rules cannot \
             tell the two apart"
        )
    };
    assert_eq!(notices, ["resources/read", "Tools/List", "prompts/get"].map(refused));
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

fn only(written: &str) -> Option<Tool> {
    let filter = ToolFilter::default();
    let mut listing = Listing::new(&filter);
    listing.add_page(vec![RawJson::parse(written.to_owned()).unwrap()]);
    let catalogue = listing.finish();
    catalogue.tools().next().cloned()
}

#[test]
fn a_definition_is_shown_as_it_was_written() {
    let schema = r#"{ "type":"object", "maximum":12345678901234567890123 }"#;
    let written = format!(
        r#"{{"name":"t","execution":{{"taskSupport":"later"}},"inputSchema":{schema},"new":1.50}}"#
    );
    let kept = only(&written).unwrap();
    assert_eq!(kept.parameters_schema, schema);
    let extra = r#"{"execution":{"taskSupport":"later"},"new":1.50}"#;
    assert_eq!(kept.extra.unwrap().text(), extra);
}

#[test]
fn what_readers_may_read_differently_is_shown_as_it_was_looked_through() {
    let twice = r#"{"name":"t","inputSchema":{},"new":{"a":1,"a":2},"also":0,"also":[]}"#;
    assert_eq!(only(twice).unwrap().extra.unwrap().text(), r#"{"new":{"a":2},"also":[]}"#);
    let hidden = "{\"name\":\"t\",\"inputSchema\":{},\"new\":[ \"a\u{200B}b\" ]}";
    assert_eq!(only(hidden).unwrap().extra.unwrap().text(), r#"{"new":["ab"]}"#);
    assert!(only("{\"name\":\"t\",\"inputSchema\":{},\"n\u{200B}w\":1}").is_none());
}

#[test]
fn what_is_no_tool_costs_no_other() {
    let pages = vec![
        tool(json!({"name": "a"})),
        tool(json!({"name": "b", "title": 1, "inputSchema": {}})),
        tool(json!(7)),
        named("c"),
    ];
    let (names, cut) = listed(&ToolFilter::default(), pages);
    assert_eq!((names, cut), (vec!["c".to_owned()], Some("a tool that cannot be read")));
}

#[test]
fn what_else_a_definition_has_is_pinned() {
    let definition = |written: &str| {
        let filter = ToolFilter::default();
        let mut listing = Listing::new(&filter);
        listing.add_page(vec![RawJson::parse(written.to_owned()).unwrap()]);
        listing.finish().take_definitions().remove(0).1
    };
    let plain = definition(r#"{"name":"t","inputSchema":{}}"#);
    let beside = r#"{"name":"t","inputSchema":{},"_meta":{"a":1},"icons":[],"title":null}"#;
    assert_eq!(definition(beside), plain);
    assert_ne!(definition(r#"{"name":"t","inputSchema":{},"new":"obey"}"#), plain);
}
