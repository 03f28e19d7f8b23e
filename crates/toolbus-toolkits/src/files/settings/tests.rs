//! Which settings make sense.

use super::*;

fn check(path: &str) -> Result<(), String> {
    check_folder(Path::new(path))
}

#[test]
fn folders_of_files_alone_may_be_named() {
    for path in ["/srv/work", "/home/someone", "/process", "/tmp"] {
        assert_eq!(check(path), Ok(()));
    }
    for path in ["/", "work", "", "/proc", "/proc/self", "/sys/kernel", "/dev/shm"] {
        assert!(check(path).is_err(), "{path}");
    }
}

#[test]
fn settings_are_read_as_they_are_documented() {
    let written = serde_json::json!({
        "working_directory": "/srv/work", "access": "read-only",
        "readable_paths": ["/srv/books"], "file_max": "1 MiB"
    });
    let settings: FilesSettings = serde_json::from_value(written).unwrap();
    assert_eq!(settings.access, Access::ReadOnly);
    assert_eq!(settings.file_max, ByteSize::mebibytes(1));
    assert_eq!(settings.writable_paths, Vec::<PathBuf>::new());

    let unknown: Result<FilesSettings, _> =
        serde_json::from_value(serde_json::json!({"root": "/"}));
    assert!(unknown.is_err());
}
