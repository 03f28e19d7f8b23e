//! `deploy/compose/up`: what it makes of GRANTS. No engine is asked.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::support::repository;

/// What stands in for `docker`: it prints what the compose file would be given.
const PRINTING: &str = "#!/bin/sh\necho \"GRANTS=$GRANTS\"\n";

/// Runs the script on the secrets of this folder, with this GRANTS.
fn up(folder: &TempDir, grants: Option<&str>) -> Output {
    let programs = folder.path().join("bin");
    fs::create_dir_all(&programs).unwrap();
    let docker = programs.join("docker");
    fs::write(&docker, PRINTING).unwrap();
    fs::set_permissions(&docker, fs::Permissions::from_mode(0o700)).unwrap();

    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(repository("deploy/compose/up"));
    command.env("PATH", path).env("TOOLBUS_SECRETS", folder.path().join("secrets"));
    match grants {
        Some(grants) => command.env("GRANTS", grants),
        None => command.env_remove("GRANTS"),
    };
    command.output().unwrap()
}

#[test]
fn grants_stay_as_they_were_chosen_until_they_are_chosen_again() {
    let folder = tempfile::tempdir().unwrap();
    let check = |grants: Option<&str>, expected: &str| {
        let output = up(&folder, grants);
        let told = String::from_utf8_lossy(&output.stdout);
        assert_eq!(told, format!("GRANTS={expected}\n"), "{grants:?}: {output:?}");
    };

    check(None, "");
    check(Some("required"), "required");
    check(None, "required");
    check(Some(""), "");
    check(None, "");
}

#[test]
fn what_is_no_choice_is_refused_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for wrong in ["off", "false", "Required", "required "] {
        let output = up(&folder, Some(wrong));
        assert_eq!(output.status.code(), Some(2), "{wrong}: {output:?}");
        assert_eq!(output.stdout, b"", "{wrong}");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(told.contains("GRANTS can only be `required`, or empty"), "{told}");
        assert!(told.contains(wrong), "{told}");
    }
    assert!(!folder.path().join("secrets").exists());
}
