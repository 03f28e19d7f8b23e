use super::*;

#[test]
fn a_text_at_the_limit_passes_and_one_above_is_cut_between_characters() {
    let at_limit = "x".repeat(CONTENT_BYTES_MAX);
    assert_eq!(truncate_output(Output::text(&at_limit)), Output::text(&at_limit));
    let above = "x".repeat(CONTENT_BYTES_MAX - 1) + "éé";
    let shaped = truncate_output(Output::text(above)).content.unwrap();
    assert!(shaped.ends_with("x\n[result truncated — 2 chars omitted]"));
}

#[test]
fn parts_and_the_value_are_bounded_together() {
    let part = |bytes: usize| ContentBlock {
        kind: toolbus_wire::message::tool::ContentKind::Image,
        text: None,
        data: Some("A".repeat(bytes)),
        mime_type: None,
        uri: None,
    };
    let output = Output {
        blocks: vec![part(CONTENT_BYTES_MAX - 10), part(20), part(5)],
        structured: Some(serde_json::json!([1, 2, 3])),
        ..Output::text("text")
    };
    let shaped = truncate_output(output);
    assert_eq!(shaped.blocks.len(), 2, "what fits is kept");
    assert_eq!(shaped.structured, None);
    assert_eq!(
        shaped.content.unwrap(),
        "text\n[result truncated — 1 parts omitted]\n[result truncated — its structured value is \
         omitted]"
    );

    let small = Output { blocks: vec![part(1)], structured: Some(1.into()), ..Output::default() };
    assert_eq!(truncate_output(small.clone()), small);
}
