use toolbus_tools::Principal;

use super::*;

#[test]
fn folders_of_people_are_personal() {
    let check = |folder: &str, home: &str, expected: bool| {
        let found = is_personal(Path::new(folder), Some(Path::new(home)));
        assert_eq!(found, expected, "{folder} {home}");
    };
    check("/home", "/home/ana", true);
    check("/home/ana", "/home/ana", true);
    check("/home/ana/work", "/home/ana", true);
    check("/home/bob", "/home/ana", true);
    check("/root/work", "/nonexistent", true);
    check("/data/ana/mail", "/data/ana", true);
    check("/data", "/data/ana", true);
    check("/srv/work", "/home/ana", false);
    check("/homes/work", "/home/ana", false);
    check("/srv/work", "/", false);
    check("/var/lib/toolbus/work", "/var/lib/toolbus", false);
    assert!(!is_personal(Path::new("/srv/work"), None));
}

#[test]
fn globs_with_a_mistake_match_nobody() {
    assert!(audience_of(&local_alone()).has(&Principal::local()));
    assert!(!audience_of(&local_alone()).has(&Principal::claimed("local")));
    for wrong in [vec![], vec!["nonsense".to_owned()]] {
        assert!(!audience_of(&wrong).has(&Principal::local()), "{wrong:?}");
    }
}
