use super::*;

fn check(told: Value, expected: Value) {
    let definition = definition_of(&serde_json::from_value(told).unwrap());
    assert_eq!(serde_json::from_str::<Value>(definition.text()).unwrap(), expected);
}

#[test]
fn a_tool_keeps_its_schema_and_one_without_takes_everything() {
    let schema = r#"{"type":"object","$defs":{"a":{}},"if":{},"maximum":1.50}"#;
    let tool = |schema: Option<&str>| {
        definition_of(&McpToolDetails {
            name: "t".to_owned(),
            parameters_schema: schema.map(str::to_owned),
            ..McpToolDetails::default()
        })
    };
    assert_eq!(tool(Some(schema)).member("inputSchema").unwrap().text(), schema);
    for schema in [None, Some("[1]"), Some("{")] {
        assert_eq!(tool(schema).text(), r#"{"name":"t","inputSchema":{"type":"object"}}"#);
    }
}

#[test]
fn a_tool_is_as_rich_as_its_server_has_it() {
    let mut told = json!({
        "name": "t",
        "description": "d",
        "parametersSchema": {"type": "object"},
        "title": "T",
        "outputSchema": {"type": "array", "items": {}},
        "annotations": {"readOnlyHint": true, "title": "U", "newHint": 1},
        "icons": [{"src": "https://pages.example/t.png", "sizes": ["any"]}],
        "meta": {"a": 1},
        "extraMembers": {"execution": {"taskSupport": "optional"}, "name": "u"},
    });
    let mut expected = told.clone();
    expected["inputSchema"] = expected.as_object_mut().unwrap().remove("parametersSchema").unwrap();
    expected["_meta"] = expected.as_object_mut().unwrap().remove("meta").unwrap();
    expected["execution"] = expected["extraMembers"]["execution"].take();
    expected.as_object_mut().unwrap().remove("extraMembers");
    check(told.clone(), expected);

    told["outputSchema"] = json!("[1]");
    told["annotations"] = json!("odd");
    told["icons"] = json!({"odd": 1});
    told["meta"] = json!(1);
    told["extraMembers"] = json!([1]);
    let plain =
        json!({"name": "t", "title": "T", "description": "d", "inputSchema": {"type": "object"}});
    check(told, plain);
}
