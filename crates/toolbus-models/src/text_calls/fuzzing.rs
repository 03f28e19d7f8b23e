//! Calls in text as a target of a fuzzer.

use std::sync::LazyLock;

use super::blocks::{BlockParser, Piece};
use super::{CallNumbers, DIALECT, Teller, answer_text, read_calls};
use crate::completion::{Completion, StopReason, TokenUsage};
use crate::dialect::LoweredTools;
use crate::dialect::fuzzing::lowered_tools;
use crate::message::AssistantMessage;
use crate::model::ModelEvent;

static TOOLS: LazyLock<LoweredTools> = LazyLock::new(|| lowered_tools(DIALECT));

/// Reads calls in a text. Asserts that its blocks do not depend on the pieces that it comes in, and
/// that what is told while it comes is what is read of the whole.
pub fn text_calls(bytes: &[u8]) {
    let text = &*String::from_utf8_lossy(bytes);
    let pieces = || text.split_inclusive([' ', '`', '\r', '\n']);
    assert_eq!(take_apart(pieces()), take_apart([text]));

    let (mut told, mut begun) = (String::new(), Vec::new());
    let mut on_event = |event: ModelEvent| match event {
        ModelEvent::Text { delta } => told.push_str(&delta),
        ModelEvent::CallBegun { id, name } => begun.push((id, name)),
        other => panic!("{other:?}"),
    };
    let mut teller = Teller::new(&TOOLS, CallNumbers(0));
    for piece in pieces() {
        teller.feed(piece, &mut on_event);
    }
    teller.end(true, &mut on_event);

    let completion = Completion {
        message: AssistantMessage::text_only(text),
        // Another reason than the end, by which a block without its end would be whole.
        stop: StopReason::Other,
        usage: TokenUsage::default(),
        model: "m".to_owned(),
    };
    if let Ok(read) = read_calls(completion, &TOOLS, &mut CallNumbers(0)) {
        let calls = read.calls().map(|call| (call.id.clone(), call.name.clone()));
        assert_eq!(begun, calls.collect::<Vec<_>>());
        assert_eq!(told, read.text());
        let _ = answer_text(&read.message, &TOOLS);
    }
}

/// The pieces of a text that comes in these parts, with texts in a row as one.
fn take_apart<'a>(parts: impl IntoIterator<Item = &'a str>) -> Vec<Piece> {
    let mut parser = BlockParser::default();
    let mut pieces = Vec::new();
    for part in parts {
        parser.feed(part, &mut pieces);
    }
    parser.end(&mut pieces);

    let mut joined: Vec<Piece> = Vec::new();
    for piece in pieces {
        match (joined.last_mut(), piece) {
            (Some(Piece::Text(text)), Piece::Text(more)) => text.push_str(&more),
            (_, piece) => joined.push(piece),
        }
    }
    joined
}
