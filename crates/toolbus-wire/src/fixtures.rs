//! The recorded frames of the C# system, for tests. `tests/frames/README.md` says what they are.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::frame::{Frame, HeaderValue, Properties};

macro_rules! recorded {
    ($($name:literal),+ $(,)?) => {
        [$(($name, include_str!(concat!("../tests/frames/", $name, ".json")))),+]
    };
}

const FLOWS: [(&str, &str); 10] = recorded![
    "a2a",
    "announce",
    "dead-letter",
    "mcp-invoke",
    "mcp-invoke-errors",
    "mcp-invoke-poison",
    "mcp-manage",
    "script",
    "tool-invoke",
    "user",
];

const BODIES: &str = include_str!("../tests/frames/bodies.json");

/// One recording: messages in the order in which the broker had them.
#[derive(Debug, Clone)]
pub struct Flow {
    /// Name of its file, without the ending.
    pub name: &'static str,
    /// What it shows.
    pub what: String,
    /// The messages.
    pub frames: Vec<RecordedFrame>,
}

/// A message as the broker handed it out.
#[derive(Debug, Clone)]
pub struct RecordedFrame {
    /// The exchange that it came from.
    pub exchange: String,
    /// Its routing key: the topic.
    pub routing_key: String,
    /// What it carries.
    pub frame: Frame<'static>,
}

/// The body of a message that no flow shows.
#[derive(Debug, Clone, Deserialize)]
pub struct RecordedBody {
    /// Name of the body's type.
    #[serde(rename = "type")]
    pub message_type: String,
    /// The body.
    pub body: String,
}

/// Every flow that was recorded.
///
/// # Panics
/// When a file of the recording is not as it was recorded.
#[must_use]
pub fn flows() -> Vec<Flow> {
    FLOWS
        .into_iter()
        .map(|(name, text)| {
            let file: FlowFile = toolbus_json::from_trusted(text).expect("a recorded flow is JSON");
            Flow { name, what: file.what, frames: file.frames.into_iter().map(frame).collect() }
        })
        .collect()
}

/// The flow of that name.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn flow(name: &str) -> Flow {
    flows().into_iter().find(|flow| flow.name == name).expect("a flow of that name was recorded")
}

/// Every body that was recorded without a frame.
///
/// # Panics
/// When the file of the recording is not as it was recorded.
#[must_use]
pub fn bodies() -> Vec<RecordedBody> {
    let file: BodiesFile =
        toolbus_json::from_trusted(BODIES).expect("the recorded bodies are JSON");
    file.bodies
}

#[derive(Deserialize)]
struct FlowFile {
    what: String,
    frames: Vec<FrameInFile>,
}

#[derive(Deserialize)]
struct BodiesFile {
    bodies: Vec<RecordedBody>,
}

#[derive(Deserialize)]
struct FrameInFile {
    exchange: String,
    routing_key: String,
    properties: PropertiesInFile,
    headers: Map<String, Value>,
    body: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PropertiesInFile {
    content_type: Option<String>,
    delivery_mode: Option<u8>,
    correlation_id: Option<String>,
    reply_to: Option<String>,
    message_id: Option<String>,
    timestamp: Option<u64>,
    #[serde(rename = "type")]
    message_type: Option<String>,
}

fn frame(recorded: FrameInFile) -> RecordedFrame {
    let properties = recorded.properties;
    let frame = Frame {
        properties: Properties {
            content_type: properties.content_type.map(Cow::Owned),
            delivery_mode: properties.delivery_mode,
            correlation_id: properties.correlation_id.map(Cow::Owned),
            reply_to: properties.reply_to.map(Cow::Owned),
            expiration: None,
            message_id: properties.message_id.map(Cow::Owned),
            timestamp: properties.timestamp,
            message_type: properties.message_type.map(Cow::Owned),
        },
        headers: recorded
            .headers
            .into_iter()
            .map(|(name, value)| (Cow::Owned(name), header_value(value)))
            .collect(),
        body: Bytes::from(recorded.body),
    };

    RecordedFrame { exchange: recorded.exchange, routing_key: recorded.routing_key, frame }
}

/// Strings of the recording are long strings; what is not a string there is another AMQP type.
fn header_value(value: Value) -> HeaderValue<'static> {
    match value {
        Value::String(text) => HeaderValue::LongString(Cow::Owned(text.into_bytes())),
        _ => HeaderValue::Other,
    }
}
