use proptest::prelude::*;
use serde_json::{Map, json};

use super::super::answer::Answer;
use super::super::chat::ChatFlavour;
use super::super::sse::SseParser;
use super::*;
use crate::dialect::{Dialect, Listing, LoweredTools, lower};
use crate::message::CallArguments;
use crate::model::ModelEvent;

fn tools(dialect: Dialect) -> LoweredTools {
    lower(dialect, &[], &Listing::default())
}

/// What is told of a stream that comes in these pieces, and the answer.
fn read<'a>(
    dialect: Dialect,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<ModelEvent>, Result<Completion, ModelError>) {
    let tools = tools(dialect);
    let mut events = Vec::new();
    let mut on_event = |event| events.push(event);
    let answer = Answer::new("m", &tools, &mut on_event);
    let mut stream = match dialect {
        Dialect::Anthropic => AnswerStream::Anthropic(AnthropicStream::new(answer)),
        _ => AnswerStream::Chat(ChatStream::new(answer, ChatFlavour::OpenRouter)),
    };

    let mut parser = SseParser::default();
    let mut progress = Progress::More;
    for piece in pieces {
        parser.push(piece);
        while let Some(event) = parser.next().expect("they are small") {
            progress = stream.feed(&event).expect("they are right");
        }
    }
    let completion = stream.finish(progress);
    (events, completion)
}

fn chat_stream() -> String {
    let delta = |delta: Value| json!({"choices": [{"index": 0, "delta": delta}]});
    let call = |index: u64, name: &str, arguments: &str| {
        let function = json!({"name": name, "arguments": arguments});
        delta(json!({"tool_calls": [{"index": index, "id": name, "function": function}]}))
    };
    let detail = json!({"type": "reasoning.text", "text": "é", "index": 0});
    let chunks = [
        delta(json!({"reasoning": "é", "reasoning_details": [detail]})),
        delta(json!({"content": "Hé\u{1F980}"})),
        delta(json!({"content": "llo\r\n"})),
        call(0, "one", "{\"q\":"),
        call(0, "one", "\"\u{1F980}\"}"),
        call(1, "two", "{"),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}),
        json!({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 9}}),
    ];
    let chunks = chunks.iter().map(|chunk| format!("data: {chunk}\r\n\r\n"));
    chunks.chain([": done\n\ndata: [DONE]\n\n".to_owned()]).collect()
}

fn anthropic_stream() -> String {
    let start = |index: u64, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
    let delta = |index: u64, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    let stop = |index: u64| json!({"type": "content_block_stop", "index": index});
    let usage = json!({"input_tokens": 7, "output_tokens": 1});
    let events = [
        json!({"type": "message_start", "message": {"model": "m-1", "usage": usage}}),
        start(0, json!({"type": "thinking", "thinking": ""})),
        delta(0, json!({"type": "thinking_delta", "thinking": "é"})),
        delta(0, json!({"type": "signature_delta", "signature": "c2ln"})),
        stop(0),
        start(1, json!({"type": "text", "text": ""})),
        delta(1, json!({"type": "text_delta", "text": "Hé\u{1F980}"})),
        stop(1),
        start(2, json!({"type": "tool_use", "id": "a", "name": "one", "input": {}})),
        delta(2, json!({"type": "input_json_delta", "partial_json": "{\"q\":"})),
        delta(2, json!({"type": "input_json_delta", "partial_json": "\"\u{1F980}\"}"})),
        stop(2),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"},
            "usage": {"output_tokens": 9}}),
        json!({"type": "message_stop"}),
    ];
    let events = events.iter().map(|event| {
        format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default())
    });
    events.collect()
}

#[test]
fn the_streams_of_this_test_are_answers() {
    for (dialect, stream) in
        [(Dialect::OpenAiChat, chat_stream()), (Dialect::Anthropic, anthropic_stream())]
    {
        let (events, completion) = read(dialect, [stream.as_bytes()]);
        let completion = completion.expect("it is whole");
        assert!(events.len() >= 3, "{events:?}");
        assert!(completion.text().starts_with("Hé\u{1F980}"));
        assert!(completion.calls().count() >= 1);
        assert_eq!((completion.usage.input, completion.usage.output), (7, 9));
    }
}

/// What becomes of an answer of these events.
fn take(dialect: Dialect, events: &[Value]) -> Result<Completion, ErrorKind> {
    let tools = tools(dialect);
    let mut on_event = |_| {};
    let answer = Answer::new("m", &tools, &mut on_event);
    let mut stream = match dialect {
        Dialect::Anthropic => AnswerStream::Anthropic(AnthropicStream::new(answer)),
        _ => AnswerStream::Chat(ChatStream::new(answer, ChatFlavour::OpenRouter)),
    };
    for event in events {
        stream.feed(&SseEvent { name: String::new(), data: event.to_string() })?;
    }
    stream.finish(Progress::Done).map_err(|error| error.kind)
}

/// A fifth of the values that an answer may have, and a little more.
fn many() -> Vec<u8> {
    vec![0; toolbus_json::VALUES_MAX / 5 + 10]
}

fn detail(detail: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": {"reasoning_details": [detail]}}]})
}

#[test]
fn what_an_api_wants_back_is_bounded_in_all_events_together() {
    let start = |block: Value| json!({"type": "content_block_start", "content_block": block});
    let hosted = |number: usize| {
        let input = json!({"a": many()}).to_string();
        let delta = json!({"type": "input_json_delta", "partial_json": input});
        [
            start(json!({"type": "server_tool_use", "id": number.to_string()})),
            json!({"type": "content_block_delta", "delta": delta}),
            json!({"type": "content_block_stop"}),
        ]
    };
    let named = |number: usize| format!("data{number}");
    let chat = Dialect::OpenAiChat;
    let answers: [(_, Vec<Value>); 4] = [
        (chat, (0..5).map(|n| detail(json!({"index": n, "data": many()}))).collect()),
        (chat, (0..5).map(|n| detail(json!({"index": 0, named(n): many()}))).collect()),
        (
            Dialect::Anthropic,
            (0..5).map(|_| start(json!({"type": "redacted", "data": many()}))).collect(),
        ),
        (Dialect::Anthropic, (0..5).flat_map(hosted).collect()),
    ];

    for (dialect, events) in answers {
        let refused = take(dialect, &events);
        let Err(ErrorKind::TooLarge { limit }) = refused else { panic!("{dialect:?} takes it") };
        assert_eq!(limit, "more than 262144 values");
    }
}

#[test]
fn pieces_of_reasoning_that_repeat_themselves_are_not_counted() {
    let members: Map<String, Value> = (0..100).map(|n| (format!("m{n}"), Value::Null)).collect();
    let pieces = vec![Value::Object(members); 1_500];
    let event = json!({"choices": [{"index": 0, "delta": {"reasoning_details": pieces}}]});
    assert!(take(Dialect::OpenAiChat, &[event.clone(), event]).is_ok());
}

#[test]
fn arguments_are_bounded_in_all_calls_together() {
    let call = |index: usize| {
        let arguments = json!({"a": many()}).to_string();
        let function = json!({"name": "f", "arguments": arguments});
        json!({"choices": [{"delta": {"tool_calls": [{"index": index, "function": function}]}}]})
    };
    let events: Vec<Value> = (0..6).map(call).collect();
    let completion = take(Dialect::OpenAiChat, &events).expect("it is whole");
    let is_read: Vec<bool> =
        completion.calls().map(|call| call.arguments.value().is_some()).collect();
    assert_eq!(is_read, [true, true, true, true, false, false]);
    let last = completion.calls().last().expect("a call");
    let CallArguments::NotJson { problem, .. } = &last.arguments else { panic!("too much") };
    assert_eq!(problem, "the answer has more than 262144 values");
}

proptest! {
    /// However the bytes of an answer are cut, also within a character, it is the same answer.
    #[test]
    fn answers_do_not_depend_on_the_pieces(
        is_chat in any::<bool>(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let (dialect, stream) = match is_chat {
            true => (Dialect::OpenAiChat, chat_stream()),
            false => (Dialect::Anthropic, anthropic_stream()),
        };
        let bytes = stream.as_bytes();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]);
        prop_assert_eq!(read(dialect, pieces), read(dialect, [bytes]));
    }

    /// Whatever an API sends, it is taken or refused.
    #[test]
    fn any_event_is_taken_or_refused(
        is_chat in any::<bool>(),
        values in prop::collection::vec(any_event(), 0..6),
    ) {
        let dialect = if is_chat { Dialect::OpenAiChat } else { Dialect::Anthropic };
        let tools = tools(dialect);
        let mut on_event = |_| {};
        let answer = Answer::new("m", &tools, &mut on_event);
        let mut stream = match dialect {
            Dialect::Anthropic => AnswerStream::Anthropic(AnthropicStream::new(answer)),
            _ => AnswerStream::Chat(ChatStream::new(answer, ChatFlavour::OpenRouter)),
        };
        for value in values {
            let event = SseEvent { name: String::new(), data: value.to_string() };
            let _ = stream.feed(&event);
        }
        let _ = stream.finish(Progress::Done);
    }
}

/// Events with the members that the APIs have, and anything in them.
fn any_event() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(vec![
            "",
            "text",
            "thinking",
            "tool_use",
            "text_delta",
            "input_json_delta",
            "{}",
            "stop",
            "message_start",
            "message_delta",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "server_tool_use",
            "reasoning.text",
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        let name = prop::sample::select(vec![
            "choices",
            "delta",
            "content",
            "tool_calls",
            "index",
            "id",
            "function",
            "name",
            "arguments",
            "finish_reason",
            "usage",
            "type",
            "content_block",
            "text",
            "message",
            "stop_reason",
            "partial_json",
            "input",
            "signature",
            "reasoning_details",
            "thinking",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::vec((name, inner), 0..6).prop_map(|members| {
                members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
            }),
        ]
    })
}
