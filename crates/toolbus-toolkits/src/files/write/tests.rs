//! Replacing text.

use super::*;

#[track_caller]
fn check(text: &str, (old, new, all): (&str, &str, bool), expected: Result<(&str, usize), &str>) {
    let edit = Edit { old, new, all };
    match (edit.count(text), expected) {
        (Ok(count), Ok(expected)) => {
            let changed = edit.apply(text);
            assert_eq!((changed.as_str(), count), expected);
            assert_eq!(edit.bytes_after(text, count), changed.len() as u64);
        }
        (Err(reason), Err(part)) => assert!(reason.contains(part), "{reason}"),
        (found, expected) => panic!("{found:?}, not {expected:?}"),
    }
}

#[test]
fn exactly_one_occurrence_is_replaced() {
    check("one two", ("two", "2", false), Ok(("one 2", 1)));
    check("one two", ("two", "", true), Ok(("one ", 1)));
    check("one two two", ("two", "2", false), Err("2 times"));
    check("one two two", ("two", "2", true), Ok(("one 2 2", 2)));
    check("one", ("two", "2", true), Err("not found"));
    check("a\r\nb", ("a\nb", "", false), Err("\\r\\n"));
    check("one", ("", "2", false), Err("empty"));
    check("one", ("one", "one", false), Err("the same"));
}

#[test]
fn occurrences_that_overlap_are_not_one() {
    check("aaa", ("aa", "b", false), Err("2 times"));
    check("ääa", ("ä", "b", true), Ok(("bba", 2)));
    assert_eq!(count_occurrences("äää", "ää"), 2);
}

/// Each of them would have to be compared to its end.
#[test]
fn of_many_that_overlap_only_some_are_counted() {
    assert_eq!(count_occurrences(&"a".repeat(2_000), &"a".repeat(1_000)), 2);
    assert_eq!(count_occurrences(&"a".repeat(1_999), &"a".repeat(1_000)), 2);
    assert_eq!(count_occurrences(&"a".repeat(1_000), &"a".repeat(1_000)), 1);
}
