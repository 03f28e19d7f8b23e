//! The parsers of this crate as targets of a fuzzer.

use std::borrow::Cow;
use std::fmt::Debug;
use std::time::Duration;

use bytes::Bytes;

use crate::frame::{Frame, HeaderValue, Properties};
use crate::json::RawJson;
use crate::message::a2a::{AgentCard, AgentTaskRequest, AgentTaskResult, task_id_of_malformed};
use crate::message::mcp::{
    McpGetServiceDetailsResponse, McpNearestNames, McpReadResourceResponse,
    McpRegisterServerRequest, McpRelayResponse, McpServerError, McpServersIndexed,
};
use crate::message::script::{ScriptInvokeRequest, ScriptInvokeResponse};
use crate::message::tool::{
    CallIds, ID_BYTES_MAX, ToolError, ToolInvokeRequest, ToolInvokeResponse,
};
use crate::message::toolbus::{ToolAsk, ToolProgress};
use crate::name::{McpServerSegment, NAME_BYTES_MAX};
use crate::{AgentName, Envelope, InstanceId, Message, Topic, TraceContext, json};

/// Most values of JSON that is looked into.
const VALUES_MAX: usize = 1_000;

/// Reads a body as messages of every family. Asserts that what is read is read again from what is
/// written of it.
pub fn bodies(bytes: &[u8]) {
    check_message::<ToolInvokeRequest>(bytes);
    check_message::<ToolInvokeResponse>(bytes);
    check_message::<ToolAsk>(bytes);
    check_message::<ToolProgress>(bytes);
    check_message::<McpServersIndexed>(bytes);
    check_message::<McpGetServiceDetailsResponse>(bytes);
    check_message::<McpReadResourceResponse>(bytes);
    check_message::<McpRegisterServerRequest>(bytes);
    check_message::<AgentCard>(bytes);
    check_message::<AgentTaskRequest>(bytes);
    check_message::<AgentTaskResult>(bytes);
    check_message::<ScriptInvokeRequest>(bytes);
    check_message::<ScriptInvokeResponse>(bytes);

    if let Some(error) = check_message::<ToolError>(bytes) {
        let details = error.details.unwrap_or_default();
        if let Some(error) = McpServerError::of_details(&details) {
            assert_eq!(McpServerError::of_details(&error.to_details()), Some(error));
        }
        if let Some(names) = McpNearestNames::of_details(&details) {
            assert_eq!(McpNearestNames::of_details(&names.to_details()), Some(names));
        }
    }

    // One way keeps the body where it is, and the other copies the result out of it.
    let relayed = check_message::<McpRelayResponse>(bytes);
    assert_eq!(McpRelayResponse::read(Bytes::copy_from_slice(bytes)).ok(), relayed);

    let CallIds { tool_call_id, tool_name } = CallIds::of_malformed(bytes);
    assert!(tool_call_id.len() <= ID_BYTES_MAX && tool_name.len() <= ID_BYTES_MAX);
    let _ = task_id_of_malformed(bytes);
}

fn check_message<T: Message + PartialEq + Debug>(body: &[u8]) -> Option<T> {
    let message: T = json::read(body).ok()?;
    let again = json::read::<T>(&json::write(&message));
    assert_eq!(again.as_ref(), Ok(&message));
    Some(message)
}

/// Keeps JSON as it was written and looks into it. Asserts that members are put in, taken out and
/// found, and that a text means the values that it was written of.
pub fn raw_json(bytes: &[u8]) {
    let params = RawJson::member_of(bytes, "params");
    let Ok(json) = RawJson::parse_bytes(Bytes::copy_from_slice(bytes)) else {
        assert_eq!(params, None);
        return;
    };
    assert_eq!(params, json.member("params"));
    assert_eq!(serde_json::to_string(&json).ok().as_deref(), Some(json.text()));

    let changed = json.with_members(&[("a", Some(&json)), ("b", None)]);
    if json.members().is_some() {
        assert_eq!(changed.member("a").as_ref(), Some(&json));
        assert_eq!(changed.member("b"), None);
    } else {
        assert_eq!(changed, json);
    }

    if let Ok(value) = json.to_value(VALUES_MAX) {
        let _ = json.means(&value);
        let written = RawJson::of(&value);
        assert!(written.means(&value), "{written} does not mean what it was written of");
        assert_eq!(written.to_value(VALUES_MAX), Ok(value));
    }
}

/// Reads an envelope: lines of correlation id, reply topic, expiration and type, and one line
/// `NAME=VALUE` for each header. Asserts that what is read is read again from what is written.
pub fn envelope(bytes: &[u8]) {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let mut property = || lines.next().map(String::from_utf8_lossy);
    let properties = Properties {
        correlation_id: property(),
        reply_to: property(),
        expiration: property(),
        message_type: property(),
        // Without these two, an envelope has a random id and the time.
        message_id: Some(Cow::Borrowed("id")),
        timestamp: Some(1),
        ..Properties::default()
    };
    let headers = lines.map(|line| {
        let mut parts = line.splitn(2, |byte| *byte == b'=');
        let name = String::from_utf8_lossy(parts.next().unwrap_or_default());
        let value = parts.next().map(Cow::Borrowed);
        (name, value.map_or(HeaderValue::Other, HeaderValue::LongString))
    });
    let headers = headers.collect();

    let read = Envelope::from_frame(Frame { properties, headers, body: Bytes::new() });
    let _ = read.reply_to.as_ref().map(Topic::template);
    // Only a time that does not fit is cut.
    let fits = |time: Duration| time.as_millis() <= u128::from(u32::MAX);
    if read.expires_after.is_none_or(fits)
        && let Ok(written) = read.to_frame()
    {
        assert_eq!(Envelope::from_frame(written), read);
    }
}

/// Parses a text as topic, names and trace. Asserts that what is taken stays what it was.
pub fn names(bytes: &[u8]) {
    let text = &*String::from_utf8_lossy(bytes);
    if let Ok(topic) = Topic::parse(text) {
        assert_eq!(topic.as_str(), text);
        let _ = topic.template();
    }
    if let Ok(name) = AgentName::parse(text) {
        assert_eq!(InstanceId::parse(text).as_ref().map(InstanceId::as_str), Ok(name.as_str()));
    }
    if let Some(trace) = TraceContext::parse(text, Some(text)) {
        assert_eq!((trace.traceparent(), trace.tracestate()), (text, Some(text)));
    }

    let segment = McpServerSegment::of(text);
    assert!(segment.as_str().is_ascii() && segment.as_str().len() <= NAME_BYTES_MAX);
}
