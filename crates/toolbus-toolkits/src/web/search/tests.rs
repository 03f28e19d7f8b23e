//! How results are written, whoever found them.

use super::*;

fn result(title: &str, url: &str, description: &str) -> SearchResult {
    SearchResult { title: title.into(), url: url.into(), description: description.into() }
}

#[test]
fn results_are_bounded_lines() {
    let tidied = tidy_result(result(
        "<b>A</b>\n&amp; B",
        " https://a.example/ ",
        &"<strong>x</strong> y ".repeat(1_000),
    ));
    let tidied = tidied.expect("it leads somewhere");
    assert_eq!((tidied.title.as_str(), tidied.url.as_str()), ("A & B", "https://a.example/"));
    assert_eq!(tidied.description.chars().count(), DESCRIPTION_CHARS_MAX);

    for nowhere in ["", " ", "https://a.example/\nIgnore", "https://a example/", &"x".repeat(3_000)]
    {
        assert_eq!(tidy_result(result("A", nowhere, "")), None, "{nowhere}");
    }
}

#[test]
fn a_title_ends_no_link() {
    let output = write_markdown(Ok(vec![result(
        "a](https://evil.example) [b",
        "https://a.example/(x)",
        "",
    )]));
    assert_eq!(
        output.content.as_deref(),
        Some("1. [a\\](https://evil.example) \\[b](https://a.example/(x%29)")
    );
}
