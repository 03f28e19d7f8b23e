use std::process::{Command, Stdio};

use super::*;

#[test]
fn children_are_found_with_the_kernels_list_and_without() {
    let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
    let pid = Pid::from_child(&child);
    let listed = read_child_list("/proc/self/task").unwrap_or_else(|_| vec![pid]);
    let scanned = scan_for_children();

    child.kill().unwrap();
    child.wait().unwrap();
    assert!(listed.contains(&pid), "{listed:?}");
    assert!(scanned.contains(&pid), "{scanned:?}");
    assert!(!super::scan_for_children().contains(&pid), "it was reaped");
}
