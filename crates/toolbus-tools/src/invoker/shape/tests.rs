use toolbus_wire::json::RawJson;
use toolbus_wire::message::tool::{ContentBlock, ContentKind};

use super::*;

#[test]
fn a_text_at_the_limit_passes_and_one_above_is_cut_between_characters() {
    let at_limit = "x".repeat(CONTENT_BYTES_MAX);
    assert_eq!(truncate_output(Output::text(&at_limit)), Output::text(&at_limit));
    let above = "x".repeat(CONTENT_BYTES_MAX - 1) + "éé";
    let shaped = truncate_output(Output::text(above)).content.unwrap();
    assert!(shaped.ends_with("x\n[result truncated — 2 chars omitted]"));
}

fn part(bytes: usize) -> ContentBlock {
    let data = Some("A".repeat(bytes));
    ContentBlock { kind: ContentKind::Image, text: None, data, mime_type: None, uri: None }
}

#[test]
fn parts_and_the_value_are_bounded_together() {
    let beside = json_bytes(&part(0));
    let output = Output {
        blocks: vec![part(CONTENT_BYTES_MAX - 2 * beside - 10), part(20), part(5)],
        structured: Some(RawJson::of(&[1, 2, 3])),
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

    let small =
        Output { blocks: vec![part(1)], structured: Some(RawJson::of(&1)), ..Output::default() };
    assert_eq!(truncate_output(small.clone()), small);
}

/// A byte may be six in JSON, and what counts is what is sent.
#[test]
fn what_is_sent_is_bounded_as_json() {
    let texts = ["\0", "\"", "\n\u{1f}", "é\u{7f}\\"].map(|text| text.repeat(CONTENT_BYTES_MAX));
    for text in texts.into_iter().chain(["x".repeat(CONTENT_BYTES_MAX)]) {
        let output = Output {
            blocks: vec![part(CONTENT_BYTES_MAX / 2), part(CONTENT_BYTES_MAX / 3)],
            structured: Some(RawJson::of(&"\0".repeat(CONTENT_BYTES_MAX / 5))),
            ..Output::text(text)
        };
        let shaped = truncate_output(output);
        let parts = json_bytes(&shaped.blocks) + json_bytes(&shaped.structured);
        let bytes = json_bytes(&shaped.content) + parts;
        assert!(bytes < BODY_BYTES_MAX - (60 << 10), "{bytes} bytes");
        assert!(bytes > CONTENT_BYTES_MAX, "no more is cut than has to be: {bytes} bytes");
    }
}
