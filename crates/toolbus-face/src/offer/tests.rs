use super::*;

fn tools(count: usize) -> Vec<ListedTool> {
    let listed = |number| {
        let name = format!("t{number}");
        let definition = RawJson::of(&json!({"name": name, "inputSchema": {}}));
        ListedTool { name, definition }
    };
    (0..count).map(listed).collect()
}

/// The sizes of all pages of a list, and whether they have every tool once and in order.
fn check_pages(count: usize, expected: &[usize]) {
    let tools = tools(count);
    let (mut sizes, mut seen, mut cursor) = (Vec::new(), Vec::new(), None);
    loop {
        let page = list_page(&tools, cursor.as_deref(), Era::Older).unwrap();
        let page: Value = serde_json::from_str(page.text()).unwrap();
        let listed = page["tools"].as_array().unwrap();
        sizes.push(listed.len());
        seen.extend(listed.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
        cursor = page.get("nextCursor").map(|cursor| cursor.as_str().unwrap().to_owned());
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(sizes, expected);
    assert_eq!(seen, tools.into_iter().map(|tool| tool.name).collect::<Vec<_>>());
}

#[test]
fn pages_have_every_tool_once() {
    check_pages(0, &[0]);
    check_pages(1, &[1]);
    check_pages(PAGE, &[PAGE]);
    check_pages(PAGE + 1, &[PAGE, 1]);
    check_pages(3 * PAGE, &[PAGE, PAGE, PAGE]);
}

#[test]
fn a_cursor_of_nobody_is_refused() {
    let error = list_page(&tools(3), Some("gone"), Era::Older).unwrap_err();
    assert_eq!(error.code, rmcp::model::ErrorCode::INVALID_PARAMS);
}

#[test]
fn a_tool_of_a_server_is_shown_as_it_was_written_under_its_name_here() {
    let written = r#"{"name":"t","inputSchema":{"maximum":1.50},"new":[ ],"_meta":{"a":1}}"#;
    let tool = toolbus_tools::Tool {
        mcp_definition: RawJson::parse(written.to_owned()).ok(),
        ..toolbus_tools::Tool::new("s__t", "", "mcp:s")
    };
    let listed = ListedTool::of_agent(&tool);
    assert_eq!(listed.definition.text(), written.replace(r#""t""#, r#""s__t""#));
    assert_eq!(listed.to_tool().unwrap().name, "s__t");
}

#[test]
fn clients_of_the_older_era_are_shown_no_values_but_objects() {
    let tool = |schema: Value| {
        let definition = json!({"name": "t", "inputSchema": {}, "outputSchema": schema});
        ListedTool { name: "t".to_owned(), definition: RawJson::of(&definition) }
    };
    for (schema, is_of_object) in
        [(json!({"type": "array"}), false), (json!({"type": "object"}), true)]
    {
        let shown = |era| tool(schema.clone()).for_era(era).member("outputSchema").is_some();
        assert_eq!((shown(Era::Older), shown(Era::Stateless)), (is_of_object, true));
    }
}

#[test]
fn a_catalogue_is_asked_for_again_only_when_the_list_is_another() {
    let never_asked = ListedTools::default();
    assert!(never_asked.is_outdated(None));
    assert!(never_asked.is_outdated(Some(1)));

    let listed =
        ListedTools { tools: Arc::new(tools(2)), revision: Some(1), ..ListedTools::default() };
    assert!(!listed.is_outdated(Some(1)));
    assert!(listed.is_outdated(Some(2)));
    assert!(listed.is_outdated(None), "the server is not announced");
    assert!(listed.find("t1").is_some() && listed.find("t2").is_none());
}
