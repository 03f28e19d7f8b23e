use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest};
use serde_json::{Value, json};
use toolbus_bus::{Asker, Progress};

use super::*;
use crate::eraser::Eraser;

const LARGE: &str = "12345678901234567890123";

fn raw(text: &str) -> RawJson {
    RawJson::parse(text.to_owned()).unwrap()
}

/// A call of a tool with these params, as it is sent.
fn request(id: i64, tag: &CallTag, meta: Value) -> TxJsonRpcMessage<RoleClient> {
    let mut params = CallToolRequestParams::new("t");
    params.meta = serde_json::from_value(meta).unwrap();
    let mut request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    request.extensions_mut().insert(tag.clone());
    JsonRpcMessage::request(request, RequestId::Number(id))
}

fn tag(params: &str) -> CallTag {
    CallTag::new(Progress::none(), Asker::none(), raw(params))
}

fn look(wire: &WireState, message: &str) -> Option<RequestId> {
    match wire.look_at(message.as_bytes().to_vec()) {
        Reading::Message(message) => match *message {
            JsonRpcMessage::Response(answer) => Some(answer.id),
            other => panic!("{other:?}"),
        },
        _ => None,
    }
}

#[test]
fn params_are_sent_as_they_were_written() {
    let params = format!(
        r#"{{"arguments":{{"n":{LARGE}}},"name":"t","_meta":{{"mine":[1.50],"progressToken":"theirs","io.modelcontextprotocol/x":1}},"new":{{}}}}"#
    );
    let message = request(7, &tag(&params), json!({"progressToken": 7}));
    let sent = String::from_utf8(WireState::write(&message).unwrap()).unwrap();
    assert!(sent.contains(&format!(r#""arguments":{{"n":{LARGE}}},"name":"t""#)), "{sent}");
    assert!(sent.contains(r#""_meta":{"mine":[1.50],"progressToken":7}"#), "{sent}");
    assert!(sent.contains(r#""new":{}"#) && !sent.contains("theirs"), "{sent}");
}

#[test]
fn a_result_is_set_aside_as_it_was_written() {
    let wire = WireState::new("s", Eraser::default());
    let tag = tag("{}");
    wire.record_outgoing(&request(7, &tag, json!(null)));
    let result = format!(r#"{{ "content": [], "structuredContent": {LARGE} }}"#);
    let answer = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);

    assert_eq!(look(&wire, &answer("8")), None, "it answers no call");
    assert!(tag.take_result().is_none());
    assert_eq!(look(&wire, &answer("7")), Some(RequestId::Number(7)));
    assert_eq!(tag.take_result().unwrap().text(), result);
    // Some servers make a text of the number.
    assert!(look(&wire, &answer(r#""7""#)).is_some());

    let asks = r#"{"jsonrpc":"2.0","id":7,"result":{"resultType":"input_required"}}"#;
    assert_eq!(look(&wire, asks), None, "rmcp reads what a server asks first");
}

#[test]
fn credentials_are_erased_from_what_is_set_aside() {
    let secret = toolbus_wire::message::Secret::from("tok-123456".to_owned());
    let eraser = Eraser::new([secret.clone()]).with_credentials([secret]);
    let wire = WireState::new("s", eraser);
    let tag = tag("{}");
    wire.record_outgoing(&request(7, &tag, json!(null)));
    let answer =
        format!(r#"{{"id":7,"result":{{"a":"x tok-12345\u0036","n":{LARGE}}},"jsonrpc":"2.0"}}"#);
    assert!(look(&wire, &answer).is_some());
    let expected = format!(r#"{{"a":"x ***","n":{LARGE}}}"#);
    assert_eq!(tag.take_result().unwrap().text(), expected);
}

/// Read into types, each of these would take hundreds of megabytes.
#[test]
fn a_message_of_too_many_values_is_not_read() {
    let wire = WireState::new("s", Eraser::default());
    let zeros = format!("[{}0]", "0,".repeat(MESSAGE_VALUES_MAX));
    let list = format!(r#"{{"jsonrpc":"2.0","id":3,"result":{{"tools":{zeros}}}}}"#);
    assert!(matches!(
        wire.look_at(list.clone().into_bytes()),
        Reading::TooManyValues(Some(RequestId::Number(3)))
    ));
    let note = format!(r#"{{"jsonrpc":"2.0","method":"x","params":{zeros}}}"#);
    assert!(matches!(wire.look_at(note.into_bytes()), Reading::TooManyValues(None)));

    let tag = tag("{}");
    wire.record_outgoing(&request(3, &tag, json!(null)));
    assert!(look(&wire, &list).is_some(), "nobody looks into the result of a call");
}

/// A tool that is read takes many times its text.
#[test]
fn of_a_long_list_only_so_many_tools_are_shown() {
    let tools = vec![r#"{"name":"t","inputSchema":{}}"#; TOOLS_MAX + 10].join(",");
    let shown = stand_in_of_tools(&raw(&format!(r#"{{"tools":[{tools}]}}"#)));
    let Some(ServerResult::ListToolsResult(shown)) = shown else { panic!("a list") };
    assert_eq!(shown.tools.len(), TOOLS_MAX + 1);
}
