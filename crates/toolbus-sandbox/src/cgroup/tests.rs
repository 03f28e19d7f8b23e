//! Finding one's own group in the texts of the kernel.

use super::*;

const MOUNTS: &str = "\
25 1 0:5 / /proc rw - proc proc rw
30 29 0:26 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
31 29 0:27 /docker/abc /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
32 29 0:28 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate
";
const GROUPS: &str =
    "9:name=systemd:/\n8:pids:/docker/abc/x\n4:memory:/a/b\n3:cpu,cpuacct:/\n0::/user.slice/s\n";

#[test]
fn own_groups_are_found() {
    let find = |controller| locate_own_group(GROUPS, MOUNTS, controller);
    assert_eq!(find("memory"), Some("/sys/fs/cgroup/memory/a/b".into()));
    assert_eq!(find("pids"), Some("/sys/fs/cgroup/pids/x".into()));
    assert_eq!(find(""), Some("/sys/fs/cgroup/unified/user.slice/s".into()));
    assert_eq!(find("cpu"), None, "no such mount");
    assert_eq!(find("mem"), None, "names are compared whole");
}

/// A folder with the files of a group of version 2; the kernel's own behaviour is not in it.
fn group_of_two(subtree: &str, processes: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (file, text) in [
        ("cgroup.controllers", "cpu memory pids\n"),
        ("cgroup.subtree_control", subtree),
        ("cgroup.procs", processes),
    ] {
        fs::write(folder.path().join(file), text).expect("written");
    }
    folder
}

#[test]
fn a_group_that_others_use_is_left_alone() {
    let ready = group_of_two("memory pids\n", "1\n2\n");
    assert_eq!(enable_controllers(ready.path().into()), Some(ready.path().into()));

    let shared = group_of_two("\n", &format!("{}\n1\n", process::id()));
    assert_eq!(enable_controllers(shared.path().into()), None);
    assert_eq!(fs::read_dir(shared.path()).expect("readable").count(), 3, "nothing was made");

    let alone = group_of_two("\n", &format!("{}\n", process::id()));
    assert_eq!(enable_controllers(alone.path().into()), Some(alone.path().into()));

    let control = fs::read_to_string(alone.path().join("cgroup.subtree_control"));
    assert_eq!(control.expect("readable"), "+memory +pids");

    let unit = alone.path().join("a.service");
    fs::create_dir(&unit).expect("made");

    for file in ["cgroup.controllers", "cgroup.procs"] {
        fs::copy(alone.path().join(file), unit.join(file)).expect("copied");
    }

    fs::write(unit.join("cgroup.subtree_control"), "\n").expect("written");
    assert_eq!(enable_controllers(unit), None, "systemd did not give it away");
}
