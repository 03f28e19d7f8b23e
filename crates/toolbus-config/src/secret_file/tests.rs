use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::{is_open_to_others, read_private_file, read_secret_file};

const BYTES_MAX: usize = 8;

#[test]
fn a_secret_is_the_file_without_its_line_ends() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    let check = |text: &str, expected: &str| {
        fs::write(&file, text).unwrap();
        assert_eq!(read_secret_file(&file, BYTES_MAX).unwrap().expose(), expected, "{text:?}");
    };

    check("", "");
    check("\n", "");
    check("secret", "secret");
    check("secret\r\n", "secret");
    check(" se ret \n\n", " se ret ");
    check("12345678", "12345678");
    check("12345678\r\n", "12345678");
}

#[test]
fn what_cannot_be_read_is_refused_without_its_text() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    let check = |text: &[u8], expected: ErrorKind| {
        fs::write(&file, text).unwrap();
        let error = read_secret_file(&file, BYTES_MAX).unwrap_err();
        assert_eq!(error.kind(), expected, "{text:?}");
        assert!(!error.to_string().contains("1234"), "{error}");
    };

    check(b"123456789", ErrorKind::FileTooLarge);
    check(b"123456789\n", ErrorKind::FileTooLarge);
    check(b"12345678\nmore", ErrorKind::FileTooLarge);
    check(&[b'1'; 1 << 20], ErrorKind::FileTooLarge);
    // Cut within a character.
    check("1234567\u{1f980}".repeat(9).as_bytes(), ErrorKind::FileTooLarge);
    check(b"1234\xff", ErrorKind::InvalidData);

    let missing = folder.path().join("missing");
    assert_eq!(read_secret_file(&missing, BYTES_MAX).unwrap_err().kind(), ErrorKind::NotFound);
    let error = read_secret_file(folder.path(), BYTES_MAX).unwrap_err();
    assert_eq!(error.to_string(), "it is not a file");
}

#[test]
fn a_private_file_is_its_owners_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    fs::write(&file, "key\n").unwrap();
    let check = |mode: u32, is_private: bool| {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(is_open_to_others(&file).unwrap(), !is_private, "{mode:o}");
        match read_private_file(&file, BYTES_MAX) {
            Ok(key) => assert!(is_private && key.expose() == "key", "{mode:o}"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{mode:o}");
                assert!(!is_private && error.to_string().contains("chmod 600"), "{error}");
            }
        }
    };

    check(0o600, true);
    check(0o400, true);
    for open in [0o640, 0o620, 0o610, 0o604, 0o602, 0o644, 0o666] {
        check(open, false);
    }

    let missing = folder.path().join("missing");
    assert_eq!(is_open_to_others(&missing).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(read_private_file(&missing, 8).unwrap_err().kind(), ErrorKind::NotFound);
}

/// A file as Docker mounts a secret into a container. The root of the file system is a mount point
/// everywhere, and everyone can read it.
#[cfg(target_os = "linux")]
#[test]
fn a_mount_point_is_not_open() {
    let (root, folder) = (Path::new("/"), tempfile::tempdir().unwrap());
    assert_ne!(fs::metadata(root).unwrap().permissions().mode() & 0o077, 0);
    assert!(!is_open_to_others(root).unwrap());

    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    assert!(is_open_to_others(folder.path()).unwrap(), "it is no mount of its own");
}
