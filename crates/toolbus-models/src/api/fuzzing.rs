//! What APIs answer as targets of a fuzzer.

use std::collections::HashSet;
use std::sync::LazyLock;
use std::time::SystemTime;

use reqwest::header::{HeaderMap, HeaderValue, RETRY_AFTER};
use serde_json::Value;
use toolbus_json::{from_slice, from_str, from_trusted};

use super::answer::{Answer, CALLS_MAX};
use super::anthropic::AnthropicStream;
use super::arguments::read_arguments;
use super::chat::{ChatFlavour, ChatStream};
use super::refusal;
use super::retry_after::read_retry_after;
use super::sse::{EventTooLarge, SseEvent, SseParser};
use super::stream::{AnswerStream, Progress};
use super::wire_ids::WireIds;
use crate::completion::Completion;
use crate::dialect::fuzzing::lowered_tools;
use crate::dialect::{Dialect, LoweredTools};
use crate::error::ModelError;
use crate::json_text::{ANSWER_LIMITS, read_json};
use crate::model::ModelEvent;

static OPENAI_TOOLS: LazyLock<LoweredTools> = LazyLock::new(|| lowered_tools(Dialect::OpenAiChat));
static ANTHROPIC_TOOLS: LazyLock<LoweredTools> =
    LazyLock::new(|| lowered_tools(Dialect::Anthropic));

/// Most pieces that a stream is cut into.
const PIECES_MAX: usize = 512;

/// Takes a stream of events apart. Asserts that they do not depend on the pieces that it comes in.
pub fn events(bytes: &[u8]) {
    let pieces = bytes.chunks(bytes.len().div_ceil(PIECES_MAX).max(1));
    assert_eq!(read_events(pieces), read_events([bytes]));
}

fn read_events<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Vec<SseEvent>, EventTooLarge> {
    let mut parser = SseParser::default();
    let mut events = Vec::new();
    for piece in pieces {
        parser.push(piece);
        while let Some(event) = parser.next()? {
            events.push(event);
        }
    }
    events.extend(parser.end());
    Ok(events)
}

/// Reads a stream of events as an answer of every API. Asserts that what was told is in the answer,
/// that its calls are such as a session takes, and that it is read again from what is written.
pub fn answers(bytes: &[u8]) {
    let Ok(events) = read_events([bytes]) else { return };
    for flavour in [ChatFlavour::OpenRouter, ChatFlavour::Compatible] {
        check_answer(&events, &OPENAI_TOOLS, |answer| {
            AnswerStream::Chat(ChatStream::new(answer, flavour))
        });
    }
    check_answer(&events, &ANTHROPIC_TOOLS, |answer| {
        AnswerStream::Anthropic(AnthropicStream::new(answer))
    });
}

fn check_answer(
    events: &[SseEvent],
    tools: &LoweredTools,
    stream_of: impl for<'a> FnOnce(Answer<'a>) -> AnswerStream<'a>,
) {
    let mut told = String::new();
    let mut on_event = |event: ModelEvent| {
        if let ModelEvent::Text { delta } = event {
            told.push_str(&delta);
        }
    };
    let stream = stream_of(Answer::new("m", tools, &mut on_event));
    let completion = match complete(stream, events) {
        Ok(completion) => Some(completion),
        Err(error) => error.partial.map(|partial| *partial),
    };
    let Some(completion) = completion else {
        assert_eq!(told, "");
        return;
    };

    assert_eq!(completion.text(), told);
    let ids: HashSet<&str> = completion.calls().map(|call| &*call.id).collect();
    assert!(ids.len() <= CALLS_MAX && ids.len() == completion.calls().count());
    let wire_ids = WireIds::default().of_answer(&completion.message);
    assert_eq!(wire_ids.iter().collect::<HashSet<_>>().len(), ids.len());
    for call in completion.calls() {
        let arguments = read_json(&call.written_arguments());
        assert!(arguments.is_ok_and(|arguments| arguments.is_object()), "{call:?}");
    }

    // Sessions are stored.
    let written = serde_json::to_string(&completion).expect("only texts are names");
    assert_eq!(from_trusted::<Completion>(&written).ok(), Some(completion));
}

fn complete(mut stream: AnswerStream<'_>, events: &[SseEvent]) -> Result<Completion, ModelError> {
    for event in events {
        match stream.feed(event) {
            Ok(Progress::More) => {}
            Ok(Progress::Done) => return stream.finish(Progress::Done),
            Err(kind) => return Err(stream.break_off(kind)),
        }
    }
    stream.finish(Progress::More)
}

/// Reads a text as JSON of a model and as the arguments of a call. Asserts that what is JSON by all
/// rules is read as that, and that arguments are an object.
pub fn json(bytes: &[u8]) {
    let text = &*String::from_utf8_lossy(bytes);
    let read = read_json(text);
    if let Ok(strictly) = from_str::<Value>(text, &ANSWER_LIMITS) {
        assert_eq!(read.ok(), Some(strictly));
    }

    for tool in [None, OPENAI_TOOLS.find("find_files"), ANTHROPIC_TOOLS.find("find_files")] {
        let arguments = read_arguments(text.to_owned(), tool);
        assert!(arguments.written.is_none_or(|written| written == text));
        assert!(arguments.arguments.value().is_none_or(Value::is_object));
    }
}

/// Reads a refusal: a line with its status, one with its `Retry-After`, and its body. Asserts that
/// no control character is passed on.
pub fn refusals(bytes: &[u8]) {
    let mut parts = bytes.splitn(3, |byte| *byte == b'\n');
    let mut part = || parts.next().unwrap_or_default();
    let status = std::str::from_utf8(part()).ok().and_then(|text| text.parse().ok());
    let (wait, body) = (HeaderValue::from_bytes(part()), part());

    let mut headers = HeaderMap::new();
    if let Ok(wait) = wait {
        headers.insert(RETRY_AFTER, wait);
    }
    let wait = read_retry_after(&headers, SystemTime::UNIX_EPOCH);
    let _ = refusal::of_response(status.unwrap_or(400), body, wait);
    if let Ok(event) = from_slice::<Value>(body, &ANSWER_LIMITS) {
        let _ = refusal::in_stream(&event);
    }
    let text = refusal::bounded(&String::from_utf8_lossy(body));
    assert!(!text.chars().any(char::is_control), "{text:?}");
}
