//! One value of a file's text is changed, and nothing else.

use super::super::*;
use super::Demo;

fn set(text: &str, key: &str, value: &str) -> Result<String, EditError> {
    set_value::<Demo>(text, key, value).map(|edited| edited.text)
}

#[test]
fn comments_and_order_stay() {
    let text = "# ours\nverbose = false # loud?\n\n[log] # below\nfilter = \"info\"\n\n[bus]\n\
                prefetch = 1\n";
    let check = |key: &str, value: &str, before: &str, after: &str| {
        assert_eq!(set(text, key, value).expect(key), text.replace(before, after), "{key}");
    };
    check("verbose", "true", "verbose = false", "verbose = true");
    check("bus.prefetch", "7", "prefetch = 1", "prefetch = 7");
    check("ports", "1, 2", "# loud?\n", "# loud?\nports = [1, 2]\n");
    check("log.filter", "debug", "\"info\"", "\"debug\"");
    check(
        "servers.\"a b\".url",
        "x",
        "prefetch = 1\n",
        "prefetch = 1\n\n[servers.\"a b\"]\nurl = \"x\"\n",
    );
}

#[test]
fn a_text_that_is_empty_gets_its_first_value() {
    assert_eq!(set("", "verbose", "1").unwrap(), "verbose = true\n");
    assert_eq!(set("", "bus.prefetch", "7").unwrap(), "[bus]\nprefetch = 7\n");
}

#[test]
fn keys_that_are_not_known_are_refused() {
    let check = |key: &str, expected: &str| {
        assert_eq!(set("", key, "1").unwrap_err().to_string(), expected);
    };
    check("verbos", "verbos: unknown key, did you mean `verbose`?");
    check("bus.prefetsh", "bus.prefetsh: unknown key, did you mean `prefetch`?");
    check("", "'' is no key such as bus.prefetch");
    check("a..b", "'a..b' is no key such as bus.prefetch");
    let long = ["a"; 17].join(".");
    check(&long, &format!("'{long}' is no key such as bus.prefetch"));
}

#[test]
fn what_cannot_be_changed_is_left_alone() {
    let check = |text: &str, key: &str, value: &str, expected: &str| {
        let refused = set(text, key, value).unwrap_err().to_string();
        assert!(refused.contains(expected), "{refused}");
    };
    check("= x", "verbose", "1", "not TOML");
    check("bus = 7\n", "bus.prefetch", "1", "no table in the file");
    check("[bus]\nprefetch = 1\n", "bus", "{}", "set its keys one by one");
    check("", "servers", "{\"a\": null}", "TOML has no such value");
}

#[test]
fn a_secret_is_known_to_be_one() {
    assert!(set_value::<Demo>("", "api_key", "hunter2").unwrap().is_secret);
    assert!(!set_value::<Demo>("", "verbose", "1").unwrap().is_secret);
}

#[test]
fn mistakes_are_found_by_their_key() {
    let mistakes = ["bus.prefetch", "bus.urls[2]", "log"].map(|place| Mistake::new(place, "x"));
    let errors = Errors::of(mistakes.to_vec()).unwrap_err();
    let check = |key: &str, expected: Option<&str>| {
        let found = errors.at(key).map(|errors| errors.to_string());
        assert_eq!(found.as_deref(), expected.map(|text| text.to_owned()).as_deref(), "{key}");
    };
    check("bus.prefetch", Some("the configuration has a mistake\n  bus.prefetch: x"));
    check("bus.urls", Some("the configuration has a mistake\n  bus.urls[2]: x"));
    check("log.filter", Some("the configuration has a mistake\n  log: x"));
    check("bus.pre", None);
}
