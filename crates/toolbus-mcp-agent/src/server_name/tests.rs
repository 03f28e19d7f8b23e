//! The rule for names.

use super::*;
use crate::resolve::provider_of;
use crate::{offers, tools};

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
fn reserved_names_are_none_of_servers_in_any_spelling() {
    for text in ["management", "Management", "OFFERS", "man-age_ment", "0ffers", "rnanagement"] {
        assert_eq!(ServerName::parse_unreserved(text), Err(Error::Reserved), "{text}");
        assert!(ServerName::parse(text).is_ok(), "what has such a name can be removed");
    }
    for text in ["manage", "offer", "management2", "my-offers", "x"] {
        assert!(ServerName::parse_unreserved(text).is_ok(), "{text}");
    }
    assert_eq!(ServerName::parse_unreserved(""), Err(Error::Empty));
    let told = "a server's name is not management or offers, in any spelling: those are the \
                agent's own";
    assert_eq!(Error::Reserved.to_string(), told);
}

/// The agent's own providers are all that is reserved.
#[test]
fn reserved_names_are_those_of_the_agents_own_providers() {
    let reserved = RESERVED.map(provider_of);
    assert_eq!(reserved, [tools::SOURCE, offers::PROVIDER]);
}

#[test]
fn names_whose_ids_could_be_those_of_others() {
    for text in ["Management", " offers", "management/x", "git\u{0}hub", "git\nhub", "/"] {
        assert!(imitates_others(text), "{text:?}");
    }
    for text in ["", "github", "my server", "a:b", "script", "поиск"] {
        assert!(!imitates_others(text), "{text:?}");
    }
}

#[test]
fn case_is_kept_and_ignored() {
    let name = ServerName::parse("Todo").unwrap();
    assert_eq!(name, ServerName::parse("tODO").unwrap());
    assert!(name.matches("TODO") && !name.matches("todo2"));
    assert_eq!(name.to_string(), "Todo");
}
