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
fn what_is_there_is_hidden_once() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let path = |name: &str| root.join(name);
    for name in ["state/pins", "state-of-others", "volume/..1"] {
        fs::create_dir_all(path(name)).unwrap();
    }
    for name in ["key", "state/state.db", "volume/..1/key"] {
        fs::write(path(name), "x").unwrap();
    }
    let link = |target: &str, name: &str| std::os::unix::fs::symlink(target, path(name)).unwrap();
    link("key", "link");
    link("..1", "volume/..data");
    link("..data/key", "volume/key");

    let secrets =
        ["state/state.db", "state", "state/pins", "link", "nowhere", "key/no", "volume/key"];
    let none = ["/dev/null", "/proc/self/status"].map(PathBuf::from);
    let shield = Shield::new([&secrets.map(path)[..], &none[..]].concat());
    let mut hidden = shield.hidden_paths().unwrap();
    hidden.retain(|path| !path.starts_with(RUN_SECRETS) && !path.ends_with("proc"));
    // Of a volume all of it: its next files are in another folder.
    assert_eq!(hidden, [path("key"), path("state"), path("volume")]);
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

    let shield = Shield::new(vec![state.clone()]);
    let wrap = |launch: Launch| shield.wrap(&launch, Vec::new()).map(|wrapped| wrapped.launch);
    let refused = wrap(launch("env", &state.join("work"))).unwrap_err().to_string();
    assert!(refused.starts_with("its folder ") && refused.contains("\"off\""), "{refused}");
    let program = state.join("server");
    let refused = wrap(launch(program.to_str().unwrap(), Path::new("/"))).unwrap_err();
    assert!(refused.to_string().starts_with("its program "), "{refused}");
    assert_eq!(wrap(launch("env", Path::new("/"))).unwrap().folder, Some("/".into()));
}
