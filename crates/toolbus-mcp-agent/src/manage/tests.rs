use toolbus_wire::message::mcp::McpToolDetails;

use super::*;

fn page(tools: usize) -> McpGetServiceDetailsResponse {
    McpGetServiceDetailsResponse {
        tools: vec![McpToolDetails::default(); tools],
        tools_next: Some(1),
        ..McpGetServiceDetailsResponse::default()
    }
}

#[test]
fn the_pages_of_details_have_limits_together() {
    let mut pages = DetailsPages { details: page(DETAILS_TOOLS_MAX - 2), bytes: 0 };
    assert_eq!(pages.add(page(1), DETAILS_BYTES_MAX - 1), Ok(()));
    assert_eq!(pages.details.tools.len(), DETAILS_TOOLS_MAX - 1);
    assert_eq!(pages.add(page(2), 1), Err(format!("{DETAILS_TOOLS_MAX} tools")));
    assert_eq!(pages.add(page(1), 1), Err(format!("{DETAILS_BYTES_MAX} bytes")));
}
