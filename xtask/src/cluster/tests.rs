//! Which test programs get a cluster.

use std::path::Path;

use super::target_name;

#[test]
fn programs_are_known_by_the_name_of_their_target() {
    let check = |file: &str, expected| assert_eq!(target_name(Path::new(file)), expected);
    check("/target/debug/deps/cluster-0123456789abcdef", Some("cluster"));
    check("ship-0123456789abcdef", Some("ship"));
    check("/target/debug/deps/sub-cluster-0123456789abcdef", Some("sub-cluster"));
    check("/cluster-x/deps/sandbox-0123456789abcdef", Some("sandbox"));
    check("/target/debug/cluster", None);
}
