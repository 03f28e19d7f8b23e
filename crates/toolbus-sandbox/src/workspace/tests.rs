//! Folders that are refused.

use std::path::PathBuf;

use super::*;
use crate::config::Workspace;

fn interpreter(tree: PathBuf) -> Interpreter {
    Interpreter {
        executable: tree.join("bin/python3"),
        version: String::new(),
        binary_interface: String::new(),
        trees: vec![tree],
        places: Vec::new(),
    }
}

fn check(path: &Path, change: impl FnOnce(&mut Config)) -> Result<(), Unavailable> {
    let workspace = Some(Workspace { path: path.to_path_buf(), is_writable: true });
    let mut config = Config { workspace, ..Config::default() };
    config.packages.directory = None;
    change(&mut config);
    check_workspace(&config, &interpreter("/opt/python".into()))
}

#[test]
fn a_folder_of_its_own_can_be_shared() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().canonicalize().expect("a path");
    assert_eq!(check(&path, |_| {}), Ok(()));
    assert_eq!(check(Path::new("/"), |config| config.workspace = None), Ok(()));
}

#[test]
fn folders_of_the_system_cannot() {
    let found = ["/", "/usr", "/usr/share", "/etc", "/proc", "/dev", "/tmp"].map(PathBuf::from);
    for path in found.iter().filter(|path| path.exists()) {
        let refused = check(path, |_| {});
        assert!(matches!(refused, Err(Unavailable::Setting { .. })), "{path:?}: {refused:?}");
    }
}

#[test]
fn nothing_of_the_sandbox_is_in_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().canonicalize().expect("a path");

    let refused = [
        check(&path, |config| config.read_only_paths = vec![path.join("tools")]),
        check(&path, |config| config.packages.directory = Some(path.join("cache"))),
        check(&path.join("absent"), |_| {}),
        check(&path.join("../x/.."), |_| {}),
    ];
    for refused in refused {
        assert!(matches!(refused, Err(Unavailable::Setting { .. })), "{refused:?}");
    }

    let workspace = Some(Workspace { path: path.clone(), is_writable: true });
    let mut config = Config { workspace, ..Config::default() };
    config.packages.directory = None;
    let venv = check_workspace(&config, &interpreter(path.join(".venv")));
    assert!(matches!(venv, Err(Unavailable::Setting { .. })), "{venv:?}");
}

#[test]
fn links_are_not_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().canonicalize().expect("a path");
    let link = path.join("link");
    std::fs::create_dir(path.join("real")).expect("a folder");
    std::os::unix::fs::symlink(path.join("real"), &link).expect("a link");
    let refused = check(&link, |_| {});
    assert!(matches!(refused, Err(Unavailable::Setting { .. })), "{refused:?}");
}
