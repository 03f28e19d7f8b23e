use super::*;

fn page(servers: &[&str]) -> Page {
    let servers = servers.iter().map(|&name| name.to_owned()).collect();
    Page { title: "Toolbus 1, agent A".to_owned(), servers, more: 0 }
}

#[test]
fn names_of_servers_are_written_so_that_they_are_names_only() {
    let page = page(&["a/b <script>\"", "time"]);
    let html = page.to_html();
    assert!(html.contains("<code>/mcp/time</code> the MCP server time</li>"), "{html}");
    let path = "/mcp/a%2Fb%20%3Cscript%3E%22";
    let name = "the MCP server a/b &lt;script&gt;&quot;";
    assert!(html.contains(&format!("<code>{path}</code> {name}</li>")), "{html}");
    assert!(page.to_text().contains(&format!("  {path}  the MCP server a/b")));
}

#[test]
fn a_page_says_how_many_servers_it_leaves_out() {
    let page = Page { more: 3, ..page(&["time"]) };
    assert!(page.to_text().contains("\n3 more servers are not listed.\n"));
    assert!(!Page { more: 0, ..page }.to_text().contains("more"));
}

#[test]
fn who_asks_for_html_gets_it() {
    let check = |accept: &str, expected: bool| {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accept.parse().unwrap());
        assert_eq!(prefers_html(&headers), expected, "{accept}");
    };
    check("text/html,application/xhtml+xml,*/*;q=0.8", true);
    check("text/plain, Text/HTML; q=0.5", true);
    check("*/*", false);
    check("text/html;q=0, text/plain", false);
    check("application/json, text/event-stream", false);
    assert!(!prefers_html(&HeaderMap::new()));
}
