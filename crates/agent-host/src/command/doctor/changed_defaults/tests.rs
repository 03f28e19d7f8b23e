use std::path::Path;

use serde_json::{Value, json};
use toolbus_mcp::config::{self, Variables};

use super::*;

const PAGE: &str = include_str!("../../../../../../docs/operations.md");
const HEADING: &str = "\n### Changed defaults\n";

/// Returns the settings whose changed defaults are noted.
fn noted(settings: &Value) -> Vec<String> {
    let settings: Settings = serde_json::from_value(settings.clone()).unwrap();
    let names = describe(&settings, &[]).into_iter().map(|finding| {
        assert!(finding.mend.is_some(), "{finding:?}");
        finding.name.strip_prefix("default ").unwrap().to_owned()
    });
    names.collect()
}

/// The page has exactly the rows of the table, each with its date and the way to keep the former
/// behavior.
#[test]
fn the_page_has_every_row_and_no_other() {
    let (_, after) = PAGE.split_once(HEADING).expect("the heading");
    let part = after.split("\n#").next().unwrap();
    let rows = part.lines().filter(|line| line.starts_with("| `"));
    let rows: Vec<(&str, &str)> = rows
        .map(|row| {
            let mut cells = row.split('|').map(str::trim).skip(1);
            (cells.next().unwrap().trim_matches('`'), cells.next().unwrap())
        })
        .collect();
    let table: Vec<_> = TABLE.iter().map(|row| (row.default.setting, row.default.since)).collect();
    assert_eq!(rows, table);
}

#[test]
fn only_what_affects_the_configuration_is_noted() {
    let open = json!({"policy": {"default": "allow", "rules": [
        {"name": "all", "effect": "allow"},
    ]}});
    assert_eq!(noted(&open), [""; 0]);
    assert_eq!(noted(&json!({})), ["policy.preset"]);

    let with = |more: Value| {
        let mut settings = open.clone();
        let members = settings.as_object_mut().unwrap();
        members.extend(more.as_object().unwrap().clone());
        noted(&settings)
    };
    let tokens = json!({"alice": "a token of sixteen"});
    let face = json!({"address": "127.0.0.1:8800"});
    assert_eq!(with(json!({"mcp_face": face})), [""; 0]);
    let both = json!({"mcp_face": face, "http": {"tokens": tokens}});
    assert_eq!(with(both), ["mcp_face.anonymous"]);
    let anonymous = json!({"address": "127.0.0.1:8800", "anonymous": true});
    assert_eq!(with(json!({"mcp_face": anonymous, "http": {"tokens": tokens}})), [""; 0]);
    // At one port tokens held before.
    let shared = json!({"address": "127.0.0.1:8800", "tokens": tokens});
    assert_eq!(with(json!({"mcp_face": face, "http": shared})), [""; 0]);

    let reference = json!({"http": {"tokens": {"alice": "${TOKEN}"}}});
    assert_eq!(with(reference), ["http.tokens"]);
    let at = |hosts: [&str; 1]| {
        let http = json!({"address": "0.0.0.0:8810", "tokens": tokens, "allowed_hosts": hosts});
        with(json!({"http": http}))
    };
    assert_eq!(at(["a.example"]), ["http.allowed_hosts"]);
    assert_eq!(at(["localhost"]), [""; 0]);

    let linkedin = json!({"linkedin": {"enabled": true}});
    assert_eq!(with(linkedin), ["linkedin.principals"]);
    let everybody = json!({"linkedin": {"enabled": true, "principals": ["*"]}});
    assert_eq!(with(everybody), [""; 0]);
    assert_eq!(with(json!({"google": {"client_id": "id"}})), ["google.principals"]);
    assert_eq!(with(json!({"anthropic_usage": {"api_key": "k"}})), ["anthropic_usage.principals"]);
}

/// Files in a folder that is no user's home are available to everyone, as before.
#[test]
fn files_are_noted_where_a_folder_is_personal() {
    let folder = tempfile::tempdir().unwrap();
    let files = |folder: &Path| {
        noted(&json!({"files": {"working_directory": folder}, "policy": {"default": "allow"}}))
    };
    assert_eq!(files(folder.path()), [""; 0]);
    // This folder contains every home folder.
    assert_eq!(files(Path::new("/")), ["files.principals"]);
}

#[test]
fn servers_are_noted_that_their_entries_leave_behind_the_shield() {
    let noted = |entry: Value| {
        let list = json!({"mcpServers": {"x": entry}}).to_string();
        let config = config::parse(&list, Variables::Refused).unwrap();
        let findings = describe(&Settings::default(), &config.servers);
        findings.iter().any(|finding| finding.name == "default mcp.stdio_isolation")
    };
    assert!(noted(json!({"command": "a"})));
    assert!(!noted(json!({"command": "a", "sandbox": "off"})));
    assert!(!noted(json!({"url": "http://a/"})));
}
