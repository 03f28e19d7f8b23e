//! What is changed, and what stays as it is.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;

fn name(text: &str) -> ServerName {
    ServerName::parse(text).unwrap()
}

fn members() -> Map<String, Value> {
    Map::from_iter([("url".to_owned(), json!("http://x/"))])
}

#[test]
fn servers_are_added_and_taken_out_in_any_case() {
    let folder = tempfile::tempdir().unwrap();
    let file = ServerFile::at(folder.path().join("mcp.json"));
    assert!(!file.remove("a").unwrap());
    assert!(!file.path().exists(), "nothing is written for nothing");

    assert!(file.add(&name("Todo"), members()).unwrap());
    assert!(!file.add(&name("todo"), members()).unwrap());
    let mode = file.path().metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "there may be credentials in it");
    assert_eq!(file.servers().unwrap().keys().collect::<Vec<_>>(), ["Todo"]);
    assert!(file.remove("TODO").unwrap() && file.servers().unwrap().is_empty());
}

#[test]
fn what_is_not_changed_stays_and_a_link_stays_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let (real, link) = (folder.path().join("real.json"), folder.path().join("mcp.json"));
    let written = r#"{"$schema":"x","mcpServers":{"z":{"command":"a","own":[1]},"b":{"url":"http://b/"}},"more":1}"#;
    std::fs::write(&real, written).unwrap();
    symlink("real.json", &link).unwrap();

    let file = ServerFile::at(link.clone());
    assert!(file.add(&name("c"), members()).unwrap() && file.remove("b").unwrap());
    assert!(link.symlink_metadata().unwrap().is_symlink());
    let document: Value = serde_json::from_str(&std::fs::read_to_string(real).unwrap()).unwrap();
    let expected = r#"{"$schema":"x","mcpServers":{"z":{"command":"a","own":[1]},"c":{"url":"http://x/"}},"more":1}"#;
    assert_eq!(document.to_string(), expected);
}

#[test]
fn what_is_not_ours_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.json");
    for text in ["{\"mcpServers\": ", "[]", "{\"mcpServers\": 1}", "{}", ""] {
        std::fs::write(&path, text).unwrap();
        let file = ServerFile::at(path.clone());
        let error = file.add(&name("a"), members()).unwrap_err();
        assert!(matches!(error, ServerFileError::NotOurs(_)), "{text}: {error}");
        assert!(file.remove("a").is_err(), "{text}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
    let nowhere = ServerFile::at(folder.path().join("none/r.json"));
    let error = nowhere.add(&name("a"), members()).unwrap_err();
    assert!(matches!(error, ServerFileError::Write { .. }), "{error}");
}

#[test]
fn several_processes_may_change_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.json");
    // Each has its own, as processes do: only the lock on the folder is between them.
    std::thread::scope(|scope| {
        for process in 0..8 {
            let file = ServerFile::at(path.clone());
            scope.spawn(move || {
                for server in 0..5 {
                    let name = name(&format!("p{process}s{server}"));
                    assert!(file.add(&name, members()).unwrap());
                }
            });
        }
    });
    assert_eq!(ServerFile::at(path).servers().unwrap().len(), 40);
}
