//! Which test programs get a cluster.

use std::path::Path;

use super::needs_cluster;

#[test]
fn only_programs_of_that_name_get_one() {
    let check = |file: &str, expected| assert_eq!(needs_cluster(Path::new(file)), expected);
    check("/target/debug/deps/cluster-0123456789abcdef", true);
    check("cluster-0123456789abcdef", true);
    check("/target/debug/deps/sub-cluster-0123456789abcdef", false);
    check("/cluster-x/deps/sandbox-0123456789abcdef", false);
    check("/target/debug/cluster", false);
}
