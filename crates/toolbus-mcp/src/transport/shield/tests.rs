use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;

#[test]
fn further_mounts_of_proc_are_found() {
    let found = |line: &str| further_process_list(line);
    let line = "29 1 0:5 / /srv/a\\040b/proc rw,nosuid shared:7 - proc proc rw";
    assert_eq!(found(line), Some(PathBuf::from("/srv/a b/proc")));
    for line in [
        "",
        "29 1 0:5 / /proc rw - proc proc rw",
        "29 1 0:5 /sys /proc/sys ro - proc proc rw",
        "29 1 0:5 / /srv rw - ext4 /dev/vda rw",
        "29 1 0:5 - proc",
    ] {
        assert_eq!(found(line), None, "{line}");
    }
}

#[test]
fn existing_paths_are_hidden_once() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let path = |name: &str| root.join(name);
    for name in ["state/pins", "state-of-others", "volume/..1"] {
        fs::create_dir_all(path(name)).unwrap();
    }
    for name in ["key", "state/state.db", "volume/..1/key"] {
        fs::write(path(name), "x").unwrap();
    }
    let link = |target: &str, name: &str| symlink(target, path(name)).unwrap();
    link("key", "link");
    link("..1", "volume/..data");
    link("..data/key", "volume/key");

    let secrets =
        ["state/state.db", "state", "state/pins", "link", "nowhere", "key/no", "volume/key"];
    let none = ["/dev/null", "/proc/self/status"].map(PathBuf::from);
    let shield = Shield::new(Vec::new(), [&secrets.map(path)[..], &none[..]].concat());
    // A volume is hidden as a whole, because its next files are in another folder.
    assert_eq!(hidden_below(&root, &shield), [path("key"), path("state"), path("volume")]);
}

/// Returns the hidden paths of a test.
fn hidden_below(root: &Path, shield: &Shield) -> Vec<PathBuf> {
    let mut hidden = shield.hidden_paths().unwrap();
    hidden.retain(|path| path.starts_with(root));
    hidden
}

#[test]
fn volumes_are_found_through_links_and_folders() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let path = |name: &str| root.join(name);
    fs::create_dir_all(path("volume/..1/sub")).unwrap();
    fs::create_dir_all(path("etc")).unwrap();
    for name in ["volume/..1/key", "volume/..1/sub/key"] {
        fs::write(path(name), "x").unwrap();
    }
    let link = |target: &Path, name: &str| symlink(target, path(name)).unwrap();
    link(Path::new("..1"), "volume/..data");
    link(Path::new("..data/key"), "volume/key");
    link(Path::new("..data/sub"), "volume/sub");
    link(Path::new("../volume/key"), "etc/relative");
    link(&path("volume/sub"), "etc/folder");
    link(Path::new("folder/key"), "etc/second");
    link(Path::new("round"), "etc/round");

    for name in [
        "volume/sub/key",
        "volume/..data/key",
        "etc/relative",
        "etc/folder/key",
        "etc/folder",
        "etc/second",
    ] {
        let shield = Shield::new(Vec::new(), vec![path(name)]);
        assert_eq!(hidden_below(&root, &shield), [path("volume")], "{name}");
    }
    assert_eq!(replaced_part(path("etc/round")), path("etc/round"));
    assert_eq!(replaced_part(path("volume/..1/key")), path("volume/..1/key"));
}

#[test]
fn a_path_stays_hidden_if_a_link_to_it_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let path = |name: &str| root.join(name);
    fs::create_dir_all(path("first/state")).unwrap();
    fs::create_dir_all(path("second/state")).unwrap();
    symlink("first", path("link")).unwrap();
    let shield = Shield::new(Vec::new(), vec![path("link/state")]);
    assert_eq!(hidden_below(&root, &shield), [path("first/state")]);

    fs::remove_file(path("link")).unwrap();
    symlink("second", path("link")).unwrap();
    let both = [path("first/state"), path("second/state")];
    assert_eq!(hidden_below(&root, &shield.clone()), both);
    fs::remove_file(path("link")).unwrap();
    assert_eq!(hidden_below(&root, &shield), both);
    fs::remove_dir(path("first/state")).unwrap();
    assert_eq!(hidden_below(&root, &shield), [path("second/state")]);
}

#[test]
fn folders_of_secrets_are_created_for_their_owner() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let tokens = root.join("data/tokens");
    let shield = Shield::new(vec![tokens.clone()], Vec::new());
    assert_eq!(hidden_below(&root, &shield), std::slice::from_ref(&tokens));
    assert_eq!(fs::metadata(&tokens).unwrap().mode() & 0o777, 0o700);

    // One that cannot be created is left out.
    fs::write(root.join("file"), "x").unwrap();
    let shield = Shield::new(vec![root.join("file/tokens")], Vec::new());
    assert!(hidden_below(&root, &shield).is_empty());
}

/// A server may close a folder, to open it again once its next start has not hidden the secret.
#[test]
fn a_folder_that_its_owner_closed_reveals_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let state = root.join("closed/state");
    fs::create_dir_all(&state).unwrap();
    let set_mode = |mode| {
        fs::set_permissions(root.join("closed"), fs::Permissions::from_mode(mode)).unwrap();
    };
    set_mode(0o600);
    let hidden = Shield::new(Vec::new(), vec![state.clone()]).hidden_paths();
    set_mode(0o700);
    // Root may pass.
    match hidden {
        Ok(hidden) => assert!(hidden.contains(&state), "{hidden:?}"),
        Err(error) => assert!(error.to_string().contains("cannot be hidden"), "{error}"),
    }
}

#[test]
fn a_server_in_a_hidden_place_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().canonicalize().unwrap();
    fs::create_dir(state.join("work")).unwrap();
    fs::write(state.join("server"), "").unwrap();
    let launch = |command: &str, folder: &Path| Launch {
        command: command.to_owned(),
        arguments: Vec::new(),
        environment: std::collections::BTreeMap::new(),
        environment_file: None,
        folder: Some(folder.to_owned()),
        sandbox: crate::config::Isolation::AsSet,
    };

    let shield = Shield::new(Vec::new(), vec![state.clone()]);
    let wrap = |launch: Launch| shield.wrap(&launch, Vec::new()).map(|wrapped| wrapped.launch);
    let refused = wrap(launch("env", &state.join("work"))).unwrap_err().to_string();
    assert!(refused.starts_with("its folder ") && refused.contains("\"off\""), "{refused}");
    let program = state.join("server");
    let refused = wrap(launch(program.to_str().unwrap(), Path::new("/"))).unwrap_err();
    assert!(refused.to_string().starts_with("its program "), "{refused}");
    assert_eq!(wrap(launch("env", Path::new("/"))).unwrap().folder, Some("/".into()));
}
