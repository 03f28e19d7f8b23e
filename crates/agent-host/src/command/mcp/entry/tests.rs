//! What is shown of an entry.

use super::*;

#[test]
fn secrets_are_not_shown_and_references_are() {
    let entry = json!({
        "command": "a",
        "args": ["--token", "canary", "-e", "KEY=canary", "https://h/?k=canary", "--level", "warn"],
        "env": {"API_KEY": "canary", "LEVEL": "canary", "MY_TOKEN": "${vault:MY_TOKEN}",
            "PASSWORD": "${X:-canary}", "PIN": ["canary"]},
        "headers": {"X-Own": "canary", "Authorization": "${AUTH}"},
        "auth": {"type": "bearer", "token": "canary", "issuer": "https://canary@i/?k=canary"},
        "url": "https://canary:canary@h/mcp?key=canary&other=${KEY}#canary",
        "httpUrl": "https://h/?key=canary",
        "more": {"key": ["canary"]},
        "disabled": false
    });
    let shown = masked(entry);
    assert!(!shown.to_string().contains("canary"), "{shown}");
    assert_eq!(shown["env"]["LEVEL"], "***");
    assert_eq!(shown["env"]["MY_TOKEN"], "${vault:MY_TOKEN}");
    assert_eq!(shown["headers"]["Authorization"], "${AUTH}");
    assert_eq!(shown["auth"]["type"], "bearer");
    assert_eq!(shown["auth"]["issuer"], "https://***@i/?k=***");
    assert_eq!(shown["url"], "https://***@h/mcp?key=***&other=${KEY}#***");
    let arguments =
        json!(["--token", "***", "-e", "KEY=***", "https://h/?k=***", "--level", "warn"]);
    assert_eq!(shown["args"], arguments);
    assert_eq!((&shown["command"], &shown["disabled"]), (&json!("a"), &json!(false)));
    assert_eq!(masked(json!({"env": "canary", "url": 1})), json!({"env": "***", "url": "***"}));
    assert_eq!(masked(json!({"url": "${U:-https://canary@h}"})), json!({"url": "***"}));
    assert_eq!(masked(json!("canary")), json!("***"));
}

#[test]
fn an_entry_is_told_in_one_line() {
    assert_eq!(describe(&json!({"command": "npx", "args": ["-y", "server"]})), "npx -y server");
    assert_eq!(describe(&json!({"url": "http://a/"})), "http://a/");
    assert_eq!(describe(&json!({"url": "http://s@a/?k=s"})), "http://***@a/?k=***");
    assert_eq!(describe(&json!({"command": "a", "args": ["--token", "s"]})), "a --token ***");
    assert_eq!(describe(&json!(1)), "");
}
