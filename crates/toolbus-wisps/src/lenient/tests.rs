use super::*;

fn check(arguments: Value, expected: Value) {
    let Value::Object(mut members) = arguments.clone() else { panic!("an object") };
    coerce(&mut members, &WispsConfig::default());
    assert_eq!(Value::Object(members), expected, "{arguments}");
}

#[test]
fn lists_objects_and_their_texts_are_the_same() {
    let one = json!({"description": "d", "steps": [{"id": "a"}]});
    let expected = json!({"definitions": [one]});
    check(json!({"definitions": [one]}), expected.clone());
    check(json!({"definitions": one}), expected.clone());
    check(one.clone(), expected.clone());
    check(json!({"definitions": one.to_string()}), expected.clone());
    check(json!({"definitions": [one.to_string()]}), expected.clone());
    check(json!({"definitions": json!([one]).to_string()}), expected.clone());
    check(json!({"definitions": json!([one.to_string()]).to_string()}), expected.clone());
    let steps = json!({"description": "d", "steps": json!({"id": "a"}).to_string()});
    check(json!({"definitions": [steps]}), expected.clone());
    let steps = json!({"description": "d", "steps": [json!({"id": "a"}).to_string()]});
    check(json!({"definitions": [steps]}), expected);
}

#[test]
fn members_of_steps_are_forgiven() {
    let check = |step: Value, expected: Value| {
        check(json!({"steps": [step]}), json!({"definitions": [{"steps": [expected]}]}));
    };
    check(json!({"input": {"q": 1}}), json!({"params": {"q": 1}}));
    check(json!({"arguments": "{\"q\": 1}"}), json!({"params": {"q": 1}}));
    check(json!({"input_from": "{\"q\": 1}"}), json!({"params": {"q": 1}}));
    check(json!({"input_from": "a", "params": null}), json!({"input_from": "a"}));
    check(json!({"on_failure": "abort"}), json!({"on_failure": {"action": "abort"}}));
    let on_failure = json!({"on_failure": {"action": "abort", "skip_to": ""}});
    check(on_failure, json!({"on_failure": {"action": "abort"}}));
    check(json!({"timeout_minutes": "2"}), json!({"timeout_minutes": 2.0}));
    check(json!({"server": " ", "tool": null, "id": "a"}), json!({"id": "a"}));
    // Both are there, which is for the check to tell.
    let both = json!({"params": {}, "input": {"q": 1}});
    check(both.clone(), both);
}

#[test]
fn names_of_tools_may_be_a_text() {
    let definition = |tools: Value| json!({"definitions": [{"tools": tools}]});
    check(definition(json!("web_search, a/b,")), definition(json!(["web_search", "a/b"])));
    check(definition(json!("[\"a\"]")), definition(json!(["a"])));
}

#[test]
fn what_cannot_be_forgiven_stays() {
    for definitions in [json!("no JSON"), json!("[1"), json!(5), json!("{\"steps\": ")] {
        check(json!({"definitions": definitions}), json!({"definitions": [definitions]}));
    }
    check(json!({"other": 1}), json!({"other": 1}));
    let large = json!({"definitions": format!("[\"{}\"]", "x".repeat(1 << 20))});
    check(large.clone(), large);
}
