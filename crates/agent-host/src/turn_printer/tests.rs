use super::*;

#[test]
fn a_line_is_not_wider_than_the_terminal() {
    assert_eq!(shortened("short", 10), "short");
    assert_eq!(shortened("exactly 10", 10), "exactly 10");
    assert_eq!(shortened("longer than ten", 10), "longer th…");
    assert_eq!(shortened("two\nlines", 10), "tw…");
    assert_eq!(shortened("one\n", 10), "one");
    assert_eq!(shortened("äöüäöüäöüäöü", 10), "äöüäöüäöü…");
}
