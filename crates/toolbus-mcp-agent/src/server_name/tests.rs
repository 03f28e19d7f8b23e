//! The rule for names.

use super::*;

#[test]
fn names_that_are_one() {
    for text in ["a", "Todo", "0", "my-server_1.2", &"x".repeat(64), "a_b_c"] {
        assert_eq!(ServerName::parse(text).expect(text).as_str(), text);
    }
}

#[test]
fn names_that_are_none() {
    let cases = [
        ("", Error::Empty),
        ("_a", Error::Start('_')),
        (".", Error::Start('.')),
        ("-x", Error::Start('-')),
        ("é", Error::Start('é')),
        ("a b", Error::Character(' ')),
        ("a/b", Error::Character('/')),
        ("aé", Error::Character('é')),
        ("a__b", Error::Separator),
        ("a___b", Error::Separator),
    ];
    for (text, error) in cases {
        assert_eq!(ServerName::parse(text), Err(error), "{text:?}");
    }
    assert_eq!(ServerName::parse(&"x".repeat(65)), Err(Error::TooLong(65)));
}

#[test]
fn names_that_look_alike_do() {
    let name = |text| ServerName::parse(text).expect("a name");
    for (one, other) in [
        ("mail", "MAIL"),
        ("web-1", "web_l"),
        ("a.b", "a-b"),
        ("Mail", "MaiI"),
        ("modern", "modem"),
        ("o0", "0O"),
        ("vv", "w"),
    ] {
        assert!(name(one).looks_like(&name(other)), "{one} {other}");
        assert!(name(other).looks_like(&name(one)), "{other} {one}");
    }
    for (one, other) in [("git", "glt"), ("web1", "web2"), ("time", "times"), ("a-b", "ab")] {
        assert!(!name(one).looks_like(&name(other)), "{one} {other}");
    }
}

#[test]
fn case_is_kept_and_ignored() {
    let name = ServerName::parse("Todo").unwrap();
    assert_eq!(name, ServerName::parse("tODO").unwrap());
    assert!(name.matches("TODO") && !name.matches("todo2"));
    assert_eq!(name.to_string(), "Todo");
}
