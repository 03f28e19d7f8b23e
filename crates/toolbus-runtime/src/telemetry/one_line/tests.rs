//! What becomes of line ends.

use super::*;

#[test]
fn only_the_last_line_end_stays() {
    let check = |line: &str, expected: &str| {
        let mut written = Vec::new();
        OneLine(&mut written).write_all(line.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), expected);
    };
    check("a line\n", "a line\n");
    check("one\r\ntwo\n\n", "one\\r\\ntwo\\n\n");
    check("no end\nhere", "no end\\nhere");
}
