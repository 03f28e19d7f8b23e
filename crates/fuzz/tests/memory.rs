//! Inputs of every kind that are ten times over a limit, or as far as the bytes of such an input
//! go, are refused or cut while little memory is taken: four times the bytes that the input may
//! have.
//!
//! Limits that a crate keeps to itself are repeated here. Some kinds have their test beside their
//! parser: requests to the MCP endpoint and to the tool API, OpenAPI documents, `.docx` documents,
//! references to artifacts, edits of files, questions that a worker answers.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::FutureExt as _;
use serde_json::{Map, Value, json};
use toolbus_a2a::HTTP_BODY_BYTES_MAX;
use toolbus_bus::port::BODY_BYTES_MAX;
use toolbus_embeddings::StaticModel;
use toolbus_json::{DEPTH_MAX, Limits, VALUES_MAX};
use toolbus_mcp::config::{self, Error as ConfigError, SERVERS_MAX, TEXT_BYTES_MAX, Variables};
use toolbus_mcp::{BLOCKS_MAX, MESSAGE_BYTES_MAX, TOOLS_MAX};
use toolbus_memory::ContentChunker;
use toolbus_query::question::{Jq, PROGRAM_BYTES_MAX};
use toolbus_query::{Engine, Question};
use toolbus_schedule::{CRON_BYTES_MAX, CronExpression};
use toolbus_scripts::runner::CHANNEL_BODY_BYTES_MAX;
use toolbus_scripts::supervisor::Requests;
use toolbus_scripts::supervisor::protocol::{Error as ReportError, Report, ReportReader};
use toolbus_testkit::memory::peak_bytes;
use toolbus_tools::call::{
    ARGUMENTS_BYTES_MAX, ARGUMENTS_DEPTH_MAX, ARGUMENTS_VALUES_MAX, Arguments,
};
use toolbus_tools::schema::{SCHEMA_BYTES_MAX, Schema};
use toolbus_wire::Envelope;
use toolbus_wire::frame::{FOREIGN_HEADERS_MAX, Frame, HeaderValue};
use toolbus_wire::message::mcp::{McpRegisterServerRequest, McpServersIndexed};
use toolbus_wire::message::tool::ToolError;

/// By how much inputs are over their limits.
const OVER: usize = 10;
/// How many times the bytes that an input may have its parser may take of memory.
const FACTOR: u64 = 4;
/// What a parser may take however short its inputs are: code and tables that are used for the first
/// time are memory, too.
const LEAST_BYTES: u64 = 8 << 20;

/// What comes of an input that may have so many bytes.
#[track_caller]
fn in_little_memory<T>(bytes_max: usize, read: impl FnOnce() -> T) -> T {
    let most = (FACTOR * bytes_max as u64).max(LEAST_BYTES);
    let before = peak_bytes();
    let read = read();
    let grown = peak_bytes().saturating_sub(before);
    assert!(grown <= most, "{} KiB more, of at most {}", grown >> 10, most >> 10);
    read
}

/// A text with so many of an item between its beginning and its end. Making it takes no more memory
/// than it has.
fn many(begin: &str, item: &str, count: usize, end: &str) -> String {
    const AT_ONCE: usize = 1 << 10;

    let items = item.repeat(AT_ONCE);
    let mut text = String::with_capacity(begin.len() + item.len() * count + end.len());
    text.push_str(begin);
    (0..count / AT_ONCE).for_each(|_| text.push_str(&items));
    (0..count % AT_ONCE).for_each(|_| text.push_str(item));
    text.push_str(end);
    text
}

/// A text with arrays in each other between its beginning and its end.
fn nested(begin: &str, depth: usize, end: &str) -> String {
    [begin, &"[".repeat(depth), &"]".repeat(depth), end].concat()
}

// What all JSON goes through.

#[test]
fn json_of_any_kind() {
    let limits = Limits::of_bytes(8 << 20);
    let texts = [
        (many("[", "0,", OVER * VALUES_MAX, "0]"), "it has more than 262144 values"),
        (many("[", "{},", OVER * VALUES_MAX / 2, "0]"), "it has more than 262144 values"),
        (nested("", OVER * DEPTH_MAX, ""), "it is nested more than 127 deep"),
    ];
    for (text, expected) in &texts {
        let read = || toolbus_json::from_str::<Value>(text, &limits);
        let refused = in_little_memory(limits.bytes, read).expect_err("it is too much");
        assert_eq!(refused.to_string(), *expected);
    }

    let limits = limits.with_string_bytes(1 << 10);
    let text = many("[\"", "x", OVER << 10, "\"]");
    let read = || toolbus_json::from_str::<Value>(&text, &limits);
    let refused = in_little_memory(limits.bytes, read).expect_err("it is too long");
    assert_eq!(refused.to_string(), "it has a string of more than 1024 bytes");
}

// Messages of the bus.

#[test]
fn a_list_in_a_message_of_the_bus() {
    let body = many(r#"{"servers":["#, "0,", OVER * VALUES_MAX, "0]}");
    let read = || toolbus_wire::json::read::<McpServersIndexed>(body.as_bytes());
    let refused = in_little_memory(BODY_BYTES_MAX, read).expect_err("it is too long");
    assert!(refused.to_string().contains("more than 262144 values"), "{refused}");
}

#[test]
fn a_map_in_a_message_of_the_bus() {
    let begin = r#"{"serverName":"s","type":"stdio","env":{"#;
    let body = many(begin, r#""":0,"#, OVER * VALUES_MAX, r#""":0}}"#);
    assert!(body.len() <= BODY_BYTES_MAX);
    let read = || toolbus_wire::json::read::<McpRegisterServerRequest>(body.as_bytes());
    let refused = in_little_memory(BODY_BYTES_MAX, read).expect_err("it is too long");
    assert!(refused.to_string().contains("more than 262144 values"), "{refused}");
}

#[test]
fn free_json_in_a_message_of_the_bus() {
    let begin =
        r#"{"toolCallId":"c","toolName":"t","code":"invalid_arguments","message":"m","details":"#;
    let read = |body: &str| toolbus_wire::json::read::<ToolError>(body.as_bytes());
    assert!(read(&nested(begin, 1, "}")).is_ok());

    let body = many(&format!("{begin}["), "0,", OVER * VALUES_MAX, "0]}");
    let refused = in_little_memory(BODY_BYTES_MAX, || read(&body)).expect_err("it is too long");
    assert!(refused.to_string().contains("more than 262144 values"), "{refused}");

    let body = nested(begin, OVER * DEPTH_MAX, "}");
    assert!(in_little_memory(BODY_BYTES_MAX, || read(&body)).is_err());
}

#[test]
fn properties_of_a_message_of_the_bus() {
    // As a frame has them that is ten times as long as was agreed.
    const FRAME_BYTES_MAX: usize = 32 << 10;
    let value = || HeaderValue::LongString(Cow::Owned(vec![b'x'; 256]));
    let headers = (0..OVER * FOREIGN_HEADERS_MAX).map(|n| (format!("rb-x{n}").into(), value()));
    let frame = Frame { headers: headers.collect(), ..Frame::default() };
    let envelope = in_little_memory(FRAME_BYTES_MAX, || Envelope::from_frame(frame));
    assert_eq!(envelope.headers.len(), FOREIGN_HEADERS_MAX);
}

#[test]
fn amqp_frames() {
    const FRAME_BYTES_MAX: usize = 32 << 10;
    const TABLES_MAX: usize = 8;

    // The properties of a message: type, channel, size, payload and end.
    let size: u32 = 10 << 20;
    let mut stream = vec![2, 0, 1];
    stream.extend(size.to_be_bytes());
    stream.resize(stream.len() + size as usize, b'x');
    stream.push(0xce);
    in_little_memory(FRAME_BYTES_MAX, || toolbus_rabbitmq::fuzzing::stream(&stream));

    let mut table = Vec::new();
    for _ in 0..OVER * TABLES_MAX {
        let length = u32::try_from(table.len()).expect("it is short");
        table = [&[0, b'F'][..], &length.to_be_bytes(), &table].concat();
    }
    let length = u32::try_from(table.len()).expect("it is short");
    // Class, weight and size of the body; the flag of the headers.
    let properties = [&[0; 12][..], &[0x20, 0], &length.to_be_bytes(), &table].concat();
    in_little_memory(FRAME_BYTES_MAX, || toolbus_rabbitmq::fuzzing::payloads(&properties));
}

// Tools and their calls.

#[test]
fn arguments_of_a_call() {
    let values = format!("arguments have more than {ARGUMENTS_VALUES_MAX} values");
    let depth = format!("arguments are nested more than {ARGUMENTS_DEPTH_MAX} deep");
    let count = OVER * ARGUMENTS_VALUES_MAX;
    let texts = [
        (many(r#"{"a":["#, "0,", count, "0]}"), &values),
        // Models write JSON as a text.
        (many(r#""["#, "0,", count, r#"0]""#), &values),
        (nested(r#"{"a":"#, OVER * ARGUMENTS_DEPTH_MAX, "}"), &depth),
    ];
    for (text, expected) in texts {
        let arguments = Arguments::Text(Some(text));
        let read = in_little_memory(ARGUMENTS_BYTES_MAX, || arguments.object());
        assert_eq!(read.expect_err("it is too much").message, *expected);
    }
}

#[test]
fn the_schema_of_a_tool() {
    const LEVELS: usize = 30;
    let mut definitions = Map::new();
    for level in 0..LEVELS {
        let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
        definitions.insert(format!("d{level}"), json!({"allOf": [next, next]}));
    }
    definitions.insert(format!("d{LEVELS}"), json!({"type": "string"}));
    let properties = json!({"a": {"$ref": "#/$defs/d0"}});
    let bomb = json!({"type": "object", "properties": properties, "$defs": definitions});
    let long = json!({"type": "object", "description": "x".repeat(OVER * SCHEMA_BYTES_MAX)});

    for (schema, expected) in [
        (bomb, "with its references written out it has over 100000 values"),
        (long, "are over the limit of 65536"),
    ] {
        let compiled = in_little_memory(SCHEMA_BYTES_MAX, || Schema::compile(&schema));
        let refused = compiled.err().expect("it is too large").to_string();
        assert!(refused.contains(expected), "{refused}");
    }
}

#[test]
fn definitions_of_wisps() {
    const DEFINITIONS_BYTES_MAX: usize = 512 << 10;
    const WISPS_MAX: usize = 100;
    const STEPS_MAX: usize = 20;

    let levels = nested(r#"{"definitions":[{"description":"#, DEPTH_MAX - 3, "}]}");
    for arguments in [
        many(r#"{"definitions":["#, "{},", OVER * WISPS_MAX, "{}]}"),
        many(r#"{"definitions":[{"steps":["#, "{},", OVER * STEPS_MAX, "{}]}]}"),
        many(r#"{"definitions":[{"steps":[{"params":["#, "0,", 30_000, "0]}]}]}"),
        // As JSON in a text.
        many(r#"{"definitions":"[{\"steps\":[{\"params\":["#, "0,", 30_000, r#"0]}]}]"}"#),
        levels,
    ] {
        let check = || toolbus_wisps::fuzzing::wisp_definitions(arguments.as_bytes());
        in_little_memory(DEFINITIONS_BYTES_MAX, check);
    }
}

// What MCP servers write.

/// As many values as ten messages may have. They are refused before they are looked at, so it is
/// the same that the end is missing: the target would build them of a whole text.
#[test]
fn a_message_of_an_mcp_server_with_many_values() {
    const MESSAGE_VALUES_MAX: usize = 512 << 10;
    let begin = r#"{"jsonrpc":"2.0","method":"notifications/message","params":["#;
    let message = many(begin, "0,", OVER * MESSAGE_VALUES_MAX, "");
    assert!(message.len() <= MESSAGE_BYTES_MAX);
    let read = || toolbus_mcp::fuzzing::messages(message.as_bytes());
    in_little_memory(MESSAGE_BYTES_MAX, read);
}

#[test]
fn a_batch_of_messages_of_an_mcp_server() {
    const BATCH_MAX: usize = 64;
    let message = r#"{"jsonrpc":"2.0","method":"notifications/message"},"#;
    let batch = many("[", message, OVER * BATCH_MAX, "{}]");
    in_little_memory(MESSAGE_BYTES_MAX, || toolbus_mcp::fuzzing::messages(batch.as_bytes()));
}

#[test]
fn many_tools_of_an_mcp_server() {
    let mut message = String::with_capacity(64 * OVER * TOOLS_MAX);
    message.push_str(r#"{"jsonrpc":"2.0","id":7,"result":{"tools":["#);
    for number in 0..OVER * TOOLS_MAX {
        let comma = if number == 0 { "" } else { "," };
        write!(message, r#"{comma}{{"name":"t{number}","inputSchema":{{}}}}"#).expect("room");
    }
    message.push_str("]}}");
    in_little_memory(MESSAGE_BYTES_MAX, || toolbus_mcp::fuzzing::listings(message.as_bytes()));
}

#[test]
fn the_result_of_a_tool_of_an_mcp_server() {
    let begin = r#"{"jsonrpc":"2.0","id":7,"result":{"content":["#;
    let block = r#"{"type":"text","text":"x"},"#;
    let message = many(begin, block, OVER * BLOCKS_MAX, r#"{"type":"text","text":"x"}]}}"#);
    in_little_memory(MESSAGE_BYTES_MAX, || toolbus_mcp::fuzzing::messages(message.as_bytes()));
}

#[test]
fn a_file_of_mcp_servers() {
    let parse = |text: &str| config::parse(text, Variables::Refused);
    let mut servers = String::from(r#"{"mcpServers":{"#);
    for number in 0..OVER * SERVERS_MAX {
        let comma = if number == 0 { "" } else { "," };
        write!(servers, r#"{comma}"s{number}":{{}}"#).expect("room");
    }
    servers.push_str("}}");
    let read = in_little_memory(TEXT_BYTES_MAX, || parse(&servers)).expect("it is JSON");
    assert_eq!(read.mistakes[0].what, "there are 5120 servers, more than 512");

    // As many values as there is room for.
    let values = many(r#"{"mcpServers":["#, "0,", TEXT_BYTES_MAX / 2 - 20, "0]}");
    let refused = in_little_memory(TEXT_BYTES_MAX, || parse(&values));
    assert!(matches!(refused, Err(ConfigError::OverLimit(_))), "{refused:?}");
    drop(values);
    let long = " ".repeat(OVER * TEXT_BYTES_MAX);
    let refused = in_little_memory(TEXT_BYTES_MAX, || parse(&long));
    assert!(matches!(refused, Err(ConfigError::TooLong(_))), "{refused:?}");
}

// What models and their APIs write. The targets take an answer as each API has it.

const ANSWER_BYTES_MAX: usize = 64 << 20;
const EVENT_BYTES_MAX: usize = 4 << 20;
const CALLS_MAX: usize = 128;

/// The event of a stream with this delta.
fn chat_event(delta: &str) -> String {
    format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{delta}}}]}}\n\n")
}

#[test]
fn an_event_of_a_model_without_an_end() {
    let stream = many("data: ", "x", OVER * EVENT_BYTES_MAX, "");
    in_little_memory(ANSWER_BYTES_MAX, || toolbus_models::fuzzing::events(stream.as_bytes()));
}

#[test]
fn an_event_of_a_model_with_many_values() {
    // As many values as there is room for.
    let stream = many("data: [", "0,", EVENT_BYTES_MAX / 2 - 20, "0]\n\n");
    in_little_memory(ANSWER_BYTES_MAX, || toolbus_models::fuzzing::answers(stream.as_bytes()));
}

#[test]
fn an_answer_of_a_model_with_many_parts() {
    const PARTS_MAX: usize = 4_096;
    let pair = r#"{"text":"a"},{"thinking":"b"},"#;
    let content = many(r#"{"content":["#, pair, OVER * PARTS_MAX / 2, "{}]}");
    let stream = chat_event(&content);
    drop(content);
    in_little_memory(ANSWER_BYTES_MAX, || toolbus_models::fuzzing::answers(stream.as_bytes()));
}

#[test]
fn an_answer_of_a_model_with_many_calls() {
    let call = |number: usize| {
        let function = r#"{"name":"f","arguments":"{}"}"#;
        format!(r#"{{"index":{number},"id":"c{number}","function":{function}}}"#)
    };
    let calls: Vec<_> = (0..OVER * CALLS_MAX).map(call).collect();
    let stream = chat_event(&format!(r#"{{"tool_calls":[{}]}}"#, calls.join(",")));
    in_little_memory(ANSWER_BYTES_MAX, || toolbus_models::fuzzing::answers(stream.as_bytes()));
}

/// No event has too many values, and all of them together have.
#[test]
fn arguments_of_all_calls_of_an_answer() {
    const CALLS: usize = 100;
    let mut stream = String::with_capacity(2 * OVER * VALUES_MAX + CALLS * 1_000);
    for number in 0..CALLS {
        let arguments = many(r#"{\"a\":["#, "0,", OVER * VALUES_MAX / CALLS, "0]}");
        let function = format!(r#"{{"name":"f","arguments":"{arguments}"}}"#);
        let call = format!(r#"{{"index":{number},"id":"c{number}","function":{function}}}"#);
        stream.push_str(&chat_event(&format!(r#"{{"tool_calls":[{call}]}}"#)));
    }
    stream.push_str("data: [DONE]\n\n");
    in_little_memory(ANSWER_BYTES_MAX, || toolbus_models::fuzzing::answers(stream.as_bytes()));
}

#[test]
fn reasoning_of_all_events_of_an_answer() {
    const EVENTS: usize = 100;
    let mut stream = String::with_capacity(2 * OVER * VALUES_MAX + EVENTS * 1_000);
    for number in 0..EVENTS {
        let data = many("[", "0,", OVER * VALUES_MAX / EVENTS, "0]");
        let detail = format!(r#"{{"type":"t","index":{number},"data":{data}}}"#);
        stream.push_str(&chat_event(&format!(r#"{{"reasoning_details":[{detail}]}}"#)));
    }
    in_little_memory(ANSWER_BYTES_MAX, || toolbus_models::fuzzing::answers(stream.as_bytes()));
}

#[test]
fn calls_in_the_text_of_a_model() {
    const BLOCK_BYTES_MAX: usize = 1 << 20;
    let block = "```tool_call\n{\"name\":\"f\"}\n```\n";
    for text in [
        many("", block, OVER * CALLS_MAX, ""),
        many("```tool_call\n", "x", OVER * BLOCK_BYTES_MAX, "\n```\n"),
    ] {
        let read = || toolbus_models::fuzzing::text_calls(text.as_bytes());
        in_little_memory(ANSWER_BYTES_MAX, read);
    }
}

#[test]
fn an_error_of_an_api_of_models() {
    const ERROR_BYTES_MAX: usize = 64 << 10;
    // The status, no `Retry-After`, and the body.
    for refusal in [
        many("400\n\n{\"error\":[", "0,", OVER * VALUES_MAX, "0]}"),
        many("400\n\n{\"error\":\"", "x", OVER * ERROR_BYTES_MAX, "\"}"),
    ] {
        let read = || toolbus_models::fuzzing::refusals(refusal.as_bytes());
        in_little_memory(ERROR_BYTES_MAX, read);
    }
}

// What other agents write.

#[test]
fn a_request_of_another_agent() {
    const PARTS_MAX: usize = 64;
    // The version, and two more headers that are not there.
    let begin = "1.0\n\n\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"SendMessage\",\"params\":";
    let parts = format!("{begin}{{\"message\":{{\"parts\":[");
    for request in [
        many(&format!("{begin}["), "0,", OVER * VALUES_MAX, "0]}"),
        many(&parts, "{\"text\":\"x\"},", OVER * PARTS_MAX, "{}]}}}"),
        many(begin, " ", OVER * HTTP_BODY_BYTES_MAX, "{}}"),
    ] {
        let read = || toolbus_a2a::fuzzing::requests(request.as_bytes());
        in_little_memory(HTTP_BODY_BYTES_MAX, read);
    }
}

/// The target takes 64 KiB. Values and bytes are those of any JSON.
#[test]
fn an_answer_of_another_agent() {
    const ANSWER_BYTES_MAX: usize = 8 << 20;
    const ARTIFACTS_MAX: usize = 64;
    const PARTS_MAX: usize = 64;
    let begin = r#"{"task":{"id":"t","status":{"state":"completed"},"artifacts":["#;
    for answer in [
        many(begin, r#"{"parts":[{"text":"x"}]},"#, OVER * ARTIFACTS_MAX, "{}]}}"),
        many(&format!("{begin}{{\"parts\":["), r#"{"text":"x"},"#, OVER * PARTS_MAX, "{}]}]}}"),
    ] {
        let read = || toolbus_a2a::fuzzing::answers(answer.as_bytes());
        in_little_memory(ANSWER_BYTES_MAX, read);
    }
}

// Pages, mails and texts.

#[test]
fn a_page() {
    const PAGE_BYTES_MAX: usize = 32 << 20;
    const NODES_MAX: usize = 200_000;
    const DEPTH_MAX: usize = 200;
    const ATTRIBUTE_BYTES_MAX: usize = 4 << 10;
    for page in [
        many("", "<p>x", OVER * NODES_MAX / 2, ""),
        many("", "<div>", OVER * DEPTH_MAX, "x"),
        many("<p ", "a=x ", 100_000, ">x"),
        many("<a href=\"/", "y", OVER * ATTRIBUTE_BYTES_MAX, "\">x</a>"),
    ] {
        let read = || toolbus_toolkits::fuzzing::html_page(page.as_bytes());
        in_little_memory(PAGE_BYTES_MAX, read);
    }
}

#[test]
fn a_mail() {
    const MAIL_BYTES_MAX: usize = 16 << 20;
    const PARTS_MAX: usize = 1_000;
    let multipart = r#"{"mimeType":"multipart/mixed","parts":["#;
    for mail in [
        many(multipart, "{},", OVER * PARTS_MAX, "{}]}"),
        // As deep as any JSON may be, and twice as deep as is looked at.
        format!("{}{{}}{}", multipart.repeat(DEPTH_MAX / 2), "]}".repeat(DEPTH_MAX / 2)),
        many(r#"{"headers":["#, "{},", OVER * PARTS_MAX, "{}]}"),
    ] {
        let read = || toolbus_toolkits::fuzzing::mail(mail.as_bytes());
        in_little_memory(MAIL_BYTES_MAX, read);
    }
}

/// A heading stands in each chunk below it.
#[test]
fn a_long_text_with_a_long_heading() {
    const HEADING_BYTES: usize = 4 << 20;
    const CHUNK_UNITS: usize = 20_000;
    let heading = many("# ", "x", HEADING_BYTES, "\n");
    let text = many(&heading, "word ", HEADING_BYTES / 5, "");
    drop(heading);
    let chunks = in_little_memory(text.len(), || ContentChunker::new(CHUNK_UNITS).chunk(&text));
    assert!(chunks.len() > 400, "{} chunks", chunks.len());
    assert!(chunks.iter().all(|chunk| chunk.heading.len() < 100));
}

#[test]
fn a_packed_body_by_gzip() {
    const BODY_BYTES_MAX: usize = 1 << 20;
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let zeros = vec![0; BODY_BYTES_MAX];
    for _ in 0..OVER {
        encoder.write_all(&zeros).expect("it packs");
    }
    let packed = encoder.finish().expect("it packs");
    in_little_memory(BODY_BYTES_MAX, || toolbus_fetch::fuzzing::packed_body(&packed));
}

/// What it unpacks with is as large as its window, whatever the body may have.
#[test]
fn a_packed_body_by_brotli() {
    const WINDOW_BYTES: usize = 4 << 20;
    // 64 MiB of zeros.
    let packed: &[u8] = &[
        0xcb, 0xff, 0xff, 0x3f, 0x00, 0x24, 0x00, 0xe2, 0xb1, 0x40, 0x72, 0xef, 0xff, 0xf8, 0xff,
        0xff, 0x07, 0x80, 0x04, 0x40, 0x1c, 0x16, 0x80, 0xee, 0xfd, 0x1f, 0xff, 0xff, 0xff, 0x00,
        0x90, 0x00, 0x88, 0xc3, 0x02, 0xd0, 0xbd, 0xff, 0xe3, 0xff, 0xff, 0x1f, 0x00, 0x12, 0x00,
        0x71, 0x58, 0x00, 0xba, 0xf7, 0x7f, 0xfc, 0xff, 0xff, 0x03, 0x40, 0x02, 0x20, 0x0e, 0x0b,
        0x40, 0xf7, 0xfe, 0x8f, 0xff, 0xff, 0x7f, 0x00, 0x48, 0x00, 0xc4, 0x61, 0x01, 0xe8, 0xde,
        0xff, 0xf1, 0xff, 0xff, 0x0f, 0x00, 0x09, 0x80, 0x38, 0x2c, 0x00, 0xdd, 0xfb, 0xbf, 0xfc,
        0xff, 0xff, 0x03, 0x20, 0x01, 0x10, 0x87, 0x05, 0xa0, 0x7b, 0xff, 0x07,
    ];
    in_little_memory(WINDOW_BYTES, || toolbus_fetch::fuzzing::packed_body(packed));
}

// What people and models set.

#[test]
fn a_cron_expression() {
    let text = many("", "0,", OVER * CRON_BYTES_MAX / 2, "0 * * * *");
    let refused = in_little_memory(CRON_BYTES_MAX, || text.parse::<CronExpression>());
    let refused = refused.expect_err("it is too long").to_string();
    assert_eq!(refused, "it has 2569 bytes, and may have 256");
}

#[test]
fn a_settings_file() {
    const FILE_BYTES_MAX: usize = 1 << 20;
    const VALUES_MAX: usize = 16 << 10;
    const DEPTH_MAX: usize = 64;
    for file in [
        many("a = [", "0,", OVER * VALUES_MAX, "0]\n"),
        many("", "a = {}\n", OVER * VALUES_MAX / 2, ""),
        many("", "maybe\n", OVER * VALUES_MAX, ""),
        many("a", ".a", OVER * DEPTH_MAX, " = 1\n"),
        nested("a = ", OVER * DEPTH_MAX, "\n"),
    ] {
        assert!(file.len() <= FILE_BYTES_MAX);
        let read = || toolbus_config::fuzzing::settings_file(file.as_bytes());
        in_little_memory(FILE_BYTES_MAX, read);
    }
}

#[test]
fn a_question_about_a_value() {
    let engine = Engine::new("/nowhere", [toolbus_query::WORKER_MODE]).expect("a thread");
    let filter = "x".repeat(OVER * PROGRAM_BYTES_MAX);
    let question = Question::Jq(Jq { filter, ..Jq::default() });
    let nothing = File::open("/dev/null").expect("Linux has it");
    let limits = toolbus_query::Limits::default();
    let refused = in_little_memory(PROGRAM_BYTES_MAX, || {
        let value = toolbus_query::Value::file(nothing);
        engine.ask(&question, value, &limits).now_or_never().expect("nothing is waited for")
    });
    let refused = refused.expect_err("it is too long").to_string();
    assert_eq!(refused, "the filter has 655360 bytes, 65536 are allowed");
}

/// A value has no limit but that of the memory of the process that looks at it, and one on depth.
#[test]
fn a_value_that_is_asked_about() {
    const DEPTH_MAX: usize = 1_000;
    let value = nested("", OVER * DEPTH_MAX, "");
    in_little_memory(value.len(), || toolbus_query::fuzzing::json_value(value.as_bytes()));
}

// What scripts and their supervisors write.

#[test]
fn reports_of_a_supervisor() {
    const LINE_BYTES_MAX: usize = 64 << 10;
    const REPORTS_MAX: usize = 16 << 10;
    let mut lines = String::new();
    for number in 0..OVER * REPORTS_MAX {
        writeln!(lines, "n {number} mark m").expect("room");
    }
    let read = || ReportReader::new("n").accept(lines.as_bytes());
    assert_eq!(in_little_memory(LINE_BYTES_MAX, read), Err(ReportError::TooMany));

    let line = many("n 0 mark ", "m", OVER * LINE_BYTES_MAX, "");
    let read = || ReportReader::new("n").accept(line.as_bytes());
    assert_eq!(in_little_memory(LINE_BYTES_MAX, read), Err(ReportError::TooLong));
}

#[test]
fn a_request_of_a_script() {
    let piece = vec![b'x'; 32 << 10];
    let pieces = OVER * CHANNEL_BODY_BYTES_MAX / piece.len();
    let refused = in_little_memory(CHANNEL_BODY_BYTES_MAX, || {
        let mut requests = Requests::new(None);
        (0..pieces).try_for_each(|_| {
            let report = Report::Request { number: 0, piece: piece.clone(), is_last: false };
            requests.accept(report).map(drop)
        })
    });
    assert_eq!(refused, Err("request 0 of the script is too long".to_owned()));
}

// Models that run in the process.

#[test]
fn the_tokenizer_of_a_model() {
    const FILE_BYTES_MAX: usize = 64 << 20;
    // As many values as there is room for, four times those that it may have.
    let file = many("[", "0,", FILE_BYTES_MAX / 2 - 20, "0]");
    let read = || toolbus_embeddings::fuzzing::tokenizer_file(file.as_bytes());
    in_little_memory(FILE_BYTES_MAX, read);
}

#[test]
fn the_weights_of_a_model() {
    const HEADER_BYTES_MAX: usize = 4 << 20;
    let length = OVER * HEADER_BYTES_MAX;
    let mut file = Vec::with_capacity(8 + length);
    file.extend((length as u64).to_le_bytes());
    file.resize(8 + length, b' ');
    let read = || StaticModel::from_bytes(&file, b"{}");
    let refused = in_little_memory(HEADER_BYTES_MAX, read).expect_err("it is too long");
    let expected = "its header has more than 4194304 bytes";
    assert!(refused.to_string().contains(expected), "{refused}");
}
