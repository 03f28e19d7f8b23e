use super::*;

#[test]
fn a_text_at_the_limit_passes_and_one_above_is_cut_between_characters() {
    let at_limit = "x".repeat(CONTENT_BYTES_MAX);
    assert_eq!(shape(Output::text(&at_limit)), Output::text(&at_limit));
    let above = "x".repeat(CONTENT_BYTES_MAX - 1) + "éé";
    let shaped = shape(Output::text(above)).content.unwrap();
    assert!(shaped.ends_with("x\n[result truncated — 2 chars omitted]"));
}
