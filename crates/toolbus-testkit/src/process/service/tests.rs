//! A binary and its sources.

use std::fs;
use std::time::{Duration, SystemTime};

use super::newer_source;

#[test]
fn a_source_that_changed_after_the_build_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let [binary, list] = ["service", "service.d"].map(|name| folder.path().join(name));
    let [lib, spaced] = ["lib.rs", "a file.rs"].map(|name| folder.path().join(name));
    for path in [&binary, &lib, &spaced] {
        fs::write(path, "").unwrap();
    }
    let escaped = spaced.display().to_string().replace(' ', "\\ ");
    fs::write(&list, format!("{}: {} {escaped}\n", binary.display(), lib.display())).unwrap();

    let now = SystemTime::now();
    let touch = |path, time| fs::File::open(path).unwrap().set_modified(time).unwrap();
    touch(&lib, now - Duration::from_secs(9));
    touch(&spaced, now - Duration::from_secs(9));
    assert_eq!(newer_source(&binary, now).unwrap(), None);
    touch(&spaced, now + Duration::from_secs(9));
    assert_eq!(newer_source(&binary, now).unwrap(), Some(spaced.display().to_string()));
    // A source that is gone cannot have changed what is there; cargo would build anew.
    fs::remove_file(&spaced).unwrap();
    assert_eq!(newer_source(&binary, now).unwrap(), None);
    fs::remove_file(&list).unwrap();
    assert!(newer_source(&binary, now).is_err());
}
