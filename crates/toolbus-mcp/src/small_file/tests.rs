use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::*;

#[test]
fn a_file_is_read_up_to_its_limit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f");
    assert_eq!(read_if_exists(&path, 3).unwrap(), None);
    fs::write(&path, "abc").unwrap();
    assert_eq!(read_if_exists(&path, 3).unwrap().as_deref(), Some(&b"abc"[..]));
    assert_eq!(read_text(&path, 3).unwrap(), "abc");
    for error in [read_if_exists(&path, 2).unwrap_err(), read_text(&path, 2).unwrap_err()] {
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }
    assert_eq!(read_text(folder.path(), 2).unwrap_err().kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn a_file_is_replaced_for_its_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b/f");
    create_folder(folder_of(&path)).unwrap();
    replace(&path, b"one").unwrap();
    replace_and_sync(&path, b"two").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"two");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(folder_of(&path))), (0o600, 0o700));
    assert_eq!(fs::read_dir(folder_of(&path)).unwrap().count(), 1);
}

#[test]
fn a_lock_is_waited_for_until_its_timeout() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lock");
    let wait = LockWait { timeout: Duration::from_millis(50), interval: Duration::from_millis(5) };
    let held = open_private(&path).unwrap();
    wait.lock(&held).unwrap();
    let other = open_private(&path).unwrap();
    assert!(matches!(wait.lock(&other), Err(LockError::Held)));
    drop(held);
    wait.lock(&other).unwrap();
}
