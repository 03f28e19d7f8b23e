use std::process::{Command, Stdio};

use super::*;

#[test]
fn children_are_found_with_the_kernels_list_and_without() {
    let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
    let pid = Pid::from_child(&child);
    let (listed, looked_for) = (listed().unwrap_or_else(|_| vec![pid]), looked_for());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(listed.contains(&pid), "{listed:?}");
    assert!(looked_for.contains(&pid), "{looked_for:?}");
    assert!(!super::looked_for().contains(&pid), "it was reaped");
}
