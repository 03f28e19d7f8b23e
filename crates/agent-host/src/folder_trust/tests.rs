use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use super::*;

fn folder_with(list: &serde_json::Value) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join(DEFAULT_FILE), list.to_string()).expect("a file");
    folder
}

fn list() -> serde_json::Value {
    json!({"mcpServers": {
        "time": {"command": "uvx", "args": ["mcp-server-time", "\u{1b}[2K"]},
        "todo": {"type": "http", "url": "https://todo.example.org/mcp"},
        "keys": {"command": "keys", "env": {"TOKEN": "${vault:TOKEN}"}},
    }})
}

#[test]
fn an_answer_holds_for_the_folder_and_the_content_of_its_file() {
    let folder = folder_with(&list());
    let other = folder_with(&list());
    let state = tempfile::tempdir().expect("a folder");
    let answers = state.path().join("toolbus").join(ANSWERS_FILE);
    let found = |folder: &tempfile::TempDir| FoundList::in_folder(folder.path()).expect("a list");

    assert!(!TrustedFolders::read_file(&answers).trusts_list(&found(&folder)));
    TrustedFolders::remember_list(&answers, &found(&folder)).expect("it is written");
    assert!(TrustedFolders::read_file(&answers).trusts_list(&found(&folder)));
    assert!(!TrustedFolders::read_file(&answers).trusts_list(&found(&other)), "another folder");
    let mode = std::fs::metadata(&answers).expect("the file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    std::fs::write(folder.path().join(DEFAULT_FILE), "{\"mcpServers\": {}}").expect("a file");
    assert!(!TrustedFolders::read_file(&answers).trusts_list(&found(&folder)), "another content");
}

#[test]
fn only_a_yes_is_one_and_the_servers_are_shown() {
    let folder = folder_with(&list());
    let found = FoundList::in_folder(folder.path()).expect("a list");
    for (line, expected) in
        [("y\n", true), ("yes\n", true), ("n\n", false), ("\n", false), ("", false)]
    {
        let mut shown = Vec::new();
        assert_eq!(ask_person(&found, &mut line.as_bytes(), &mut shown), expected, "{line:?}");
        let shown = String::from_utf8(shown).expect("text");
        assert!(shown.contains("  time: uvx mcp-server-time \n"), "{shown}");
        assert!(shown.contains("  todo: https://todo.example.org/mcp\n"), "{shown}");
        assert!(shown.contains("  keys (with credentials of the vault): keys\n"), "{shown}");
    }
}

#[test]
fn a_folder_without_a_list_needs_no_trust() {
    let folder = tempfile::tempdir().expect("a folder");
    assert!(FoundList::in_folder(folder.path()).is_none());
}
