//! Where credentials of the vault may stand, and what a server is connected with.

use serde_json::{Value, json};

use super::*;
use crate::config::{Entry, Target, Variables};

fn parse(entry: Value) -> Result<Entry, Vec<String>> {
    let Value::Object(members) = entry else { panic!("no object: {entry}") };
    // What a variable says is no reference.
    let variables = |name: &str| (name == "SLY").then(|| "${vault:TOKEN}".to_owned());
    let read = Entry::parse("x", members, Variables::From(&variables));
    read.map_err(|mistakes| mistakes.iter().map(ToString::to_string).collect())
}

#[track_caller]
fn resolve(entry: Value, values: &[(&str, &str)]) -> Result<Target, String> {
    let entry = parse(entry).expect("an entry");
    let names: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
    assert_eq!(entry.vault_credentials().into_iter().collect::<Vec<_>>(), names);
    let secret =
        |(name, value): &(&str, &str)| ((*name).to_owned(), Secret::from((*value).to_owned()));
    let target = entry.target_with(&values.iter().map(secret).collect());
    // Neither shows what it holds.
    for (_, value) in values.iter().filter(|(_, value)| value.len() > 3) {
        assert!(!format!("{entry:?} {target:?}").contains(value));
    }
    target
}

#[track_caller]
fn launch(entry: Value, values: &[(&str, &str)]) -> Launch {
    match resolve(entry, values) {
        Ok(Target::Launch(launch)) => launch,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn endpoint(entry: Value, values: &[(&str, &str)]) -> Endpoint {
    match resolve(entry, values) {
        Ok(Target::Endpoint(endpoint)) => endpoint,
        other => panic!("{other:?}"),
    }
}

#[test]
fn programs_have_them_in_arguments_and_variables() {
    let launch = launch(
        json!({"command": "a", "args": ["-x", "--key=${vault:KEY}${vault:KEY}", "${SLY}"],
            "env": {"DSN": "p://me:${vault:pass.word-1}@h", "MODE": "${SLY:-x}", "PLAIN": "y"}}),
        &[("KEY", "k"), ("pass.word-1", "$p w{}${vault:KEY}")],
    );
    assert_eq!(launch.arguments, ["-x", "--key=kk", "${vault:TOKEN}"]);
    let variables: Vec<_> = launch.environment.values().map(Secret::expose).collect();
    assert_eq!(variables, ["p://me:$p w{}${vault:KEY}@h", "${vault:TOKEN}", "y"]);
}

#[test]
fn addresses_have_them_escaped_and_headers_as_they_are() {
    let found = endpoint(
        json!({"url": "https://h/a/${vault:A}?b=${vault:B}&c=d",
            "headers": {"X-Key": "v ${vault:B}", "X-Other": "${SLY}"},
            "auth": {"type": "bearer", "token": "${vault:C}"}}),
        &[("A", "x/../y?"), ("B", "1&2=3 é"), ("C", " tok ")],
    );
    assert_eq!(found.url.as_str(), "https://h/a/x%2F..%2Fy%3F?b=1%262%3D3%20%C3%A9&c=d");
    let header = |name: &str| {
        let found = found.headers.iter().find(|(known, _)| known == name);
        let (_, value) = found.expect("a header");
        assert!(value.is_sensitive(), "{name}");
        String::from_utf8(value.as_bytes().to_vec()).expect("text")
    };
    assert_eq!(header("x-key"), "v 1&2=3 é");
    assert_eq!(header("x-other"), "${vault:TOKEN}");
    assert_eq!(header("authorization"), "Bearer tok");
}

#[test]
fn what_does_not_fit_is_named_and_not_quoted() {
    let nul = "s3cret\0s3cret";
    for (entry, place) in [
        (json!({"command": "a", "args": ["${vault:T}"]}), "args[0]"),
        (json!({"command": "a", "env": {"B": "${vault:T}"}}), "env.B"),
        (json!({"url": "http://a/", "headers": {"X-A": "${vault:T}"}}), "headers.x-a"),
        (
            json!({"url": "http://a/", "auth": {"type": "bearer", "token": "${vault:T}"}}),
            "auth.token",
        ),
    ] {
        let expected = format!("its credential 'T' cannot stand in {place}");
        assert_eq!(resolve(entry, &[("T", nul)]), Err(expected));
    }
}

#[test]
fn other_places_have_none() {
    let elsewhere =
        "credentials of the vault go into args, env, headers, url and the token of auth only";
    for (entry, expected) in [
        (json!({"command": "${vault:A}"}), format!("command: {elsewhere}")),
        (json!({"command": "a", "cwd": "/${vault:A}"}), format!("cwd: {elsewhere}")),
        (json!({"command": "a", "envFile": "/${vault:A}"}), format!("envFile: {elsewhere}")),
        (
            json!({"command": "a", "sandbox": {"mounts": ["/${vault:A}"]}}),
            format!("sandbox.mounts[0]: {elsewhere}"),
        ),
        (
            json!({"url": "https://a/", "auth": {"type": "client_credentials", "clientId": "i",
                "clientSecret": "${vault:A}", "issuer": "https://a/"}}),
            format!("auth.clientSecret: {elsewhere}"),
        ),
        (
            json!({"url": "https://a/${vault:A}", "auth": {"type": "authorization_code"}}),
            "url: with auth, a credential of the vault can only stand in its query: tokens are for \
             the rest of the address"
                .to_owned(),
        ),
        (
            json!({"url": "https://${vault:A}.example.org/"}),
            "url: a credential of the vault can only stand in its path or its query".to_owned(),
        ),
    ] {
        let mistakes = parse(entry.clone()).expect_err("a mistake");
        let expected = format!("server \"x\": {expected}");
        assert!(mistakes.contains(&expected), "{entry}: {mistakes:?}");
    }
}

#[test]
fn names_are_plain_and_have_no_default() {
    for name in ["", "a b", "a/b", "A:-x", "é", &"x".repeat(129)] {
        let text = format!("${{vault:{name}}}");
        let mistakes = parse(json!({"command": "a", "args": [text]})).expect_err("a mistake");
        assert!(mistakes[0].contains("stands no credential's name"), "{mistakes:?}");
    }
    let mistakes = parse(json!({"command": "a", "args": ["${A:-${vault:B}}"]}));
    let expected = "server \"x\": args[0]: a default can have no variable in it".to_owned();
    assert_eq!(mistakes.expect_err("a mistake"), [expected]);
}

/// What an agent registers gets nothing out of the vault.
#[test]
fn strangers_have_none() {
    let Value::Object(members) = json!({"command": "a", "env": {"A": "${vault:TOKEN}"}}) else {
        unreachable!("it is an object")
    };
    let mistakes = Entry::parse("x", members, Variables::Refused).expect_err("a mistake");
    let expected = r#"server "x": env.A: credentials of the vault may not be used here"#;
    assert_eq!(mistakes[0].to_string(), expected);
}
