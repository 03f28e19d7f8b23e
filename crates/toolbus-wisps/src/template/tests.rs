use std::collections::HashMap;

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Results by the ids of steps.
struct Given(HashMap<&'static str, String>);

impl Results for Given {
    fn result(&self, step: &str) -> Option<&str> {
        self.0.get(step).map(String::as_str)
    }

    fn output_key(&self, step: &str) -> String {
        format!("wisp/wisp-1/{step}/output")
    }
}

fn given(results: &[(&'static str, &str)]) -> Given {
    Given(results.iter().map(|(step, result)| (*step, (*result).to_owned())).collect())
}

fn check(text: &str, expected: &str) {
    let given = given(&[
        ("a", "say \"hi\"\n{{steps.b.result}}"),
        ("b", r#"{"x": {"y": [1, "two", null]}, "n": 7, "dotted.name": 1}"#),
    ]);
    let filled = Filler::new(&given, 10_000).fill_text(text);
    let told = filled.unwrap_or_else(|error| format!("error: {error}"));
    assert_eq!(told, expected, "{text}");
}

#[test]
fn texts_are_filled_in_once() {
    check("plain", "plain");
    check("<{{steps.a.result}}>", "<say \"hi\"\n{{steps.b.result}}>");
    check("{{ steps.b.result.x.y.1 }} and {{steps.b.result.n}}", "two and 7");
    check("{{steps.b.result.x}}", r#"{"y":[1,"two",null]}"#);
    check("{{steps.a.output_to}}", "wisp/wisp-1/a/output");
    check("{{{steps.b.result.n}}}", "{7}");
}

#[test]
fn other_braces_are_text() {
    for text in ["{{name}}", "{{ user.steps }}", "{{", "}}", "{{{{", "f'{x}'", "{{é", "{{stéps.a}}"]
    {
        check(text, text);
    }
}

#[test]
fn what_is_not_there_is_told() {
    check("{{steps.c.result}}", "error: step 'c' has no result: it failed or was skipped");
    check(
        "{{steps.a.result.x}}",
        "error: the result of step 'a' is not JSON, so nothing is at a path in it",
    );
    check("{{steps.b.result.x.z}}", "error: the result of step 'b' has nothing at 'x.z'");
    check("{{steps.b.result.x.y.3}}", "error: the result of step 'b' has nothing at 'x.y.3'");
    check("{{steps.b.result.n.n}}", "error: the result of step 'b' has nothing at 'n.n'");
}

#[test]
fn what_means_a_step_and_is_none_is_malformed() {
    let instead = |text: &str| parse(text).expect_err(text).instead;
    assert!(instead("{{steps.a}}").contains("{{steps.a.result}}"));
    assert!(instead("{{steps.a.output}}").contains("{{steps.a.output_to}}"));
    assert!(instead("{{step.a.result}}").contains("{{steps.a.result}}"));
    assert!(instead("{{Steps.a.result}}").contains("{{steps.a.result}}"));
    assert!(instead("{{steps..result}}").contains("{{steps.ID.result}}"));
    assert!(instead("{{steps.a.result.}}").contains("between every two dots"));
    assert!(instead("{{steps.a.output_to.x}}").contains("output_to"));
    assert_eq!(instead("{{steps.a.result"), "Close it with }}");
    assert_eq!(instead(&format!("{{{{steps.{}}}}}", "a".repeat(600))), "Close it with }}");
    assert!(instead(&format!("{{{{steps.a.result{}}}}}", ".a".repeat(17))).contains("16 parts"));
}

#[test]
fn values_are_filled_in_wherever_texts_are() {
    let given = given(&[("a", "say \"hi\""), ("b", r#"{"list": [1, 2], "text": "t"}"#)]);
    let value = json!({
        "quote": "<{{steps.a.result}}>", "list": "{{steps.b.result.list}}",
        "text": "{{steps.b.result.text}}", "whole": "{{steps.b.result}}",
        "deep": [{"n": "{{steps.b.result.list.0}}"}, 5, null],
    });
    let filled = Filler::new(&given, 10_000).fill_value(&value).unwrap();
    let expected = json!({
        "quote": "<say \"hi\">", "list": [1, 2], "text": "t",
        "whole": r#"{"list": [1, 2], "text": "t"}"#, "deep": [{"n": 1}, 5, null],
    });
    assert_eq!(filled, expected);
    // What a result holds is escaped where the arguments become JSON.
    assert!(filled.to_string().contains(r#""<say \"hi\">""#));
}

#[test]
fn what_is_filled_in_is_counted_before() {
    let given = given(&[("a", &"x".repeat(1_000)), ("b", r#"{"list": [1, 2, 3, 4, 5, 6, 7]}"#)]);
    let fill = |text: &str| Filler::new(&given, 10_000).fill_value(&json!([text]));
    assert!(fill(&"{{steps.a.result}}".repeat(10)).is_ok());
    assert_eq!(fill(&"{{steps.a.result}}".repeat(11)), Err(FillError::TooLarge(10_000)));

    // Small values count, too, for each takes memory.
    let lists: Vec<_> = (0..1_000).map(|_| "{{steps.b.result.list}}").collect();
    let filled = Filler::new(&given, 10_000).fill_value(&json!(lists));
    assert_eq!(filled, Err(FillError::TooLarge(10_000)));
}

#[test]
fn a_result_of_very_many_values_is_not_opened() {
    let many = format!("[{}0]", "0,".repeat(VALUES_MAX));
    let given = given(&[("a", &many)]);
    let filled = Filler::new(&given, 1 << 20).fill_text("{{steps.a.result.0}}");
    assert_eq!(filled, Err(FillError::NotJson("a".to_owned())));
}

proptest! {
    /// Whatever a text is, it is read without a panic, and its pieces are all of it.
    #[test]
    fn any_text_is_read(text in r"([{}. a-zé]|steps\.|\{\{|\}\}|result|output_to){0,40}") {
        if let Ok(pieces) = parse(&text) {
            let texts = pieces.iter().map(|piece| match piece {
                Piece::Text(text) => text.len(),
                Piece::Reference(_) => 4,
            });
            prop_assert!(texts.sum::<usize>() <= text.len());
            let has_none = pieces.iter().all(|piece| matches!(piece, Piece::Text(_)));
            if has_none {
                let joined: String = pieces.iter().map(|piece| match piece {
                    Piece::Text(text) => *text,
                    Piece::Reference(_) => "",
                }).collect();
                prop_assert_eq!(joined, text);
            }
        }
    }

    /// What a result holds comes out as it is, and no longer than may be.
    #[test]
    fn results_come_through(result in ".{0,60}", times in 0_usize..40) {
        let given = Given(HashMap::from([("a", result.clone())]));
        let text = "{{steps.a.result}}".repeat(times);
        match Filler::new(&given, 1_000).fill_text(&text) {
            Ok(filled) => prop_assert_eq!(filled, result.repeat(times)),
            Err(error) => {
                prop_assert_eq!(error, FillError::TooLarge(1_000));
                prop_assert!(result.len() * times > 1_000);
            }
        }
    }
}
