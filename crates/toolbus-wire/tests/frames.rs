//! Every recorded message of the C# system is read and written back to an equal one.
//!
//! `tests/frames/README.md` says what equal means for bodies. For envelopes it is the same
//! properties and the same headers, but for those that a broker adds to dead letters.

use serde_json::{Map, Value};
use toolbus_wire::fixtures::{self, RecordedFrame};
use toolbus_wire::frame::Frame;
use toolbus_wire::message::a2a::{
    AgentCard, AgentTaskCancelRequest, AgentTaskError, AgentTaskRequest, AgentTaskResult,
    AgentTaskStatusUpdate,
};
use toolbus_wire::message::mcp::{
    McpGetServiceDetailsRequest, McpGetServiceDetailsResponse, McpMetadataRefreshRequest,
    McpRegisterServerRequest, McpRegisterServerResponse, McpServersIndexed,
    McpUnregisterServerRequest, McpUnregisterServerResponse,
};
use toolbus_wire::message::script::{ScriptInvokeRequest, ScriptInvokeResponse};
use toolbus_wire::message::subagent::{SubagentProgressMessage, SubagentResultMessage};
use toolbus_wire::message::tool::{ToolError, ToolInvokeRequest, ToolInvokeResponse};
use toolbus_wire::message::user::{
    AgentReply, ConversationHistoryRequest, ConversationHistoryResponse, UserFeedback, UserMessage,
};
use toolbus_wire::{Envelope, Message, header, json};

const FRAMES: usize = 100;
const BODIES: usize = 11;
/// Frames and bodies of types that no program of ours handles.
const OF_OTHERS: usize = 1;

/// Frames whose bodies are broken on purpose, by message id, with what reading them says.
const BROKEN: [(&str, &str); 6] = [
    // A required member is missing.
    (
        "a292987287bf468983b990c5426cc3d0",
        "the body is invalid: missing field `toolCallId` at line 1 column 19",
    ),
    // Not JSON.
    ("02bea918b934493bb694107dcd6b13a6", "the body is not JSON: expected ident at line 1 column 2"),
    // Null, in the agent's dead letters.
    ("215ffb3bde294834877c900b20ccb0fd", "the body is null"),
    // Null at the bridge: the request, and the same message as a dead letter.
    ("5f0e421b3e634eeebe941870a0a22f39", "the body is null"),
    ("5f0e421b3e634eeebe941870a0a22f39", "the body is null"),
    // A request under the name of an error, which the bridge does not look at.
    (
        "fe0082d4fa2b4fef876b13ed533f1df8",
        "the body is invalid: missing field `code` at line 1 column 98",
    ),
];

/// Types that nobody has.
const UNKNOWN_TYPES: [&str; 2] = ["RockBot.Tools.Nonsense", "RockBot.Tools.Mcp.Unknown"];

/// What the names of types begin with that no program of ours handles: what happens inside an
/// agent. Of their frames the envelopes are replayed, not the bodies.
const TYPES_OF_OTHERS: [&str; 1] = ["RockBot.Host.ScheduledTaskMessage"];

/// Reads a body as a `T`, and gives what is written back.
type RoundTrip = fn(&[u8]) -> Result<Value, json::Error>;

fn round_trip<T: Message>(body: &[u8]) -> Result<Value, json::Error> {
    let message = json::read::<T>(body)?;
    Ok(serde_json::from_slice(&json::write(&message)).expect("what we write is JSON"))
}

fn round_trip_of(message_type: &str) -> Option<RoundTrip> {
    fn entry<T: Message>() -> (&'static str, RoundTrip) {
        (T::TYPE, round_trip::<T>)
    }

    [
        entry::<AgentCard>(),
        entry::<AgentReply>(),
        entry::<AgentTaskCancelRequest>(),
        entry::<AgentTaskError>(),
        entry::<AgentTaskRequest>(),
        entry::<AgentTaskResult>(),
        entry::<AgentTaskStatusUpdate>(),
        entry::<ConversationHistoryRequest>(),
        entry::<ConversationHistoryResponse>(),
        entry::<McpGetServiceDetailsRequest>(),
        entry::<McpGetServiceDetailsResponse>(),
        entry::<McpMetadataRefreshRequest>(),
        entry::<McpRegisterServerRequest>(),
        entry::<McpRegisterServerResponse>(),
        entry::<McpServersIndexed>(),
        entry::<McpUnregisterServerRequest>(),
        entry::<McpUnregisterServerResponse>(),
        entry::<ScriptInvokeRequest>(),
        entry::<ScriptInvokeResponse>(),
        entry::<SubagentProgressMessage>(),
        entry::<SubagentResultMessage>(),
        entry::<ToolError>(),
        entry::<ToolInvokeRequest>(),
        entry::<ToolInvokeResponse>(),
        entry::<UserFeedback>(),
        entry::<UserMessage>(),
    ]
    .into_iter()
    .find(|(known, _)| known.eq_ignore_ascii_case(message_type))
    .map(|(_, round_trip)| round_trip)
}

/// What the recording's README compares: no nulls, names in one case.
fn normalised(value: Value) -> Value {
    match value {
        Value::Object(members) => Value::Object(
            members
                .into_iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(name, value)| (name.to_ascii_lowercase(), normalised(value)))
                .collect::<Map<_, _>>(),
        ),
        Value::Array(items) => items.into_iter().map(normalised).collect(),
        other => other,
    }
}

/// Asserts that a body is read and written back to an equal value.
fn check_body(message_type: &str, body: &[u8]) {
    let round_trip = round_trip_of(message_type).unwrap_or_else(|| panic!("no {message_type}"));
    let written = round_trip(body).unwrap_or_else(|error| panic!("{message_type}: {error}"));
    let mut recorded = normalised(serde_json::from_slice(body).expect("the body is JSON"));
    if message_type == "rockbot.tools.toolinvokerequest" {
        // The one member in all the recording that is unknown on purpose.
        assert_eq!(recorded.as_object_mut().expect("an object").remove("extra"), Some(1.into()));
    }
    assert_eq!(normalised(written), recorded, "{message_type}");
}

fn is_of_others(message_type: &str) -> bool {
    TYPES_OF_OTHERS.iter().any(|prefix| message_type.starts_with(prefix))
}

fn all_frames() -> Vec<RecordedFrame> {
    fixtures::flows().into_iter().flat_map(|flow| flow.frames).collect()
}

#[test]
fn nothing_of_the_recording_is_lost() {
    let counts: Vec<_> =
        fixtures::flows().into_iter().map(|flow| (flow.name, flow.frames.len())).collect();
    assert_eq!(
        counts,
        [
            ("a2a", 7),
            ("announce", 4),
            ("dead-letter", 4),
            ("mcp-invoke", 22),
            ("mcp-invoke-errors", 12),
            ("mcp-invoke-poison", 2),
            ("mcp-manage", 17),
            ("script", 9),
            ("tool-invoke", 16),
            ("user", 7),
        ]
    );
    assert_eq!(all_frames().len(), FRAMES);
    assert_eq!(fixtures::bodies().len(), BODIES);
}

#[test]
fn every_body_is_read_and_written_back_to_an_equal_value() {
    let mut checked = 0;
    let mut broken = Vec::new();
    let mut unknown = Vec::new();
    let mut of_others = 0;

    for RecordedFrame { frame, .. } in all_frames() {
        let message_id = frame.properties.message_id.as_deref().unwrap();
        let message_type = frame.properties.message_type.as_deref().unwrap();

        if let Some((_, expected)) = BROKEN.iter().find(|(id, _)| *id == message_id) {
            let error = round_trip_of(message_type).unwrap()(&frame.body).unwrap_err();
            assert_eq!(error.to_string(), *expected);
            broken.push(message_id.to_owned());
        } else if is_of_others(message_type) {
            assert!(round_trip_of(message_type).is_none());
            of_others += 1;
        } else if UNKNOWN_TYPES.contains(&message_type) {
            assert!(round_trip_of(message_type).is_none());
            unknown.push(message_type.to_owned());
        } else {
            check_body(message_type, &frame.body);
            checked += 1;
        }
    }

    for body in fixtures::bodies() {
        if is_of_others(&body.message_type) {
            of_others += 1;
            continue;
        }
        check_body(&body.message_type, body.body.as_bytes());
        checked += 1;
    }

    broken.sort_unstable();
    let mut expected = BROKEN.map(|(id, _)| id);
    expected.sort_unstable();
    assert_eq!(broken, expected);
    unknown.sort_unstable_by(|one, other| other.cmp(one));
    assert_eq!(unknown, UNKNOWN_TYPES);
    assert_eq!(of_others, OF_OTHERS);
    assert_eq!(checked, FRAMES + BODIES - OF_OTHERS - BROKEN.len() - UNKNOWN_TYPES.len());
}

#[test]
fn every_envelope_is_read_and_written_back_the_same() {
    let mut checked = 0;
    for recorded in all_frames() {
        let envelope = Envelope::from_frame(recorded.frame.clone());
        let written = envelope.to_frame().unwrap();
        assert_eq!(written.properties, recorded.frame.properties);
        // A broker notes in `x-` headers where a dead letter has been.
        let dead_letter = recorded.exchange == "rockbot.dlx";
        let (by_broker, mut by_sender): (Vec<_>, Vec<_>) =
            recorded.frame.headers.into_iter().partition(|(name, _)| name.starts_with("x-"));
        assert_eq!(by_broker.len(), if dead_letter { 4 } else { 0 });
        let mut headers = written.headers;
        by_sender.sort_by(|one, other| one.0.cmp(&other.0));
        headers.sort_by(|one, other| one.0.cmp(&other.0));
        assert_eq!(headers, by_sender);
        assert_eq!(written.body, recorded.frame.body);
        checked += 1;
    }

    assert_eq!(checked, FRAMES);
}

#[test]
fn headers_are_read_under_their_logical_names() {
    let request = fixtures::flow("mcp-invoke").frames.swap_remove(0).frame;
    let envelope = Envelope::from_frame(request);

    for (name, expected) in [
        (header::CONTENT_TRUST, "tool-request"),
        (header::TOOL_PROVIDER, "mcp"),
        (header::TIMEOUT_MS, "60000"),
        (header::MCP_SERVER, "everything"),
    ] {
        assert_eq!(envelope.headers.get(name), Some(expected));
    }

    assert_eq!(envelope.headers.len(), 4);
    assert_eq!(envelope.source, "RockBot");
    assert_eq!(envelope.reply_to.unwrap().as_str(), "tool.result.RockBot");
    assert!(envelope.trace.is_some());
}

#[test]
fn the_single_spelling_of_a_recorded_frame_reads_the_same() {
    for RecordedFrame { frame, .. } in all_frames() {
        let headers = frame
            .headers
            .iter()
            .map(|(name, value)| (name.replacen("rb-rb-", "rb-", 1).into(), value.clone()))
            .collect();
        let single = Frame { headers, ..frame.clone() };
        assert_eq!(Envelope::from_frame(single), Envelope::from_frame(frame));
    }
}
