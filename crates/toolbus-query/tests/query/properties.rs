//! Slices and lines of any bytes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use toolbus_query::question::{Lines, Slice};
use toolbus_query::{Answer, Encoding, Question, Value};

use super::support::{engine, file, limits, runtime};

fn bytes_of(answer: &Answer) -> Vec<u8> {
    match answer.encoding {
        Encoding::Text => answer.text.clone().into_bytes(),
        Encoding::Base64 => STANDARD.decode(&answer.text).expect("base64"),
    }
}

/// Text, and what is not.
fn value() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        "[a-zé€😀\r\n]{0,8}".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

/// Asks for what follows until there is no more, and puts it together.
fn collect(value: &[u8], mut next: impl FnMut(u64) -> (Question, bool)) -> Vec<u8> {
    let (engine, limits, runtime) = (engine(), limits(), runtime());
    let mut collected = Vec::new();
    loop {
        let offset = collected.len() as u64;
        let (question, is_file) = next(offset);
        let asked = if is_file {
            Value::file(file(value))
        } else {
            Value::stream(std::io::Cursor::new(value.to_vec()))
        };
        let answer = runtime.block_on(engine.ask(&question, asked, &limits)).expect("an answer");
        let range = answer.range.expect("an exact part");
        let bytes = bytes_of(&answer);
        assert_eq!((range.start, range.end), (offset, offset + bytes.len() as u64));
        collected.extend(bytes);
        match answer.more {
            Some(more) => assert_eq!(more.next_offset, Some(range.end)),
            None => return collected,
        }
        assert!(range.end > range.start, "it goes on");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn slices_concatenate_to_the_value(
        value in value(),
        cuts in prop::collection::vec((1_u64..20, any::<bool>()), 1..8),
    ) {
        let mut cuts = cuts.iter().cycle();
        let collected = collect(&value, |offset| {
            let (length, is_file) = *cuts.next().expect("there is no end of them");
            (Question::Slice(Slice { offset, length: Some(length) }), is_file)
        });
        prop_assert_eq!(collected, value);
    }

    #[test]
    fn lines_concatenate_to_the_value(
        value in value(),
        cuts in prop::collection::vec((1_u64..4, any::<bool>()), 1..8),
    ) {
        prop_assume!(!value.is_empty());
        let mut cuts = cuts.iter().cycle();
        let collected = collect(&value, |offset| {
            let passed = &value[..offset as usize];
            // A part ends within a line where its last character is cut.
            let is_start = passed.is_empty() || passed.ends_with(b"\n");
            let from_line = passed.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
            let (lines, is_file) = *cuts.next().expect("there is no end of them");
            let question = if is_start {
                Question::Lines(Lines { from_line, lines: Some(lines) })
            } else {
                Question::Slice(Slice { offset, length: None })
            };
            (question, is_file)
        });
        prop_assert_eq!(collected, value);
    }
}
