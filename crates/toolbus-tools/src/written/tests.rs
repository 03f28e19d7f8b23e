use serde_json::json;

use super::*;

fn of_params(written: &str, arguments: &Value) -> String {
    let written = RawJson::parse(written.to_owned()).unwrap();
    params_of(Some(&Written::Params(written)), "add", arguments).to_string()
}

#[test]
fn arguments_go_as_they_were_written() {
    let large = "12345678901234567890123";
    let arguments = json!({"n": large.parse::<f64>().unwrap()});
    let expected = format!(r#"{{"name":"add","arguments":{{"n":{large}}},"_meta":{{"a":1.50}}}}"#);
    let called = expected.replace("add", "notes__add");
    assert_eq!(of_params(&called, &arguments), expected);

    let expected = format!(r#"{{"name":"add","arguments":{{"n":{large}}}}}"#);
    let wrapped = format!(r#"{{"tool_name":"add","arguments":{{"n":{large}}}}}"#);
    let called = format!(r#"{{"name":"mcp_invoke_tool","arguments":{wrapped}}}"#);
    assert_eq!(of_params(&called, &arguments), expected);
    let told = params_of(Some(&Written::Arguments(wrapped)), "add", &arguments);
    assert_eq!(told.to_string(), expected);
}

/// A gate has seen the last of two members, and a server may take the first.
#[test]
fn what_no_gate_has_seen_goes_nowhere() {
    let seen = json!({"path": "/tmp"});
    let expected = r#"{"name":"add","arguments":{"path":"/tmp"}}"#;
    for written in [
        r#"{"name":"add","arguments":{"path":"/etc","path":"/tmp"}}"#,
        r#"{"name":"add","arguments":{"path":"/etc"}}"#,
        r#"{"name":"add"}"#,
    ] {
        assert_eq!(of_params(written, &seen), expected, "{written}");
    }
    assert_eq!(params_of(None, "add", &seen).text(), expected);
}
