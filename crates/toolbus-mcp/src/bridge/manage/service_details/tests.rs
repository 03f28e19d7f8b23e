use toolbus_wire::message::mcp::{McpGetServiceDetailsResponse, McpToolDetails};

use super::{PAGE_BYTES_MAX, page_of};

fn details(tools: &[(&str, usize)]) -> McpGetServiceDetailsResponse {
    let tools = tools.iter().map(|(name, bytes)| McpToolDetails {
        name: (*name).to_owned(),
        description: "x".repeat(*bytes),
        ..McpToolDetails::default()
    });
    McpGetServiceDetailsResponse {
        server_name: "s".to_owned(),
        tools: tools.collect(),
        instructions: Some("Be kind.".to_owned()),
        ..McpGetServiceDetailsResponse::default()
    }
}

#[test]
fn pages_have_every_tool_once_and_the_rest_is_on_the_first() {
    let half = PAGE_BYTES_MAX / 2;
    let all = details(&[("a", 10), ("b", half), ("c", half), ("d", 2 * PAGE_BYTES_MAX), ("e", 1)]);
    let mut next = Some(0);
    let mut pages = Vec::new();
    while let Some(from) = next {
        let page = page_of(all.clone(), from);
        assert_eq!(page.instructions.is_some(), from == 0);
        assert_eq!(page.server_name, "s");
        pages.push(page.tools.iter().map(|tool| tool.name.clone()).collect::<Vec<_>>());
        next = page.tools_next;
    }
    assert_eq!(pages, [vec!["a", "b"], vec!["c"], vec!["d"], vec!["e"]]);
}

#[test]
fn a_page_past_the_end_is_empty_and_the_last() {
    for from in [1, u32::MAX] {
        let page = page_of(details(&[("a", 1)]), from);
        assert_eq!((page.tools.len(), page.tools_next), (0, None));
    }
    assert_eq!(page_of(details(&[]), 0).tools_next, None);
}
