//! What must hold of anything that a server sends: no reader of it panics, what is kept is bounded,
//! and a credential never comes through. For tests and a fuzzer.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use futures_util::{FutureExt as _, stream};
use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, GetExtensions as _, JsonRpcMessage,
    RequestId,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio_util::io::StreamReader;
use toolbus_bus::{Asker, Progress};
use toolbus_json::{count_values, from_trusted};
use toolbus_tools::hidden_text;
use toolbus_wire::json::RawJson;
use toolbus_wire::message::Secret;

use super::batch::{BATCH_MAX, Batch};
use super::bounded_lines::{CutLine, Line, LineReader};
use super::intercept::{CallTag, InterceptedTransport, WireState};
use super::sse_events::{Event, EventReader};
use super::stdio::{ParsedLine, parse_line};
use crate::call_result::{BLOCKS_MAX, CallResult, RESULT_BYTES_MAX, block_bytes};
use crate::catalogue::Listing;
use crate::eraser::Eraser;
use crate::tool_filter::ToolFilter;
use crate::trust::definition::Definition;

/// A credential that JSON has to escape, and one that it may take for a number.
const CREDENTIALS: [&str; 2] = ["tok\"é-123456", "31415926535"];
/// Longest line and event that is taken, in bytes: less than the corpus has, and more than what is
/// kept of one that is longer.
const STREAM_BYTES_MAX: usize = 600;
/// The request that every message may answer.
pub(crate) const CALL: i64 = 7;
/// How many messages of a batch, and how many members of an object, are looked at each.
const LOOKED_AT_MAX: usize = 16;

fn eraser() -> Eraser {
    let secrets = || CREDENTIALS.map(|text| Secret::from(text.to_owned()));
    Eraser::new(secrets()).with_credentials(secrets())
}

/// A connection with one call under way.
pub(crate) fn wire() -> (Arc<WireState>, CallTag) {
    let wire = WireState::new("s", eraser());
    let params = RawJson::parse(r#"{"name":"t"}"#.to_owned()).expect("it is JSON");
    let tag = CallTag::new(Progress::none(), Asker::none(), params);
    let mut request =
        ClientRequest::CallToolRequest(CallToolRequest::new(CallToolRequestParams::new("t")));
    request.extensions_mut().insert(tag.clone());
    let request: TxJsonRpcMessage<RoleClient> =
        JsonRpcMessage::request(request, RequestId::Number(CALL));
    wire.record_outgoing(&request);
    (wire, tag)
}

/// Every text of a JSON value, as a reader that takes anything reads it.
#[derive(Debug, Default)]
struct Texts(Vec<String>);

impl Texts {
    fn of(text: &str) -> Self {
        let mut texts = Self::default();
        let mut rest = text;

        while let Some(from) = rest.find('"') {
            let token = &rest[from..];
            let mut bytes = token.bytes().enumerate().skip(1);
            let mut end = token.len();
            while let Some((at, byte)) = bytes.next() {
                match byte {
                    b'\\' => drop(bytes.next()),
                    b'"' => {
                        end = at + 1;
                        break;
                    }
                    _ => {}
                }
            }
            texts.0.push(read_text(&token[..end]));
            texts.0.push(rest[..from].to_owned());
            rest = &token[end..];
        }
        texts.0.push(rest.to_owned());
        texts
    }

    fn hold_no_credential(&self) {
        for text in &self.0 {
            for credential in CREDENTIALS {
                assert!(!text.contains(credential), "{text:?}");
            }
        }
    }
}

/// A JSON text, with half of a surrogate pair left out.
fn read_text(token: &str) -> String {
    #[derive(Deserialize)]
    struct Bytes<'a>(#[serde(borrow)] Cow<'a, [u8]>);

    let Ok(Bytes(bytes)) = from_trusted(token) else { return token.to_owned() };
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Messages that have come in, as the transports under the interceptor give them.
struct Incoming(Option<RxJsonRpcMessage<RoleClient>>);

impl Transport<RoleClient> for Incoming {
    type Error = std::io::Error;

    fn send(
        &mut self,
        _message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        std::future::ready(Ok(()))
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.0.take()
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// A line of a program, or an answer or an event over HTTP, on its way to whoever called.
pub(crate) fn check_message(bytes: &[u8]) {
    let (wire, tag) = wire();
    let message = match parse_line(&wire, bytes.to_vec()) {
        ParsedLine::Message(message) => message,
        ParsedLine::Answer(..) | ParsedLine::Stray => return,
    };

    if let Some(result) = tag.take_result() {
        Texts::of(result.text()).hold_no_credential();
        check_call_result(&result);
    }

    let mut transport = InterceptedTransport::new(Incoming(Some(message)), wire);
    let passed_on = transport.receive().now_or_never().expect("nothing is waited for");
    let passed_on = serde_json::to_value(&passed_on).expect("it is a message");
    for member in ["result", "error", "params"] {
        Texts::of(&passed_on[member].to_string()).hold_no_credential();
    }
}

/// Messages in one array.
pub(crate) fn check_batch(bytes: &[u8]) {
    let Some(batch) = Batch::read(bytes) else { return };
    assert_eq!(batch.messages.len(), batch.length.min(BATCH_MAX));
    for message in batch.messages.iter().take(LOOKED_AT_MAX) {
        check_message(message.get().as_bytes());
    }
}

fn check_call_result(result: &RawJson) {
    let Some(read) = CallResult::read(result) else { return };
    let blocks: usize = read.blocks.iter().map(block_bytes).sum();
    assert!(blocks <= RESULT_BYTES_MAX && read.blocks.len() <= BLOCKS_MAX);
    // Neither of a block's members is longer than the text that it was written as.
    assert!(blocks <= result.text().len(), "{blocks} bytes of {result}");

    let texts = read.blocks.iter().flat_map(|block| [&block.text, &block.data, &block.uri]);
    for text in texts.flatten() {
        // A block that is of no kind is shown as it was written, and its escapes with it.
        let is_as_written = from_trusted::<&RawValue>(text).is_ok();
        let texts = if is_as_written { Texts::of(text) } else { Texts(vec![text.clone()]) };
        texts.hold_no_credential();
    }
}

/// JSON as it was written, whatever is in it.
pub(crate) fn check_json(bytes: &[u8]) {
    let Ok(raw) = String::from_utf8(bytes.to_vec())
        .map_err(drop)
        .and_then(|text| RawJson::parse(text).map_err(drop))
    else {
        return;
    };
    check_erased(raw.text());
    assert_eq!(serde_json::to_string(&raw).expect("it is JSON"), raw.text());

    let value = raw.to_value(usize::MAX);
    assert_eq!(value.clone().ok(), from_trusted(raw.text()).ok());
    if let Ok(value) = &value {
        assert!(count_nodes(value) <= count_values(raw.text().as_bytes()));
    }

    let names = |raw: &RawJson| -> Vec<String> {
        raw.members().into_iter().flatten().map(|(name, _)| name.into_owned()).collect()
    };
    let put = RawJson::of(&CREDENTIALS);
    for name in names(&raw).into_iter().take(LOOKED_AT_MAX) {
        let without = raw.with_member(&name, None);
        let mut others = names(&raw);
        others.retain(|other| *other != name);
        assert_eq!(names(&without), others);
        assert_eq!(without.member(&name), None);
        assert_eq!(raw.with_member(&name, Some(&put)).member(&name), Some(put.clone()));
    }
}

fn check_erased(text: &str) {
    let finder = eraser().finder().expect("there are credentials");
    let Some(erased) = finder.erase_json(text) else {
        Texts::of(text).hold_no_credential();
        return;
    };

    Texts::of(&erased).hold_no_credential();
    assert!(from_trusted::<&RawValue>(&erased).is_ok(), "{erased}");
    assert_eq!(count_values(erased.as_bytes()), count_values(text.as_bytes()));
    assert_eq!(finder.erase_json(&erased), None);
}

fn count_nodes(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count_nodes).sum(),
        Value::Object(members) => members.values().map(count_nodes).sum(),
        _ => 0,
    }
}

/// The tools that a message lists, where it does.
pub(crate) fn listed_tools(bytes: &[u8]) -> Option<Vec<RawJson>> {
    let message = RawJson::parse(std::str::from_utf8(bytes).ok()?.to_owned()).ok()?;
    let tools = message.member("result")?.member("tools")?;
    let tools: Vec<Box<RawValue>> = from_trusted(tools.text()).ok()?;
    Some(tools.into_iter().map(RawJson::from).collect())
}

/// A list of tools, whose pages may repeat themselves.
pub(crate) fn check_listing(bytes: &[u8]) {
    let Some(tools) = listed_tools(bytes) else { return };
    let filter = ToolFilter::new(None::<Vec<String>>, Vec::<String>::new());
    let mut listing = Listing::new(&filter);
    listing.add_page(tools.clone());
    listing.add_page(tools);

    let mut catalogue = listing.finish();
    let names: HashSet<&str> = catalogue.tools().map(|tool| &*tool.name).collect();
    assert_eq!(names.len(), catalogue.len());
    for (_, definition) in catalogue.take_definitions() {
        let read: Map<String, Value> = from_trusted(&definition.text).expect("JSON");
        let mut value = Value::from(read.clone());
        let cleaned = hidden_text::clean_json(&mut value, &mut Default::default());
        assert!(cleaned, "{}", definition.text);
        assert_eq!(Definition::new(read), definition);
    }
}

/// Lines and events are the same however the bytes come, and bounded.
pub(crate) fn check_stream(bytes: &[u8], chunk: usize) {
    let stream = |chunk| {
        let chunks: Vec<_> = bytes.chunks(chunk).map(std::io::Result::Ok).collect();
        StreamReader::new(stream::iter(chunks))
    };
    let lines = |chunk| {
        let mut reader = LineReader::new(stream(chunk), STREAM_BYTES_MAX);
        let mut lines = Vec::new();
        loop {
            match reader.next().now_or_never().expect("nothing is waited for") {
                Line::End => return lines,
                line => lines.push(line),
            }
        }
    };
    let events = |chunk| {
        let mut reader = EventReader::new(stream(chunk), STREAM_BYTES_MAX);
        let mut events = Vec::new();
        loop {
            match reader.next().now_or_never().expect("nothing is waited for") {
                Event::End => return events,
                event => events.push((event, reader.take_place())),
            }
        }
    };

    let (whole, parts) = (lines(bytes.len().max(1)), lines(chunk));
    assert_eq!(&whole, &parts);
    for line in whole {
        match line {
            Line::Whole(line) => assert!(line.len() <= STREAM_BYTES_MAX),
            Line::Cut(line) => check_cut(&line),
            Line::End => {}
        }
    }

    let (whole, parts) = (events(bytes.len().max(1)), events(chunk));
    assert_eq!(&whole, &parts);
    for (event, _) in whole {
        match event {
            Event::Whole(_, data) => assert!(data.len() <= STREAM_BYTES_MAX),
            Event::Cut(line) => check_cut(&line),
            Event::End => {}
        }
    }
}

fn check_cut(line: &CutLine) {
    let kept = line.head.len().max(line.tail.len());
    assert!(kept <= STREAM_BYTES_MAX && line.length >= kept as u64);
    line.answered_request();
}

/// The beginning and the end of a line that was too long.
pub(crate) fn check_edges(line: &[u8]) {
    check_cut(&CutLine::of(line));
}
