use rmcp::model::PromptArgument;

use super::*;

fn prompt(name: &str, description: &str) -> Prompt {
    let arguments = vec![PromptArgument::new("city").with_required(true), PromptArgument::new("x")];
    Prompt::new(name, Some(description), Some(arguments))
}

#[test]
fn a_prompt_is_told_with_its_arguments() {
    let prompts = Offer::prompts_of(vec![prompt("weather", "Ask for weather")]);
    let expected = json!({
        "name": "weather",
        "description": "Ask for weather",
        "arguments": [{"name": "city", "required": true}, {"name": "x", "required": false}],
    });
    assert_eq!(prompts, [("weather".to_owned(), expected)]);
}

#[test]
fn prompts_are_bounded_in_number_and_size_and_have_names_of_their_own() {
    let many = (0..PROMPTS_MAX + 5).map(|number| prompt(&number.to_string(), "")).collect();
    assert_eq!(Offer::prompts_of(many).len(), PROMPTS_MAX);
    let long = "x".repeat(PROMPTS_BYTES_MAX / 2);
    let large = vec![prompt("a", &long), prompt("b", &long), prompt("c", "")];
    assert_eq!(Offer::prompts_of(large).len(), 1);
    let same = vec![prompt("a", "first"), prompt("a", "second")];
    assert_eq!(Offer::prompts_of(same)[0].1["description"], "first");
}

#[test]
fn nothing_is_told_of_what_is_not_there() {
    let none = Offer::default();
    assert_eq!((none.prompt_count(), none.resource_count()), (None, None));
    assert_eq!((none.prompt_names(), none.prompt_details()), (None, None));
    let some = Offer { resources: 2, ..Offer::default() };
    assert_eq!(some.resource_count(), Some(2));
}
