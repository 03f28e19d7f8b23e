//! The order of the options, where it matters.

use super::*;

fn position(options: &BwrapOptions, wanted: &[&str]) -> usize {
    let found = options.0.windows(wanted.len()).position(|window| window == wanted);
    found.unwrap_or_else(|| panic!("{wanted:?} is not in {options:?}"))
}

#[test]
fn nothing_is_mounted_after_the_root_became_read_only() {
    let tree = HostTree { path: "/opt/py".into(), source: "/tmp/0".into() };
    let interpreter = Interpreter {
        executable: "/opt/py/bin/python3".into(),
        version: String::new(),
        binary_interface: String::new(),
        trees: Vec::new(),
        places: Vec::new(),
    };
    let mut base = base_options(Network::Denied, &interpreter, &[tree], &Limits::default());
    let shared = Workspace { path: "/srv/shared".into(), is_writable: false };
    base.bind_workspace(&shared, "/tmp/1".as_ref());
    let options = script_options(&base, Some("/cache/key".as_ref()), None);
    let last = position(&options, &["--remount-ro", "/", "--chdir", "/work"]);
    let shm = position(&options, &["--size", "16777216", "--tmpfs", "/dev/shm"]);
    let devices = position(&options, &["--remount-ro", "/dev"]);

    assert!(position(&options, &["--dev", "/dev"]) < shm && shm < devices && devices < last);

    for mount in [
        ["--ro-bind", "/usr", "/usr"],
        ["--ro-bind", "/tmp/0", "/opt/py"],
        ["--ro-bind", "/cache/key", "/packages"],
        ["--ro-bind", "/tmp/1", "/srv/shared"],
    ] {
        assert!(position(&options, &mount) < last);
    }

    for place in WRITABLE {
        let mount =
            options.0.windows(4).find(|window| window[2] == "--tmpfs" && window[3] == *place);
        assert!(mount.is_some_and(|window| window[0] == "--size"), "{place} has no size");
    }

    assert!(!options.0.iter().any(|option| option == "--bind" || option == "--share-net"));
}
