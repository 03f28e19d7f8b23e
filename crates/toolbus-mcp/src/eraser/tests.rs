//! What is erased and what is not.

use super::*;

#[test]
fn secrets_are_erased_longest_first_and_short_ones_stay() {
    let eraser =
        Eraser::new(["token-1", "token-12345", "info"].map(|text| Secret::from(text.to_owned())));
    let text = "info: token-12345 and token-1";
    assert_eq!(eraser.erase(text), "info: *** and ***");
    assert!(matches!(eraser.erase("nothing"), Cow::Borrowed("nothing")));
}

#[test]
fn what_one_clone_learns_all_erase_and_the_oldest_is_forgotten() {
    let eraser = Eraser::new([]);
    let clone = eraser.clone();
    let token = |number: usize| Secret::from(format!("token-{number:03}"));
    eraser.add_secrets(&Secret::from("short".to_owned()));
    (0..17).for_each(|number| eraser.add_secrets(&token(number)));
    (0..17).for_each(|_| eraser.add_secrets(&token(16)));
    assert_eq!(clone.erase("short token-000 token-001 token-016"), "short token-000 *** ***");
}

#[test]
fn texts_are_cut_between_characters() {
    assert_eq!(shorten_text("äöü", 6), "äöü");
    assert_eq!(shorten_text("äöü", 5), "äö…");
    assert_eq!(shorten_text("abc", 0), "…");
}
