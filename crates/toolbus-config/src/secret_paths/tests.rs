use serde_json::json;

use super::*;

#[test]
fn files_of_secrets_are_found_wherever_they_are_named() {
    let settings = json!({
        "name": "/a/name",
        "store": "sqlite:/a/store",
        "bus": {"url": null, "password_file": "/run/secrets/password"},
        "grants": {"key_file": "grant.key", "previous_key_file": null},
        "http": {"token_files": {"alice": "/tokens/alice", "bob": "/tokens/bob"}},
        "list": [{"key_file": "/in/a/list"}, {"other_files": ["/one", "/two"]}],
        "file": "small.gguf",
    });
    let expected = [
        "/run/secrets/password",
        "grant.key",
        "/tokens/alice",
        "/tokens/bob",
        "/in/a/list",
        "/one",
        "/two",
    ];
    assert_eq!(secret_paths(&settings), expected.map(PathBuf::from));
    assert!(secret_paths(&"text").is_empty());
}
