//! Decoding and bounds.

use super::*;

fn decoded(pieces: &[&[u8]]) -> String {
    let mut decoder = Utf8Decoder::default();
    let mut text: String = pieces.iter().map(|piece| decoder.decode(piece)).collect();
    text.push_str(decoder.finish());
    text
}

#[test]
fn pieces_of_characters_are_put_together() {
    let text = "aé漢😀z";
    for cut in 0..=text.len() {
        let (first, second) = text.as_bytes().split_at(cut);
        assert_eq!(decoded(&[first, second]), text, "cut at {cut}");
    }
    let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
    assert_eq!(decoded(&bytes), text);
}

#[test]
fn rubbish_is_replaced_as_the_standard_library_does() {
    let cases: [&[u8]; 6] =
        [b"\xff", b"a\xc3", b"\xe6\xbc", b"\xf0\x9f\x98", b"\xc3\xc3\xa9", b"\xed\xa0\x80x"];
    for case in cases {
        let expected = String::from_utf8_lossy(case);
        assert_eq!(decoded(&[case]), expected);
        let bytes: Vec<&[u8]> = case.chunks(1).collect();
        assert_eq!(decoded(&bytes), expected, "{case:?} byte by byte");
    }
}

#[test]
fn the_limit_cuts_between_characters() {
    let mut kept = BoundedText::default();
    let fill = "x".repeat(OUTPUT_BYTES_MAX - 1);
    assert_eq!(kept.push(&fill).len(), OUTPUT_BYTES_MAX - 1);
    assert_eq!(kept.push("é"), "");
    assert!(kept.0.truncated);
    assert_eq!(kept.push("x"), "", "nothing follows what was left out");
}
