//! Which path a key is, and what is below what.

use toolbus_tools::id::SessionId;

use super::{Namespace, PATH_BYTES_MAX};
use crate::Error;

fn namespace(session: &str) -> Namespace {
    Namespace::of_session(&SessionId::parse(session).unwrap()).unwrap()
}

#[test]
fn a_session_has_one_namespace() {
    let check = |session: &str, expected: &str| {
        assert_eq!(namespace(session).as_path().as_str(), expected);
    };
    check("session/abc", "session/abc");
    check("subagent/1f", "subagent/1f");
    check("abc", "session/abc");
    check("session", "session/session");
    check("a/b", "session/a/b");
}

#[test]
fn a_key_is_within_the_namespace_unless_it_names_one() {
    let own = namespace("session/s1");
    let check = |key: &str, expected: &str| {
        assert_eq!(own.path_of(key).unwrap().as_str(), expected, "{key}");
    };
    check("plan", "session/s1/plan");
    check("notes/today", "session/s1/notes/today");
    check(" /notes/today/ ", "session/s1/notes/today");
    check("session/s1/plan", "session/s1/plan");
    check("Session/S1/Plan", "Session/S1/Plan");
    check("subagent/1f/found", "subagent/1f/found");
    check("session/plan", "session/s1/session/plan");
    check("käse und brot", "session/s1/käse und brot");
}

#[test]
fn keys_that_are_none_are_refused() {
    let own = namespace("session/s1");
    for key in ["", " ", "/", "a//b", "a/../b", ".", "a/ /b", "a\0b", "a\nb", "a`b"] {
        assert!(matches!(own.path_of(key), Err(Error::Key(_))), "{key:?}");
    }
    assert!(matches!(own.path_of(&"a/".repeat(20)), Err(Error::Key(_))));
    let long = own.path_of(&"x".repeat(PATH_BYTES_MAX));
    assert!(matches!(long, Err(Error::KeyTooLong { .. })));
}

#[test]
fn whole_segments_are_compared_and_case_is_not() {
    let within = |path: &str, prefix: &str, expected: bool| {
        let own = namespace("session/s1");
        let (path, prefix) = (own.path_of(path).unwrap(), own.prefix_of(prefix).unwrap());
        assert_eq!(path.is_within(&prefix), expected, "{path} in {prefix}");
    };
    within("session/s1/a", "session/s1", true);
    within("session/s10/a", "session/s1", false);
    within("session/s10/a", "session", true);
    within("SESSION/S1/A", "session/s1/a", true);
    within("notes/a", "notes", true);
    within("notes2/a", "notes", false);
}

#[test]
fn another_conversation_is_read_and_never_written() {
    let own = namespace("session/s1");
    let may_write = |key: &str| own.may_write(&own.path_of(key).unwrap());
    assert!(may_write("a") && may_write("session/S1/a") && may_write("subagent/1f/a"));
    assert!(!may_write("session/s10/a"));
    let below = namespace("subagent/1f");
    assert!(!below.may_write(&below.path_of("session/s1/a").unwrap()));
}

#[test]
fn entries_are_counted_by_namespace() {
    let own = namespace("session/S1");
    assert_eq!(own.path_of("a/b/c").unwrap().namespace(), "session/s1");
    assert_eq!(namespace("a/b").path_of("c").unwrap().namespace(), "session/a");
}
