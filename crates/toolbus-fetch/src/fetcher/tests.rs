//! Where redirects may lead, as far as that can be said without a connection.

use super::*;

fn next(from: &str, location: &str, has_credentials: bool) -> Result<String, String> {
    let from = Url::parse(from).expect("a URL");
    let location = HeaderValue::from_bytes(location.as_bytes()).expect("a header");
    let next = next_url(&from, &location, has_credentials).map_err(|error| error.to_string())?;
    check_form(&next).map(|()| next.to_string()).map_err(|error| error.to_string())
}

#[test]
fn credentials_never_go_from_https_to_http() {
    let refused = next("https://a.example/x", "http://a.example/x", true).expect_err("refused");
    assert!(refused.contains("from https to http"), "{refused}");
    assert!(next("https://a.example/x", "//a.example/y", true).is_ok());
    assert!(next("https://a.example/x", "http://a.example/x", false).is_ok());
    assert!(next("http://a.example/x", "https://a.example/x", true).is_ok());
}

#[test]
fn addresses_of_redirects_are_resolved_and_checked() {
    let check = |location: &str, expected: Result<&str, &str>| {
        let found = next("https://a.example/x/y?q", location, false);
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(found), Err(part)) => assert!(found.contains(part), "{found}"),
            (found, expected) => panic!("{location}: {found:?}, not {expected:?}"),
        }
    };
    check("z", Ok("https://a.example/x/z"));
    check("/z", Ok("https://a.example/z"));
    check("//b.example", Ok("https://b.example/"));
    check("file:///etc/passwd", Err("scheme 'file'"));
    check("gopher://127.0.0.1:25/", Err("scheme 'gopher'"));
    check("http://user:secret@b.example/", Err("user name"));
    check("http://[::1", Err("none"));
    check(&format!("/{}", "x".repeat(9_000)), Err("more than 8192"));
}
