//! What is told of an installation, and what pip is kept from.

use std::path::Path;
use std::process::Command;

use super::*;

#[test]
fn passwords_are_taken_out_of_addresses() {
    for (text, expected) in [
        ("no address", "no address"),
        ("https://example.org/a@b", "https://example.org/a@b"),
        (
            "Looking in https://me:secret@example.org/x, https://t@y",
            "Looking in https://***@example.org/x, https://***@y",
        ),
        ("http://a:b@c@d/ e@f", "http://***@d/ e@f"),
        ("x://", "x://"),
    ] {
        assert_eq!(without_passwords(text), expected);
    }
}

#[test]
fn the_end_of_a_long_text_is_kept() {
    let text = "é".repeat(INSTALLER_OUTPUT_BYTES_MAX);
    let end = last_bytes(&text);
    assert!(end.len() <= INSTALLER_OUTPUT_BYTES_MAX && text.ends_with(end) && !end.is_empty());
    assert_eq!(last_bytes("short"), "short");
}

/// Whether pip writes a log into a folder, where its target is in `target`.
fn writes_log(folder: &Path, target: &Path) -> bool {
    let log = folder.join("log");
    let pip = Command::new("python3")
        .args(["-I", "-c", RUN_PIP, "install", "--no-index", "--target"])
        .arg(target.join("tree"))
        .arg("--log")
        .arg(&log)
        .args(["--", "there-is-no-such-package"])
        .output()
        .unwrap();
    assert!(!pip.status.success(), "{pip:?}");
    log.exists()
}

#[test]
#[allow(clippy::print_stderr, reason = "a test that is left out says so")]
fn pip_writes_nowhere_but_beside_its_target() {
    const HAS_LANDLOCK: &str = "import ctypes, sys\n\
        sys.exit(ctypes.CDLL(None).syscall(444, None, 0, 1) < 1)";
    if !Command::new("python3").args(["-c", HAS_LANDLOCK]).status().unwrap().success() {
        eprintln!("skipped: this kernel has no Landlock");
        return;
    }
    // Not below the folder for temporary files, which is written to.
    let folder = Path::new("/var/tmp").join(format!("toolbus-pip-{}", std::process::id()));
    let (target, elsewhere) = (folder.join("target"), folder.join("elsewhere"));
    std::fs::create_dir_all(&target).unwrap();
    std::fs::create_dir_all(&elsewhere).unwrap();

    assert!(writes_log(&target, &target), "it writes where it may");
    assert!(!writes_log(&elsewhere, &target));

    std::fs::remove_dir_all(&folder).unwrap();
}
