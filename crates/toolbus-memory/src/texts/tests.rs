//! What texts may be, and how they are shown.

use super::{
    check_content, format_age, format_time_left, group_thousands, make_preview, parse_category,
    parse_line, parse_tags,
};
use crate::Error;

#[test]
fn times_are_short() {
    for (ms, expected) in [(-1, "0s"), (42_999, "42s"), (60_000, "1m0s"), (299_999, "4m59s")] {
        assert_eq!(format_time_left(ms), expected);
    }
    assert_eq!(format_time_left(2 * 3_600_000), "120m0s");
    let ages = [
        (0, "just now"),
        (60_000, "1 minute ago"),
        (7_200_000, "2 hours ago"),
        (86_400_000, "1 day ago"),
        (86_400_000 * 400, "400 days ago"),
    ];
    for (ms, expected) in ages {
        assert_eq!(format_age(ms), expected);
    }
}

#[test]
fn thousands_stand_apart() {
    for (number, expected) in
        [(0, "0"), (999, "999"), (462_000, "462 000"), (1_234_567, "1 234 567")]
    {
        assert_eq!(group_thousands(number, ' '), expected);
    }
}

#[test]
fn lines_are_lines() {
    assert_eq!(parse_line("rule", " a\n b\t c ", 10).unwrap(), "a b c");
    for bad in ["", " \n", "a\0b", "a\u{1b}[2J", &"é".repeat(11)] {
        assert!(matches!(parse_line("rule", bad, 10), Err(Error::Text { .. })), "{bad:?}");
    }
    assert_eq!(parse_category(Some(" ")).unwrap(), None);
    assert_eq!(parse_category(None).unwrap(), None);
    assert!(parse_category(Some("a\0")).is_err());
}

#[test]
fn tags_are_parted_by_commas() {
    assert_eq!(parse_tags(Some(" a, b ,,A,c d")).unwrap(), ["a", "b", "c d"]);
    assert_eq!(parse_tags(None).unwrap(), [""; 0]);
    let many: Vec<_> = (0..21).map(|at| at.to_string()).collect();
    assert!(parse_tags(Some(&many.join(","))).is_err());
}

#[test]
fn a_preview_is_one_line() {
    assert_eq!(make_preview("short"), "short");
    assert_eq!(make_preview(&"é\n".repeat(200)), format!("{}…", "é ".repeat(60)));
    assert_eq!(make_preview(&" ".repeat(1_000_000)), "");
}

#[test]
fn what_is_kept_has_a_size() {
    assert!(matches!(
        check_content("skill", "abcd", 3),
        Err(Error::TooLarge { bytes: 4, max: 3, .. })
    ));
    assert!(matches!(check_content("skill", " \n", 3), Err(Error::Text { .. })));
    assert_eq!(check_content("skill", "a\0b", 3).unwrap(), "a\0b");
}
