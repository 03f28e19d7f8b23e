use proptest::prelude::*;
use toolbus_tools::view::matches_pattern;

use super::*;

fn glob(text: &str) -> Glob {
    Glob::parse(text).unwrap()
}

fn covers(general: &str, specific: &str) -> bool {
    glob(general).covers(&glob(specific).symbols())
}

#[test]
fn what_is_no_glob_is_told_why() {
    let check = |text: &str, expected: Error| assert_eq!(Glob::parse(text), Err(expected));
    check("", Error::Empty);
    check(&"a".repeat(ID_BYTES_MAX + 1), Error::TooLong(ID_BYTES_MAX + 1));
    check("a\n", Error::ControlCharacter);
    check(" a", Error::OuterSpace);
    check("a**b", Error::DoubleStar);
}

#[test]
fn a_glob_covers_what_matches_less() {
    for (general, specific, expected) in [
        ("*", "a", true),
        ("*", "*", true),
        ("a", "*", false),
        ("a*", "a", true),
        ("a*", "ab*", true),
        ("ab*", "a*", false),
        ("a*b", "a*c*b", true),
        ("a*b", "ab", true),
        ("a*b", "a*", false),
        ("*a*", "*ba*", true),
        ("*a*a*", "*a*", false),
        // A star alone is not enough for a literal of the other.
        ("*a", "*", false),
        ("a*a", "a", false),
        ("é*", "é", true),
    ] {
        assert_eq!(covers(general, specific), expected, "{general} covers {specific}");
    }
}

/// Every text of these letters up to a length.
fn texts(letters: &[char], length_max: usize) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut from = 0;
    for _ in 0..length_max {
        let until = all.len();
        for at in from..until {
            for letter in letters {
                all.push(format!("{}{letter}", all[at]));
            }
        }
        from = until;
    }
    all
}

fn small_glob() -> impl Strategy<Value = String> {
    "[ab*]{1,6}".prop_filter("one star stands for any text", |text| !text.contains("**"))
}

proptest! {
    #[test]
    fn a_glob_matches_what_a_view_matches(pattern in small_glob(), text in "[ab]{0,8}") {
        prop_assert_eq!(glob(&pattern).matches(&text), matches_pattern(&pattern, &text));
    }

    /// Beside the letters of the patterns there has to be one that neither has. Where a pattern is
    /// not covered, a text of its own length shows it.
    #[test]
    fn covering_is_as_brute_force_finds_it(general in small_glob(), specific in small_glob()) {
        let all = texts(&['a', 'b', 'c'], 6);
        let found = all.iter().all(|text| {
            !matches_pattern(&specific, text) || matches_pattern(&general, text)
        });
        prop_assert_eq!(covers(&general, &specific), found);
    }

    #[test]
    fn a_sample_matches(pattern in small_glob(), star in "[abc]{0,2}") {
        let glob = glob(&pattern);
        prop_assert!(glob.matches(&glob.sample(&star)));
        prop_assert!(glob.sample(&star).contains(glob.longest_literal()));
    }
}
