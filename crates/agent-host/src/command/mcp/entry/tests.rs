//! What is shown of an entry.

use super::*;

#[test]
fn secrets_are_not_shown_and_references_are() {
    let entry = json!({
        "command": "a",
        "env": {"API_KEY": "canary", "LEVEL": "warn", "MY_TOKEN": "${vault:MY_TOKEN}",
            "PASSWORD": "${X:-canary}"},
        "headers": {"X-Own": "canary", "Authorization": "${AUTH}"},
        "auth": {"type": "bearer", "token": "canary"}
    });
    let shown = masked(entry);
    assert!(!shown.to_string().contains("canary"), "{shown}");
    assert_eq!(shown["env"]["LEVEL"], "warn");
    assert_eq!(shown["env"]["MY_TOKEN"], "${vault:MY_TOKEN}");
    assert_eq!(shown["headers"]["Authorization"], "${AUTH}");
    assert_eq!(shown["auth"]["type"], "bearer");
}

#[test]
fn an_entry_is_told_in_one_line() {
    assert_eq!(describe(&json!({"command": "npx", "args": ["-y", "server"]})), "npx -y server");
    assert_eq!(describe(&json!({"url": "http://a/"})), "http://a/");
    assert_eq!(describe(&json!(1)), "");
}
