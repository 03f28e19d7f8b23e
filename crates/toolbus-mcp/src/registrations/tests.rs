use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use super::*;
use crate::config;

fn names(registrations: &Registrations) -> Vec<String> {
    let value: Value =
        serde_json::from_str(&config::read_file(registrations.path()).unwrap()).unwrap();
    value["mcpServers"].as_object().unwrap().keys().cloned().collect()
}

fn members(url: &str) -> Map<String, Value> {
    let Value::Object(members) = json!({"type": "http", "url": url}) else { unreachable!() };
    members
}

#[test]
fn a_registration_is_written_replaced_and_taken_out() {
    let folder = tempfile::tempdir().unwrap();
    let registrations = Registrations::at(folder.path().join("r.json"));
    registrations.take_turn().remove("a").unwrap();
    assert!(!registrations.path().exists(), "nothing is written for nothing");

    registrations.take_turn().save("A", members("http://one/")).unwrap();
    registrations.take_turn().save("b", members("http://two/")).unwrap();
    assert_eq!(names(&registrations), ["A", "b"]);
    let mode = registrations.path().metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "there may be credentials in it");
    registrations.take_turn().save("a", members("http://three/")).unwrap();
    assert_eq!(names(&registrations), ["b", "a"]);
    registrations.take_turn().remove("B").unwrap();
    assert_eq!(names(&registrations), ["a"]);
    let files = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(files, 1, "nothing else is left in the folder");
}

#[test]
fn a_registration_names_its_agent() {
    let folder = tempfile::tempdir().unwrap();
    let registrations = Registrations::at(folder.path().join("r.json"));
    let turn = registrations.take_turn();
    assert_eq!(turn.owner_of("a").unwrap(), None);

    let mut of_ada = members("http://one/");
    of_ada.insert(REGISTERED_BY.to_owned(), json!("Ada"));
    turn.save("A", of_ada).unwrap();
    turn.save("b", members("http://two/")).unwrap();
    assert_eq!(turn.owner_of("a").unwrap().as_deref(), Some("Ada"));
    assert_eq!(turn.owner_of("b").unwrap(), None);
}
