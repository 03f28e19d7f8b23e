//! Quantities and what they are.

use super::whole_number;

#[test]
fn quantities_are_read_as_the_cluster_reads_them() {
    let check = |text: &str, expected| assert_eq!(whole_number(text), expected, "{text}");
    check("256Mi", Some(256 << 20));
    check("1.5Gi", Some(3 << 29));
    check("2G", Some(2_000_000_000));
    check("1024", Some(1024));
    check("1e3", Some(1000));
    check("500m", None);
    check("-1", None);
    check("", None);
}
