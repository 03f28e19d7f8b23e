use super::*;

fn server() -> McpServerSummary {
    McpServerSummary {
        server_name: "GitHub".to_owned(),
        summary: Some("2 tools: create_issue, delete_repo".to_owned()),
        tool_count: 2,
        tool_names: vec!["create_issue".to_owned(), "delete_repo".to_owned()],
        prompt_count: Some(1),
        prompt_names: Some(vec!["review".to_owned()]),
        resource_count: Some(3),
        features: Some(vec![McpFeature::Completions, McpFeature::ResourceSubscriptions]),
        fingerprint: Some("all".to_owned()),
        tool_fingerprints: Some([("delete_repo".to_owned(), "1".to_owned())].into()),
        read_only_tools: Some(vec!["delete_repo".to_owned()]),
        idempotent_tools: Some(vec!["delete_repo".to_owned()]),
        destructive_tools: Some(vec!["delete_repo".to_owned()]),
        ..McpServerSummary::default()
    }
}

fn seen(view: &View) -> McpServerSummary {
    seen_summary(&server(), view).expect("it is seen").into_owned()
}

fn without(patterns: &[&str]) -> View {
    View::all().without(patterns.iter().copied())
}

fn only(patterns: &[&str]) -> View {
    View::all().only(patterns.iter().copied())
}

#[test]
fn whoever_sees_everything_sees_a_server_as_it_is() {
    assert_eq!(seen(&View::all()), server());
}

#[test]
fn a_tool_that_is_not_seen_is_in_no_list_count_or_digest() {
    let seen = seen(&without(&["mcp:github/delete_repo"]));
    assert_eq!((seen.tool_count, &*seen.tool_names), (1, &["create_issue".to_owned()][..]));
    assert_eq!((seen.prompt_count, seen.resource_count), (Some(1), Some(3)));
    let told = serde_json::to_string(&seen).unwrap();
    assert!(!told.contains("delete_repo") && !told.contains("all"), "{told}");
}

#[test]
fn prompts_and_resources_are_seen_where_their_reads_are() {
    let none = seen(&without(&["mcp:github/prompts/*", "mcp:github/resources/*", "*/complete"]));
    assert_eq!((none.prompt_count, none.prompt_names, none.resource_count), (None, None, None));
    assert_eq!((none.tool_count, none.features), (2, Some(vec![])));

    let resources = seen(&only(&["mcp:github/resources/read"]));
    assert_eq!((resources.prompt_names, resources.resource_count), (None, Some(3)));
    assert_eq!((resources.tool_count, resources.features), (0, Some(vec![])));
    let prompts = seen(&only(&["mcp:github/prompts/get"]));
    assert_eq!((prompts.prompt_count, prompts.resource_count), (Some(1), None));
}

#[test]
fn a_server_of_which_nothing_is_seen_is_not_there() {
    for view in [without(&["mcp:github/*"]), only(&["mcp:notes/*", "mcp:management/*"])] {
        assert_eq!(seen_summary(&server(), &view), None);
    }
    let reads = ["mcp:github/create_issue", "mcp:github/delete_repo"];
    let bare = McpServerSummary { prompt_count: None, resource_count: None, ..server() };
    assert_eq!(seen_summary(&bare, &without(&reads)), None, "it has no other tools");

    let empty = McpServerSummary { server_name: "GitHub".to_owned(), ..Default::default() };
    assert!(seen_summary(&empty, &without(&["mcp:notes/*"])).is_some(), "it cannot be reached");
    assert_eq!(seen_summary(&empty, &without(&["mcp:github/*"])), None);
}
