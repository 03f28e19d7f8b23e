use serde_json::json;

use super::*;

fn text(text: &str) -> CallerText {
    CallerText::try_from(text.to_owned()).unwrap()
}

fn url(endpoint: &Endpoint) -> String {
    endpoint.url(&Url::parse("https://host/api/v1/").unwrap()).to_string()
}

#[test]
fn addresses_are_those_that_openrouter_publishes() {
    let models = ModelsQuery {
        q: Some(text("a&b=c d")),
        max_price: Some(0.5),
        limit: Some(5),
        ..ModelsQuery::default()
    };
    let check = |endpoint: Endpoint, expected: &str| assert_eq!(url(&endpoint), expected);
    check(Endpoint::Credits, "https://host/api/v1/credits");
    check(Endpoint::CurrentKey, "https://host/api/v1/key");
    check(Endpoint::LegacyCurrentKey, "https://host/api/v1/auth/key");
    check(Endpoint::Keys, "https://host/api/v1/keys");
    check(Endpoint::Models(ModelsQuery::default()), "https://host/api/v1/models");
    check(
        Endpoint::Models(models),
        "https://host/api/v1/models?q=a%26b%3Dc+d&max_price=0.5&limit=5",
    );
}

#[test]
fn a_callers_text_stays_one_segment_or_one_value() {
    let hostile = [
        "../credits",
        "a/b",
        "a?b=c",
        "a#b",
        "%2e%2e",
        "%2F",
        "..%2f",
        "a\\b",
        "...",
        "a b",
        "é\u{202e}",
        "//evil.example",
        "http://evil.example/",
        "@evil.example",
        ";a=b",
        "a&id=b",
        "+",
    ];
    for hostile in hostile {
        let key = url(&Endpoint::Key(text(hostile)));
        let read = Url::parse(&key).unwrap();
        assert_eq!((read.host_str(), read.query(), read.fragment()), (Some("host"), None, None));
        let segments: Vec<_> = read.path_segments().unwrap().collect();
        assert_eq!(segments[..3], ["api", "v1", "keys"], "{key}");
        assert_eq!(segments.len(), 4, "{key}");

        let generation = url(&Endpoint::Generation(text(hostile)));
        let read = Url::parse(&generation).unwrap();
        assert_eq!(read.path(), "/api/v1/generation");
        let pairs: Vec<_> = read.query_pairs().collect();
        assert_eq!(pairs, [("id".into(), hostile.into())], "{generation}");
    }
}

#[test]
fn what_no_encoding_can_carry_is_refused() {
    for refused in ["", ".", "..", "a\nb", "\0", "\u{85}", &"x".repeat(257)] {
        assert!(CallerText::try_from(refused.to_owned()).is_err(), "{refused:?}");
    }
}

#[test]
fn members_that_openrouter_does_not_know_are_refused() {
    let read = serde_json::from_value::<ModelsQuery>;
    assert!(read(json!({"limit": 3, "q": null})).is_ok());
    for wrong in [json!({"pageSize": 3}), json!({"q": ".."}), json!({"limit": "3"})] {
        assert!(read(wrong.clone()).is_err(), "{wrong}");
    }
}
