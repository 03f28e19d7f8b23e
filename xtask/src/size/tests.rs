//! Sums of sections.

use super::sum_sections;

#[test]
fn sections_are_added_up_without_those_of_the_debugger() {
    let listed = "target/debug/x  :\nsection  size  addr\n.text  100  4096\n.rodata  20  8192\n\
                  .debug_line  5000  0\n.bss  3  9000\nTotal  5123\n";
    assert_eq!(sum_sections(listed).expect("a sum"), 123);
}

#[test]
fn a_malformed_list_is_an_error() {
    for listed in ["", "Total 5\n", ".text\n", ".text many 5\n"] {
        assert!(sum_sections(listed).is_err(), "{listed}");
    }
}
