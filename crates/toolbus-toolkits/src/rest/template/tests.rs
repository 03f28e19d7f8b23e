//! What arguments make of addresses, and what they cannot.

use serde_json::json;
use toolbus_testkit::memory::peak_bytes;

use super::*;

fn expand(template: &str, arguments: Value) -> Result<String, ExpandError> {
    let template = UrlTemplate::parse(template).expect(template);
    let Value::Object(arguments) = arguments else { panic!("an object") };
    template.expand(&arguments).map(|url| url.to_string())
}

fn check(template: &str, arguments: Value, expected: &str) {
    assert_eq!(expand(template, arguments).as_deref(), Ok(expected), "{template}");
}

#[test]
fn arguments_are_encoded() {
    check(
        "https://a.example/v1?city={city}",
        json!({"city": "New York"}),
        "https://a.example/v1?city=New%20York",
    );
    check(
        "https://a.example/x/{n}/{on}",
        json!({"n": 1.5, "on": true}),
        "https://a.example/x/1.5/true",
    );
    check(
        "https://a.example/?q={q}",
        json!({"q": {"a": [1]}}),
        "https://a.example/?q=%7B%22a%22%3A%5B1%5D%7D",
    );
    check("https://a.example/{x}", json!({"x": "é"}), "https://a.example/%C3%A9");
    // What is not given stays.
    check("https://a.example/?q={q}", json!({}), "https://a.example/?q={q}");
    check("https://a.example", json!({}), "https://a.example/");
}

#[test]
fn arguments_cannot_leave_their_place() {
    let template = "https://a.example/users/{id}/items?key=own";
    for (id, expected) in [
        ("../admin", "https://a.example/users/..%2Fadmin/items?key=own"),
        ("a/b", "https://a.example/users/a%2Fb/items?key=own"),
        ("a?key=x", "https://a.example/users/a%3Fkey%3Dx/items?key=own"),
        ("a#", "https://a.example/users/a%23/items?key=own"),
        ("a&b=c", "https://a.example/users/a%26b%3Dc/items?key=own"),
        ("%2e%2e", "https://a.example/users/%252e%252e/items?key=own"),
        ("..\\", "https://a.example/users/..%5C/items?key=own"),
        ("a\r\nHost: b", "https://a.example/users/a%0D%0AHost%3A%20b/items?key=own"),
        ("@evil.example", "https://a.example/users/%40evil.example/items?key=own"),
        ("{id}", "https://a.example/users/%7Bid%7D/items?key=own"),
        ("", "https://a.example/users//items?key=own"),
    ] {
        check(template, json!({"id": id}), expected);
    }
    for dots in [".", ".."] {
        assert_eq!(expand(template, json!({"id": dots})), Err(ExpandError::DotSegment));
        let halves = json!({"a": ".", "b": &dots[1..]});
        assert_eq!(expand("https://a.example/{a}{b}/x", halves), Err(ExpandError::DotSegment));
        // In a query they say nothing.
        assert!(expand("https://a.example/?q={q}", json!({"q": dots})).is_ok());
    }
    let long = json!({"id": "x".repeat(9_000)});
    assert_eq!(expand(template, long), Err(ExpandError::TooLong));
}

#[test]
fn parameters_are_left_out_where_they_are_not_given() {
    let template = "https://a.example/x{?a,b*,c}";
    check(template, json!({}), "https://a.example/x");
    check(template, json!({"a": "1&2"}), "https://a.example/x?a=1%262");
    check(
        template,
        json!({"b": [1, "x y"], "c": [1, 2]}),
        "https://a.example/x?b=1&b=x%20y&c=1%2C2",
    );
    check("https://a.example/x?k=v{&a}", json!({"a": 1}), "https://a.example/x?k=v&a=1");
    check("https://a.example/x?k=v{?a}", json!({"a": 1}), "https://a.example/x?k=v&a=1");
    check("https://a.example{?f[x]}", json!({"f[x]": 1}), "https://a.example/?f%5Bx%5D=1");
}

#[test]
fn an_argument_with_many_places_makes_no_long_address() {
    let template = format!("https://a.example/x{{?{}}}", vec!["a"; 3_000].join(","));
    let before = peak_bytes();
    let expanded = expand(&template, json!({"a": "x".repeat(64 << 10)}));
    assert_eq!(expanded, Err(ExpandError::TooLong));
    let grown = peak_bytes() - before;
    assert!(grown < 64 << 20, "{} MiB more", grown >> 20);
}

#[test]
fn what_is_no_template_is_refused() {
    for template in [
        "",
        "a.example/x",
        "ftp://a.example/",
        "https://{host}/x",
        "https://a.{domain}/x",
        "https://a.example:{port}/",
        "https://user:password@a.example/",
        "https://a.example/{x",
        "https://a.example/x}",
        "https://a.example/{}",
        "https://a.example/{a b}",
        "https://a.example/{a/b}",
        "https://a.example/{?}",
        "https://a.example/x#{y}",
        "https://a.example/x\\y",
        "https://a.example/../x",
        "https://a.example/%2E/x",
        "https://a.example/x\r\ny",
    ] {
        assert!(UrlTemplate::parse(template).is_err(), "{template}");
    }
}
