//! Files that are whole, damaged, locked, newer, and shared.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use super::*;
use crate::config::ToolChanges;
use crate::trust::definition::Definition;
use crate::trust::pins::{ListedDefinitions, Verdict};

fn name(text: &str) -> ServerName {
    ServerName::parse(text).expect("a name")
}

fn listing(tool: String, members: serde_json::Map<String, serde_json::Value>) -> ListedDefinitions {
    ListedDefinitions {
        tools: vec![(tool, Definition::new(members))],
        ..ListedDefinitions::default()
    }
}

fn list(pins: &Pins, server: &str, description: &str) -> Result<(Verdict, PriorPins), Error> {
    list_of(pins, PinOwner::Operator, server, description)
}

fn list_of(
    pins: &Pins,
    owner: PinOwner,
    server: &str,
    description: &str,
) -> Result<(Verdict, PriorPins), Error> {
    let members = json!({"description": description}).as_object().expect("an object").clone();
    let listed = listing("tool".to_owned(), members);
    let (result, _) = pins.update(&name(server), owner, |document, prior| {
        let verdict = document.review_listing(&listed, prior, ToolChanges::Quarantine, 1);
        let edited = verdict.edited;
        ((verdict, prior), edited)
    })?;
    Ok(result)
}

fn held_back(pins: &Pins, server: &str) -> usize {
    pins.read(&name(server)).map_or(0, |document| document.tools.withheld.len())
}

#[test]
fn pins_outlive_the_process_and_are_for_their_owner_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("state/pins");
    let pins = Pins::in_folder(&path).expect("made");
    assert_eq!(list(&pins, "Web", "x").expect("pinned").1, PriorPins::First);
    let again = Pins::in_folder(&path).expect("there");
    assert_eq!(list(&again, "web", "x").expect("pinned").1, PriorPins::Known);
    assert_eq!(list(&again, "WEB", "y").expect("pinned").0.changes.len(), 1);
    assert_eq!(held_back(&pins, "Web"), 1, "one sees what the other does");
    assert_eq!(pins.servers().expect("listed"), [name("web")]);
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(&path.join("web.json"))), (0o700, 0o600));
    let mut left: Vec<_> =
        fs::read_dir(&path).expect("a folder").flatten().map(|f| f.file_name()).collect();
    left.sort();
    assert_eq!(left, ["web.json", "web.lock"]);
}

#[test]
fn nothing_is_written_when_nothing_has_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    let pins = Pins::in_folder(folder.path()).expect("made");
    list(&pins, "s", "x").expect("pinned");
    let before = pins.file_stamp(&name("s"));
    list(&pins, "s", "x").expect("pinned");
    assert_eq!(pins.file_stamp(&name("s")), before);
    list(&pins, "s", "y").expect("pinned");
    assert_ne!(pins.file_stamp(&name("s")), before);
}

#[test]
fn a_damaged_file_is_set_aside_and_vouches_for_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let pins = Pins::in_folder(folder.path()).expect("made");
    list(&pins, "s", "x").expect("pinned");
    let file = folder.path().join("s.json");
    for damage in ["", "{\"version\":1,\"server\":\"s\",\"too", "{}", "\u{0}"] {
        fs::write(&file, damage).expect("written");
        let (verdict, prior) = list(&pins, "s", "x").expect("read");
        assert_eq!((prior, verdict.changes.len()), (PriorPins::Lost, 1), "{damage:?}");
        let aside = fs::read_to_string(folder.path().join("s.json.damaged")).expect("set aside");
        assert_eq!(aside, damage);
        assert_eq!(list(&pins, "s", "x").expect("read").1, PriorPins::Known);
        assert_eq!(held_back(&pins, "s"), 1, "it is not forgotten that there were pins");
    }
    fs::write(&file, vec![b' '; usize::try_from(FILE_BYTES_MAX).expect("fits") + 1])
        .expect("written");
    assert_eq!(list(&pins, "s", "x").expect("read").1, PriorPins::Lost);
}

#[test]
fn a_newer_file_is_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let pins = Pins::in_folder(folder.path()).expect("made");
    let newer = r#"{"version": 3, "what": "nobody knows"}"#;
    fs::write(folder.path().join("s.json"), newer).expect("written");
    assert!(matches!(list(&pins, "s", "x"), Err(Error::Newer(_))));
    assert_eq!(fs::read_to_string(folder.path().join("s.json")).expect("there"), newer);
}

#[test]
fn a_lock_is_waited_for_but_not_for_ever() {
    let folder = tempfile::tempdir().expect("a folder");
    let pins = Pins::in_folder(folder.path()).expect("made");
    let held = lock_file(&folder.path().join("s.lock")).expect("locked");
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| list(&pins, "s", "x"));
        // sleeps: nothing shows that the other thread waits for the lock.
        std::thread::sleep(Duration::from_millis(50));
        drop(held);
        waits.join().expect("no panic").expect("in time");
    });
    let _held = lock_file(&folder.path().join("s.lock")).expect("locked");
    assert!(matches!(list(&pins, "s", "x"), Err(Error::Locked(_))));
    list(&pins, "other", "x").expect("another server has another lock");
}

#[test]
fn a_folder_that_cannot_be_used_is_said_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    fs::write(&file, "").expect("written");
    assert!(matches!(Pins::in_folder(file.join("pins")), Err(Error::File { .. })));
    assert!(!Pins::in_memory().are_persistent());
}

#[test]
fn several_programs_lose_nothing_of_each_other() {
    let folder = tempfile::tempdir().expect("a folder");
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let pins = Pins::in_folder(folder.path()).expect("made");
            scope.spawn(move || {
                for number in 0..10 {
                    let edit = |document: &mut PinDocument, _| {
                        let members = serde_json::Map::new();
                        let tool = listing(format!("{writer}-{number}"), members);
                        document.review_listing(&tool, PriorPins::Known, ToolChanges::Announce, 1);
                        ((), true)
                    };
                    pins.update(&name("s"), PinOwner::Operator, edit).expect("written");
                }
            });
        }
    });
    let pins = Pins::in_folder(folder.path()).expect("made");
    assert_eq!(pins.read(&name("s")).expect("there").tools.pins.len(), 40);
}

const LIMITS: PinLimits = PinLimits { operators: 3, registered: 4 };

/// Both kinds of storage with room for few.
fn small_storages(folder: &tempfile::TempDir) -> [Pins; 2] {
    let in_memory = PinStorage::Memory(Mutex::new(MemoryPins::new(LIMITS)));
    let in_folder = Pins::in_limited_folder(folder.path().to_owned(), LIMITS).expect("made");
    [Pins(Arc::new(in_memory)), in_folder]
}

#[test]
fn servers_of_agents_come_and_go_and_leave_room_for_the_operators() {
    let folder = tempfile::tempdir().expect("a folder");
    for pins in small_storages(&folder) {
        list(&pins, "mine", "x").expect("pinned");
        for number in 0..50 {
            let server = format!("registered-{number}");
            list_of(&pins, PinOwner::Agent, &server, "x").expect("pinned");
            // One that stays is listed again and again.
            list_of(&pins, PinOwner::Agent, "stays", "x").expect("pinned");
        }

        let kept = pins.servers().expect("listed");
        assert_eq!(kept.len(), 1 + LIMITS.registered, "{kept:?}");
        let again = |server: &str| list_of(&pins, PinOwner::Agent, server, "x").expect("there").1;
        assert_eq!(again("stays"), PriorPins::Known);
        assert_eq!(again("registered-49"), PriorPins::Known);
        assert_eq!(again("registered-0"), PriorPins::First, "forgotten");

        list(&pins, "yours", "x").expect("there is room");
        assert_eq!(list(&pins, "mine", "x").expect("there").1, PriorPins::Known);
    }

    let files = fs::read_dir(folder.path()).expect("a folder").count();
    assert_eq!(files, 2 * 2 + 3 * LIMITS.registered, "what was forgotten leaves nothing behind");
}

#[test]
fn what_an_agent_registered_does_not_vouch_for_the_operators_server_of_that_name() {
    let folder = tempfile::tempdir().expect("a folder");
    for pins in small_storages(&folder) {
        list_of(&pins, PinOwner::Agent, "s", "x").expect("pinned");
        let (verdict, prior) = list(&pins, "s", "y").expect("pinned");
        assert_eq!((prior, verdict.changes.len()), (PriorPins::First, 0));
        assert_eq!(held_back(&pins, "s"), 0);

        // The other way round it does: an agent takes no name over with other tools.
        let (verdict, prior) = list_of(&pins, PinOwner::Agent, "s", "x").expect("pinned");
        assert_eq!((prior, verdict.changes.len()), (PriorPins::Known, 1));
        assert_eq!(pins.owner_of(&name("s")), PinOwner::Operator);
    }
}

#[test]
fn the_operators_servers_have_a_limit_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let [_, pins] = small_storages(&folder);
    for server in ["a", "b", "c"] {
        list(&pins, server, "x").expect("pinned");
    }
    assert!(matches!(list(&pins, "d", "x"), Err(Error::Full(_))));
    list_of(&pins, PinOwner::Agent, "d", "x").expect("those of agents have their own");
}
