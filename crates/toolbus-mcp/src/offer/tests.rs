use serde_json::json;

use super::*;

fn prompt(name: &str, description: &str) -> RawJson {
    let arguments = json!([{"name": "city", "required": true}, {"name": "x"}]);
    RawJson::of(&json!({"name": name, "description": description, "arguments": arguments}))
}

fn description(offer: &Offer) -> Value {
    serde_json::from_str::<Value>(offer.prompts[0].1.text()).unwrap()["description"].take()
}

#[test]
fn a_prompt_is_told_with_its_arguments() {
    let prompts = Offer::prompts_of(vec![prompt("weather", "Ask for weather")]).prompts;
    let expected = json!({
        "name": "weather",
        "description": "Ask for weather",
        "arguments": [{"name": "city", "required": true}, {"name": "x"}],
    });
    assert_eq!(prompts, [("weather".to_owned(), RawJson::of(&expected))]);
}

#[test]
fn prompts_are_bounded_in_number_and_size_and_have_names_of_their_own() {
    let many = (0..PROMPTS_MAX + 5).map(|number| prompt(&number.to_string(), "")).collect();
    assert_eq!(Offer::prompts_of(many).prompts.len(), PROMPTS_MAX);
    let long = "x".repeat(PROMPTS_BYTES_MAX / 2);
    let large = vec![prompt("a", &long), prompt("b", &long), prompt("c", "")];
    assert_eq!(Offer::prompts_of(large).prompts.len(), 1);
    let named = |name: String| Offer::prompts_of(vec![prompt(&name, "")]).prompts.len();
    let longest = "x".repeat(PROMPT_NAME_BYTES_MAX);
    assert_eq!((named(longest.clone()), named(longest + "x"), named(String::new())), (1, 0, 0));
    let same = vec![prompt("a", "first"), prompt("a", "second")];
    assert_eq!(description(&Offer::prompts_of(same)), "first");
}

#[test]
fn what_is_hidden_in_a_prompt_is_taken_out_and_told() {
    let tags = "\u{E0068}\u{E0069}";
    let hidden = prompt("weather", &format!("Ask\u{200B}{tags}\u{7} for weather"));
    let offer = Offer::prompts_of(vec![hidden, prompt("wea\u{200B}ther", "x")]);
    assert_eq!(offer.prompts.len(), 1);
    assert_eq!(description(&offer), "Ask for weather");
    let notices = offer.findings.notices(crate::trust::findings::Reader::Operator);
    let expected = [
        "prompt 'wea\\u{200b}ther' is refused: hidden characters in a name",
        "hidden characters were taken out of prompt 'weather': 1 control, 1 zero-width, 2 tag",
    ];
    assert_eq!(notices, expected);
}

#[test]
fn nothing_is_told_of_what_is_not_there() {
    let none = Offer::default();
    assert_eq!((none.prompt_count(), none.resource_count()), (None, None));
    assert_eq!((none.prompt_names(), none.prompt_details()), (None, None));
    let some = Offer { resources: 2, ..Offer::default() };
    assert_eq!(some.resource_count(), Some(2));
}

#[test]
fn a_prompt_is_shown_as_it_was_written() {
    let written = r#"{"name":"p","new":{ "n":12345678901234567890123 },"_meta":{"a":1.50}}"#;
    let offer = Offer::prompts_of(vec![RawJson::parse(written.to_owned()).unwrap()]);
    assert_eq!(offer.prompts[0].1.text(), written);
    for odd in [json!({}), json!(1), json!({"name": "p", "arguments": [{}]})] {
        assert!(Offer::prompts_of(vec![RawJson::of(&odd)]).prompts.is_empty(), "{odd}");
    }
}
