//! What a server may send, of every kind, and some of it by accident: no reader of it panics, what
//! is kept is bounded, and a credential never comes through.
//!
//! The messages begin as those of `tests/corpus`: what real servers send, and what was found to
//! break something. Each is tried as it is, and then with pieces of it gone, moved or put in.
//! `PROPTEST_CASES=100000 cargo test -p toolbus-mcp --lib fuzz` looks for longer.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use futures_util::{FutureExt as _, stream};
use proptest::prelude::*;
use proptest::sample::Index;
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
use toolbus_json::count_values;
use toolbus_wire::json::RawJson;
use toolbus_wire::message::Secret;

use super::bounded_lines::{CutLine, Line, LineReader};
use super::intercept::{CallTag, InterceptedTransport, WireState};
use super::sse_events::{Event, EventReader};
use super::stdio::{ParsedLine, parse_line};
use crate::call_result::{BLOCKS_MAX, CallResult, RESULT_BYTES_MAX};
use crate::catalogue::Listing;
use crate::eraser::Eraser;
use crate::tool_filter::ToolFilter;
use crate::trust::definition::Definition;
use crate::trust::hidden;

/// Most messages of the corpus, and the longest of them in bytes.
const CORPUS_MAX: usize = 64;
const SEED_BYTES_MAX: usize = 8 << 10;
/// A credential that JSON has to escape, and one that it may take for a number.
const CREDENTIALS: [&str; 2] = ["tok\"é-123456", "31415926535"];
/// Longest line and event that is taken, in bytes: less than the corpus has, and more than what is
/// kept of one that is longer.
const STREAM_BYTES_MAX: usize = 600;
/// The request that every message may answer.
pub(super) const CALL: i64 = 7;

static CORPUS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let files = fs::read_dir(folder).expect("the corpus is a folder");
    let mut paths: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    paths.sort_unstable();
    paths.iter().map(|path| fs::read(path).expect("a file")).collect()
});

/// What makes a message another one, or none at all.
const PIECES: &[&str] = &[
    "",
    " ",
    "\n",
    "\r\n",
    "\n\n",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "\\u0000",
    "\\ud800",
    "\\udc00",
    "\\ud83d\\ude00",
    "\u{feff}",
    "\u{200b}",
    "\u{e0041}",
    "null",
    "true",
    "-0",
    "1e999",
    "18446744073709551616",
    "31415926535",
    "0.31415926535",
    "tok\\\"é-123456",
    "tok\\u0022\\u00e9-\\u0031\\u0032\\u0033456",
    "tok\"é-123456",
    "\"tok\\\"é-123456\":1,",
    "\"id\":7,",
    "\"id\":\"7\",",
    "\"result\":{},",
    "\"error\":null,",
    "\"method\":\"ping\",",
    "\"resultType\":\"complete\",",
    "\"isError\":true,",
    "\"type\":\"text\",",
    "\"content\":[],",
    "\"structuredContent\":{\"a\":[1]},",
    "\"name\":\"a\",",
    "\"inputSchema\":{\"required\":[\"b\",\"a\"]},",
    "data: ",
    "event: ",
    "id: 1\n",
    "retry: 5\n",
];

/// One change of a message.
#[derive(Debug, Clone)]
enum Edit {
    PutIn(Index, &'static str),
    PutBytes(Index, Vec<u8>),
    Remove(Index, Index),
    Repeat(Index, Index, u8),
    /// The rest of another message.
    Graft(Index, Index, Index),
}

impl Edit {
    fn apply(&self, text: &mut Vec<u8>) {
        let place = |index: &Index, text: &[u8]| index.index(text.len() + 1);
        let range = |from: &Index, to: &Index, text: &[u8]| {
            let (from, to) = (place(from, text), place(to, text));
            from.min(to)..from.max(to)
        };
        match self {
            Self::PutIn(at, piece) => {
                let at = place(at, text);
                text.splice(at..at, piece.bytes());
            }
            Self::PutBytes(at, bytes) => {
                let at = place(at, text);
                text.splice(at..at, bytes.iter().copied());
            }
            Self::Remove(from, to) => drop(text.drain(range(from, to, text))),
            Self::Repeat(from, to, times) => {
                let range = range(from, to, text);
                let (end, part) = (range.end, text[range].to_vec());
                text.splice(end..end, part.repeat(usize::from(*times)));
            }
            Self::Graft(at, other, from) => {
                let other = &CORPUS[other.index(CORPUS.len())];
                text.truncate(place(at, text));
                text.extend_from_slice(&other[place(from, other)..]);
            }
        }
        text.truncate(4 * SEED_BYTES_MAX);
    }
}

fn edits() -> impl Strategy<Value = Edit> {
    let place = any::<Index>;
    let piece = proptest::sample::select(PIECES);
    prop_oneof![
        8 => (place(), piece).prop_map(|(at, piece)| Edit::PutIn(at, piece)),
        1 => (place(), prop::collection::vec(any::<u8>(), 1..4))
            .prop_map(|(at, bytes)| Edit::PutBytes(at, bytes)),
        2 => (place(), place()).prop_map(|(from, to)| Edit::Remove(from, to)),
        1 => (place(), place(), 1..20_u8).prop_map(|(from, to, n)| Edit::Repeat(from, to, n)),
        1 => (place(), place(), place()).prop_map(|(at, other, from)| Edit::Graft(at, other, from)),
    ]
}

/// The bytes of a message, which are shown as text.
#[derive(Clone)]
pub(crate) struct Hostile(Vec<u8>);

impl std::ops::Deref for Hostile {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for Hostile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "b\"{}\"", self.0.escape_ascii())
    }
}

/// What a server may send.
pub(crate) fn hostile_bytes() -> impl Strategy<Value = Hostile> {
    edited(proptest::sample::select(CORPUS.as_slice()))
}

/// What a server may answer that is asked for its tools.
pub(crate) fn hostile_listings() -> impl Strategy<Value = Hostile> {
    let listings = CORPUS.iter().filter(|seed| listed_tools(seed).is_some());
    edited(proptest::sample::select(listings.cloned().collect::<Vec<_>>()))
}

fn edited(seeds: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Hostile> {
    (seeds, prop::collection::vec(edits(), 0..6)).prop_map(|(mut text, edits)| {
        edits.iter().for_each(|edit| edit.apply(&mut text));
        Hostile(text)
    })
}

fn eraser() -> Eraser {
    let secrets = || CREDENTIALS.map(|text| Secret::from(text.to_owned()));
    Eraser::new(secrets()).with_credentials(secrets())
}

/// A connection with one call under way.
pub(super) fn wire() -> (std::sync::Arc<WireState>, CallTag) {
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

    fn hold_no_credential(&self) -> Result<(), TestCaseError> {
        for text in &self.0 {
            for credential in CREDENTIALS {
                prop_assert!(!text.contains(credential), "{text:?}");
            }
        }
        Ok(())
    }
}

/// A JSON text, with half of a surrogate pair left out.
fn read_text(token: &str) -> String {
    #[derive(Deserialize)]
    struct Bytes<'a>(#[serde(borrow)] std::borrow::Cow<'a, [u8]>);

    let Ok(Bytes(bytes)) = serde_json::from_str(token) else { return token.to_owned() };
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
fn check_message(bytes: &[u8]) -> Result<(), TestCaseError> {
    let (wire, tag) = wire();
    let message = match parse_line(&wire, bytes.to_vec()) {
        ParsedLine::Message(message) => message,
        ParsedLine::Answer(..) | ParsedLine::Stray => return Ok(()),
    };

    if let Some(result) = tag.take_result() {
        Texts::of(result.text()).hold_no_credential()?;
        check_call_result(&result)?;
    }

    let mut transport = InterceptedTransport::new(Incoming(Some(message)), wire);
    let passed_on = transport.receive().now_or_never().expect("nothing is waited for");
    let passed_on = serde_json::to_value(&passed_on).expect("it is a message");
    for member in ["result", "error", "params"] {
        Texts::of(&passed_on[member].to_string()).hold_no_credential()?;
    }
    Ok(())
}

fn check_call_result(result: &RawJson) -> Result<(), TestCaseError> {
    let Some(read) = CallResult::read(result) else { return Ok(()) };
    let blocks: usize = read.blocks.iter().map(crate::call_result::block_bytes).sum();
    prop_assert!(blocks <= RESULT_BYTES_MAX && read.blocks.len() <= BLOCKS_MAX);
    // Neither of a block's members is longer than the text that it was written as.
    prop_assert!(blocks <= result.text().len(), "{blocks} bytes of {result}");

    let texts = read.blocks.iter().flat_map(|block| [&block.text, &block.data, &block.uri]);
    for text in texts.flatten() {
        // A block that is of no kind is shown as it was written, and its escapes with it.
        let is_as_written = serde_json::from_str::<&RawValue>(text).is_ok();
        let texts = if is_as_written { Texts::of(text) } else { Texts(vec![text.clone()]) };
        texts.hold_no_credential()?;
    }
    Ok(())
}

/// JSON as it was written, whatever is in it.
fn check_json(bytes: &[u8]) -> Result<(), TestCaseError> {
    let Ok(raw) = String::from_utf8(bytes.to_vec())
        .map_err(drop)
        .and_then(|text| RawJson::parse(text).map_err(drop))
    else {
        return Ok(());
    };
    check_erased(raw.text())?;
    prop_assert_eq!(serde_json::to_string(&raw).expect("it is JSON"), raw.text());

    let value = raw.to_value(usize::MAX);
    prop_assert_eq!(value.clone().ok(), serde_json::from_str(raw.text()).ok());
    if let Ok(value) = &value {
        prop_assert!(count_nodes(value) <= count_values(raw.text().as_bytes()));
    }

    let names = |raw: &RawJson| -> Vec<String> {
        raw.members().into_iter().flatten().map(|(name, _)| name.into_owned()).collect()
    };
    let put = RawJson::of(&CREDENTIALS);
    for name in names(&raw) {
        let without = raw.with_member(&name, None);
        let mut others = names(&raw);
        others.retain(|other| *other != name);
        prop_assert_eq!(names(&without), others);
        prop_assert_eq!(without.member(&name), None);
        prop_assert_eq!(raw.with_member(&name, Some(&put)).member(&name), Some(put.clone()));
    }
    Ok(())
}

fn check_erased(text: &str) -> Result<(), TestCaseError> {
    let finder = eraser().finder().expect("there are credentials");
    let Some(erased) = finder.erase_json(text) else {
        return Texts::of(text).hold_no_credential();
    };

    Texts::of(&erased).hold_no_credential()?;
    prop_assert!(serde_json::from_str::<&RawValue>(&erased).is_ok(), "{erased}");
    prop_assert_eq!(count_values(erased.as_bytes()), count_values(text.as_bytes()));
    prop_assert_eq!(finder.erase_json(&erased), None);
    Ok(())
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
    let tools: Vec<Box<RawValue>> = serde_json::from_str(tools.text()).ok()?;
    Some(tools.into_iter().map(RawJson::from).collect())
}

fn check_listing(bytes: &[u8]) -> Result<(), TestCaseError> {
    let Some(tools) = listed_tools(bytes) else { return Ok(()) };
    let filter = ToolFilter::new(None::<Vec<String>>, Vec::<String>::new());
    let mut listing = Listing::new(&filter);
    listing.add_page(tools.clone());
    listing.add_page(tools);

    let mut catalogue = listing.finish();
    let names: HashSet<&str> = catalogue.tools().map(|tool| &*tool.name).collect();
    prop_assert_eq!(names.len(), catalogue.len());
    for (_, definition) in catalogue.take_definitions() {
        let read: Map<String, Value> = serde_json::from_str(&definition.text).expect("JSON");
        let cleaned = hidden::clean_json(&mut Value::from(read.clone()), &mut Default::default());
        prop_assert!(cleaned, "{}", definition.text);
        prop_assert_eq!(Definition::new(read), definition);
    }
    Ok(())
}

/// Lines and events are the same however the bytes come, and bounded.
fn check_stream(bytes: &[u8], chunk: usize) -> Result<(), TestCaseError> {
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
    prop_assert_eq!(&whole, &parts);
    for line in whole {
        match line {
            Line::Whole(line) => prop_assert!(line.len() <= STREAM_BYTES_MAX),
            Line::Cut(line) => check_cut(&line)?,
            Line::End => {}
        }
    }

    let (whole, parts) = (events(bytes.len().max(1)), events(chunk));
    prop_assert_eq!(&whole, &parts);
    for (event, _) in whole {
        match event {
            Event::Whole(_, data) => prop_assert!(data.len() <= STREAM_BYTES_MAX),
            Event::Cut(line) => check_cut(&line)?,
            Event::End => {}
        }
    }
    Ok(())
}

fn check_cut(line: &CutLine) -> Result<(), TestCaseError> {
    let kept = line.head.len().max(line.tail.len());
    prop_assert!(kept <= STREAM_BYTES_MAX && line.length >= kept as u64);
    line.answered_request();
    Ok(())
}

fn check_all(bytes: &[u8], chunk: usize) -> Result<(), TestCaseError> {
    check_message(bytes)?;
    check_json(bytes)?;
    check_listing(bytes)?;
    check_stream(bytes, chunk)?;
    // What is only the end of a long line is read as well.
    check_cut(&CutLine::of(bytes))
}

#[test]
fn the_corpus_is_small_and_every_message_of_it_holds() {
    assert!((1..=CORPUS_MAX).contains(&CORPUS.len()), "{} messages", CORPUS.len());
    for seed in CORPUS.iter() {
        assert!(seed.len() <= SEED_BYTES_MAX, "{} bytes", seed.len());
        for chunk in [1, 7, 64] {
            let checked = check_all(seed, chunk);
            assert!(checked.is_ok(), "{checked:?}: {}", String::from_utf8_lossy(seed));
        }
    }
}

proptest! {
    #[test]
    fn every_message_is_read_or_refused(bytes in hostile_bytes(), chunk in 1..64_usize) {
        check_all(&bytes, chunk)?;
    }
}
