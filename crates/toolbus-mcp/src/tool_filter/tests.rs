//! The two lists against names.

use super::*;

fn check(allowed: &[&str], denied: &[&str], permitted: &[&str], refused: &[&str]) {
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
    check(&[], &[], &["echo", ""], &[]);
    check(&[], &["Echo"], &["sum", "echo2"], &["echo", "ECHO"]);
    check(&["echo"], &[], &["Echo"], &["sum"]);
    check(&["echo"], &["echo"], &["echo"], &["sum"]);
}
