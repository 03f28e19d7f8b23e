use super::*;

fn tools(count: usize) -> Vec<Tool> {
    (0..count).map(|number| Tool::new(format!("t{number}"), "", any_object())).collect()
}

/// The sizes of all pages of a list, and whether they have every tool once and in order.
fn check_pages(count: usize, expected: &[usize]) {
    let tools = tools(count);
    let (mut sizes, mut seen, mut cursor) = (Vec::new(), Vec::new(), None);
    loop {
        let result = list_page(&tools, cursor.as_deref()).unwrap();
        sizes.push(result.tools.len());
        seen.extend(result.tools);
        cursor = result.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(sizes, expected);
    assert_eq!(seen, tools);
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
    let error = list_page(&tools(3), Some("gone")).unwrap_err();
    assert_eq!(error.code, rmcp::model::ErrorCode::INVALID_PARAMS);
}

#[test]
fn a_tool_keeps_its_schema_and_one_without_takes_everything() {
    let check = |schema: Option<&str>, expected: Value| {
        let tool = of_server(McpToolDetails {
            name: "t".to_owned(),
            description: "d".to_owned(),
            parameters_schema: schema.map(str::to_owned),
            ..McpToolDetails::default()
        });
        assert_eq!(Value::Object((*tool.input_schema).clone()), expected);
    };
    let schema = r#"{"type":"object","$defs":{"a":{}},"if":{},"additionalProperties":false}"#;
    check(Some(schema), serde_json::from_str(schema).unwrap());
    for schema in [None, Some("[1]"), Some("{")] {
        check(schema, json!({"type": "object"}));
    }
}

#[test]
fn a_tool_is_as_rich_as_its_server_has_it() {
    let told = json!({
        "name": "t",
        "description": "d",
        "parametersSchema": {"type": "object"},
        "title": "T",
        "outputSchema": {"type": "array", "items": {}},
        "annotations": {"readOnlyHint": true, "title": "U"},
        "icons": [{"src": "https://pages.example/t.png", "sizes": ["any"]}],
    });
    let mut tools = [of_server(serde_json::from_value(told.clone()).unwrap())];
    let mut expected = told;
    expected["inputSchema"] = expected.as_object_mut().unwrap().remove("parametersSchema").unwrap();
    assert_eq!(serde_json::to_value(&tools[0]).unwrap(), expected);
    for_the_older_era(&mut tools);
    expected.as_object_mut().unwrap().remove("outputSchema");
    assert_eq!(serde_json::to_value(&tools[0]).unwrap(), expected);

    let odd = McpToolDetails {
        output_schema: Some("[1]".to_owned()),
        annotations: Some(json!("odd")),
        icons: Some(json!({"odd": 1})),
        ..McpToolDetails::default()
    };
    let tool = of_server(odd);
    assert_eq!((tool.output_schema, tool.annotations, tool.icons), (None, None, None));
}

#[test]
fn a_catalogue_is_asked_for_again_only_when_the_list_is_another() {
    let never_asked = ListedTools::default();
    assert!(never_asked.is_outdated(None));
    assert!(never_asked.is_outdated(Some(1)));

    let listed = ListedTools { tools: Arc::new(tools(2)), revision: Some(1) };
    assert!(!listed.is_outdated(Some(1)));
    assert!(listed.is_outdated(Some(2)));
    assert!(listed.is_outdated(None), "the server is not announced");
    assert!(listed.find("t1").is_some() && listed.find("t2").is_none());
}
