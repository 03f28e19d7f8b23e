//! Which part of a value is read at a time.

use super::Window;

#[test]
fn a_value_is_read_in_parts() {
    let read = |offset, value: &str| Window { offset, units_max: 4 }.of(value.to_owned());
    assert_eq!(read(0, "abcd"), "abcd");
    let first = "abcd\n[characters 0 to 4 of 6; the next part begins at offset 4]";
    assert_eq!(read(0, "abcdef"), first);
    assert_eq!(read(4, "abcdef"), "ef\n[characters 4 to 6 of 6]");
    assert_eq!(read(9, "abcdef"), "\n[characters 6 to 6 of 6]");
    assert_eq!(read(u64::MAX, ""), "");
    let cut = "abc\n[characters 0 to 3 of 5; the next part begins at offset 3]";
    assert_eq!(read(0, "abc\u{1F980}"), cut);
    assert_eq!(read(4, "abc\u{1F980}"), "\u{1F980}\n[characters 3 to 5 of 5]");
}
