use std::os::unix::fs::PermissionsExt as _;

use super::*;

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

#[test]
fn what_is_not_ours_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.json");
    for text in ["{\"mcpServers\": ", "[]", "{\"mcpServers\": 1}", "{}", ""] {
        std::fs::write(&path, text).unwrap();
        let registrations = Registrations::at(path.clone());
        let error = registrations.take_turn().save("a", members("http://one/")).unwrap_err();
        assert!(matches!(error, RegistrationsError::NotOurs(_)), "{text}: {error}");
        assert!(registrations.take_turn().remove("a").is_err(), "{text}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
    let nowhere = Registrations::at(folder.path().join("none/r.json"));
    let error = nowhere.take_turn().save("a", members("http://one/")).unwrap_err();
    assert!(matches!(error, RegistrationsError::Write { .. }), "{error}");
}

#[test]
fn several_processes_may_change_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.json");
    // Each has its own, as processes do: only the lock on the folder is between them.
    std::thread::scope(|scope| {
        for process in 0..8 {
            let registrations = Registrations::at(path.clone());
            scope.spawn(move || {
                for server in 0..5 {
                    let name = format!("p{process}s{server}");
                    registrations.take_turn().save(&name, members("http://x/")).unwrap();
                }
            });
        }
    });
    assert_eq!(names(&Registrations::at(path)).len(), 40);
}
