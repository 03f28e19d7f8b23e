//! The two lists against names.

use super::*;

fn check(allowed: Option<&[&str]>, denied: &[&str], permitted: &[&str], refused: &[&str]) {
    let filter = ToolFilter::new(allowed, denied);
    for tool in permitted {
        assert!(filter.permits(tool), "{tool} with {filter:?}");
    }
    for tool in refused {
        assert!(!filter.permits(tool), "{tool} with {filter:?}");
    }
}

#[test]
fn lists() {
    check(None, &[], &["echo", ""], &[]);
    check(None, &["Echo"], &["sum", "echo2"], &["echo", "ECHO"]);
    check(Some(&["echo"]), &[], &["Echo"], &["sum"]);
}

#[test]
fn what_is_denied_is_not_allowed() {
    check(Some(&["echo", "sum"]), &["echo"], &["sum"], &["echo", "other"]);
    check(Some(&["*"]), &["delete_*"], &["read"], &["delete_all"]);
}

#[test]
fn an_empty_list_allows_nothing() {
    check(Some(&[]), &[], &[], &["echo", ""]);
}

#[test]
fn patterns() {
    check(None, &["delete_*"], &["delete", "undelete_x"], &["delete_", "Delete_File"]);
    check(None, &["*_file"], &["file", "_files"], &["_file", "a_file_file"]);
    check(None, &["a*b*c"], &["abcd", "acb"], &["abc", "a-b-b-c", "abbcbc"]);
    check(None, &["r?m"], &["rm", "room"], &["ram", "RÄM"]);
    check(None, &["**"], &[], &["", "a"]);
    // Nothing else has a meaning.
    check(None, &["[ab]", "a.c", "x\\*"], &["a", "abc", "x*y"], &["[ab]", "a.c", "x\\y"]);
}

#[test]
fn a_pattern_of_many_stars_does_not_take_long() {
    let pattern = "a*".repeat(500) + "b";
    let name = "a".repeat(10_000);
    check(None, &[&pattern], &[&name], &[&(name.clone() + "b")]);
}
