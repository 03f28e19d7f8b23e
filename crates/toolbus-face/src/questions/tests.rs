use serde_json::json;

use super::*;

fn asked(capabilities: Value, kind: AskKind, params: Value) -> Option<(String, Value)> {
    let client = serde_json::from_value(capabilities).unwrap();
    let request = client_request(Question { kind, from: None, params, round: None }, &client);
    match request {
        Ok(request) => Some((request.method, request.params.unwrap())),
        Err(error) => {
            assert_eq!(error.code, AskErrorCode::Unsupported);
            None
        }
    }
}

#[test]
fn a_client_is_asked_only_what_it_answers() {
    let check = |capabilities: Value, kind: AskKind, params: Value, method: Option<&str>| {
        let expected = method.map(|method| (method.to_owned(), params.clone()));
        assert_eq!(asked(capabilities.clone(), kind, params), expected, "{capabilities}");
    };
    let form = json!({"message": "name?", "requestedSchema": {"type": "object"}});
    let url = json!({"mode": "url", "message": "go", "url": "a:b", "elicitationId": "1"});
    let sample = json!({"messages": [], "maxTokens": 1});
    let with_tools = json!({"messages": [], "maxTokens": 1, "tools": []});
    let (elicit, create) = (Some("elicitation/create"), Some("sampling/createMessage"));
    use AskKind::{Approval, Elicitation, Roots, Sampling};
    let both = json!({"elicitation": {}, "sampling": {}});
    check(both.clone(), Elicitation, form.clone(), elicit);
    check(both.clone(), Sampling, sample.clone(), create);
    check(both.clone(), Elicitation, url.clone(), None);
    check(both.clone(), Sampling, with_tools.clone(), None);
    check(both.clone(), Approval, json!({}), None);
    check(both.clone(), Roots, json!({}), None);
    check(both, Elicitation, json!("name?"), None);
    check(json!({"roots": {}}), Roots, json!({}), Some("roots/list"));
    let without = asked(json!({"roots": {}}), Roots, Value::Null);
    assert_eq!(without, Some(("roots/list".to_owned(), json!({}))));
    check(json!({"elicitation": {"url": {}}}), Elicitation, url, elicit);
    check(json!({"elicitation": {"url": {}}}), Elicitation, form.clone(), None);
    check(json!({"sampling": {"tools": {}}}), Sampling, with_tools, create);
    check(json!({"sampling": {}}), Elicitation, form, None);
    check(json!({"elicitation": {}}), Sampling, sample, None);
}
