use super::*;

#[test]
fn files_end_as_their_type_says() {
    let check = |media_type, ending| assert_eq!(file_ending(media_type), ending, "{media_type}");
    check("image/png", "png");
    check("IMAGE/JPEG; quality=1", "jpg");
    check("application/problem+json", "json");
    check("text/x-rust", "txt");
    check("application/x-unknown", "bin");
    check("../../etc/passwd", "bin");
}

#[test]
fn a_media_type_is_kept_where_it_is_one() {
    let check = |given: &str, kept: &str| assert_eq!(checked(Some(given), "a/b"), kept, "{given}");
    check("Text/Plain; charset=UTF-8", "text/plain; charset=utf-8");
    for lie in ["", "png", "image/", "/png", "image/p ng", "a/b\nc", "ä/b", &"a/b".repeat(100)] {
        check(lie, "a/b");
    }
    assert_eq!(checked(None, "a/b"), "a/b");
}

#[test]
fn text_is_told_from_other_bytes() {
    assert!(is_text("text/csv; header=present"));
    assert!(is_text("application/json"));
    assert!(is_text("application/atom+xml"));
    assert!(!is_text("image/png"));
    assert!(!is_text("application/octet-stream"));
}
