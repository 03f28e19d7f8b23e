//! Which addresses are of issues and pull requests.

use super::*;

fn api(url: &str) -> Option<String> {
    let base = Url::parse("https://api.github.com").expect("a URL");
    GitHubItem::parse(url).map(|item| item.url(&base).to_string())
}

#[test]
fn addresses_are_those_of_the_specification() {
    let issue = Some("https://api.github.com/repos/o/r.x/issues/12".to_owned());
    for url in [
        "https://github.com/o/r.x/issues/12",
        "http://github.com/o/r.x/issues/12",
        "HTTPS://GitHub.com/o/r.x/Issues/12",
        "https://github.com/o/r.x/issues/12#issuecomment-1",
        "https://github.com/o/r.x/issues/12?x=y",
    ] {
        assert_eq!(api(url), issue, "{url}");
    }
    let pull = api("https://github.com/o/r/pull/3/files");
    assert_eq!(pull.as_deref(), Some("https://api.github.com/repos/o/r/pulls/3"));

    for url in [
        "https://www.github.com/o/r/issues/12",
        "https://github.com.evil.example/o/r/issues/12",
        "https://github.com/o/r/issues",
        "https://github.com/o/r/issues/x",
        "https://github.com/o/r/issues/99999999999999999999",
        "https://github.com/o/r/pulls/1",
        "https://github.com/../r/issues/1",
        "https://github.com/o/%2e%2e/issues/1",
        "https://github.com/o?x/r/issues/1",
        "https://x.example/https://github.com/o/r/issues/12",
        "github.com/o/r/issues/12",
    ] {
        assert_eq!(api(url), None, "{url}");
    }
}
