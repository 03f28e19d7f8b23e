//! Params and results that go around rmcp, as they were written.
//!
//! rmcp reads every message into its types: members that it does not know are lost there, numbers
//! that no `f64` holds change, and a value takes up to thirty times its text. So the params that a
//! caller wrote are put into its request just before that is sent, and the result of a call is
//! taken out of the answer before rmcp reads it. What rmcp sees is an empty result.

use rmcp::RoleClient;
use rmcp::model::{CallToolResult, GetExtensions as _, JsonRpcMessage, RequestId, ServerResult};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use toolbus_wire::json::{RawJson, count_values};

use super::{CallTag, WireState};

/// Most values in a message that is read into types: each takes up to a hundred bytes of memory.
const VALUES_MAX: usize = 512 << 10;
/// The members of params that are of one hop and not of the caller.
const META: &str = "_meta";
const HOP_MEMBERS: [&str; 3] = [META, "inputResponses", "requestState"];

/// What an incoming message is to be read as.
pub(crate) enum Reading<'a> {
    /// This text.
    Text(&'a [u8]),
    /// This message: the text is not to be read.
    Message(Box<RxJsonRpcMessage<RoleClient>>),
    /// Nothing of it: it has too many values, and answers this request, if any.
    TooManyValues(Option<RequestId>),
}

/// A message as far as it says what it is.
#[derive(Deserialize)]
struct Envelope<'a> {
    id: Option<RequestId>,
    method: Option<IgnoredAny>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}

/// A result as far as it says what it is.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResultKind<'a> {
    #[serde(borrow)]
    result_type: Option<&'a RawValue>,
    #[serde(borrow)]
    is_error: Option<&'a RawValue>,
}

impl WireState {
    /// Looks at a message before it is read into types, and sets the result of a call aside.
    pub(crate) fn look_at<'a>(&self, message: &'a [u8]) -> Reading<'a> {
        let text = message.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(message);
        let Ok(envelope) = serde_json::from_slice::<Envelope<'_>>(text) else {
            return self.bound_values(message, None);
        };
        let Envelope { id: Some(id), method: None, result } = envelope else {
            return self.bound_values(message, None);
        };

        let tag = result.and_then(|_| self.pending.lock().answered_call(&id).cloned());
        let (Some(tag), Some(result)) = (tag, result) else {
            return self.bound_values(message, Some(id));
        };
        let Ok(kind) = serde_json::from_str::<ResultKind<'_>>(result.get()) else {
            return self.bound_values(message, Some(id));
        };
        if kind.result_type.is_some_and(|kind| kind.get() != r#""complete""#) {
            return self.bound_values(message, Some(id));
        }

        let is_error = kind.is_error.is_some_and(|is_error| is_error.get() == "true");
        let stand_in = match is_error {
            true => ServerResult::CallToolResult(CallToolResult::error(Vec::new())),
            false => ServerResult::empty(()),
        };
        tag.set_result(self.erase_in_raw(RawJson::from(result.to_owned())));
        Reading::Message(Box::new(JsonRpcMessage::response(stand_in, id)))
    }

    fn bound_values<'a>(&self, message: &'a [u8], answers: Option<RequestId>) -> Reading<'a> {
        if count_values(message) <= VALUES_MAX {
            return Reading::Text(message);
        }
        tracing::warn!(
            server = self.server,
            bytes = message.len(),
            "skipping message of MCP server: it has more than {VALUES_MAX} values"
        );
        Reading::TooManyValues(answers)
    }

    /// Erases credentials from a result.
    fn erase_in_raw(&self, result: RawJson) -> RawJson {
        match self.eraser.finder().and_then(|finder| finder.erase_json(result.text())) {
            Some(erased) => {
                self.note_credential();
                RawJson::parse(erased).unwrap_or(result)
            }
            None => result,
        }
    }

    /// The text of a message to the server, with the params that its caller wrote.
    pub(crate) fn write(message: &TxJsonRpcMessage<RoleClient>) -> serde_json::Result<Vec<u8>> {
        let JsonRpcMessage::Request(request) = message else {
            return serde_json::to_vec(message);
        };
        let Some(tag) = request.request.extensions().get::<CallTag>() else {
            return serde_json::to_vec(message);
        };

        let message = RawJson::of(message);
        let of_hop = message.member("params");
        let mut params = tag.0.params.clone();
        for name in HOP_MEMBERS {
            let member = of_hop.as_ref().and_then(|params| params.member(name));
            let member = match name {
                META => Some(merge_meta(params.member(name), member)).flatten(),
                _ => member,
            };
            params = params.with_member(name, member.as_ref());
        }
        Ok(message.with_member("params", Some(&params)).text().as_bytes().to_vec())
    }
}

/// The members of the caller's `_meta` that are about more than its own hop, and those of this one.
fn merge_meta(caller: Option<RawJson>, hop: Option<RawJson>) -> Option<RawJson> {
    let Some(mut merged) = caller else { return hop };
    let names: Vec<String> = merged
        .members()
        .into_iter()
        .flatten()
        .map(|(name, _)| name.into_owned())
        .filter(|name| is_of_hop(name))
        .collect();
    for name in names {
        merged = merged.with_member(&name, None);
    }

    for (name, value) in hop.as_ref().and_then(RawJson::members).into_iter().flatten() {
        merged = merged.with_member(&name, Some(&RawJson::from(value.to_owned())));
    }
    Some(merged)
}

/// Whether a member of `_meta` says something of the one connection that it came over.
fn is_of_hop(name: &str) -> bool {
    name.starts_with("io.modelcontextprotocol/")
        || matches!(name, "progressToken" | "traceparent" | "tracestate" | "baggage")
}

impl CallTag {
    fn set_result(&self, result: RawJson) {
        *self.0.result.lock() = Some(result);
    }

    /// Takes the result that the server has given.
    pub(crate) fn take_result(&self) -> Option<RawJson> {
        self.0.result.lock().take()
    }
}

#[cfg(test)]
mod tests {
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
        match wire.look_at(message.as_bytes()) {
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
        let answer = format!(
            r#"{{"id":7,"result":{{"a":"x tok-12345\u0036","n":{LARGE}}},"jsonrpc":"2.0"}}"#
        );
        assert!(look(&wire, &answer).is_some());
        let expected = format!(r#"{{"a":"x ***","n":{LARGE}}}"#);
        assert_eq!(tag.take_result().unwrap().text(), expected);
    }

    /// Read into types, each of these would take hundreds of megabytes.
    #[test]
    fn a_message_of_too_many_values_is_not_read() {
        let wire = WireState::new("s", Eraser::default());
        let zeros = format!("[{}0]", "0,".repeat(VALUES_MAX));
        let list = format!(r#"{{"jsonrpc":"2.0","id":3,"result":{{"tools":{zeros}}}}}"#);
        assert!(matches!(
            wire.look_at(list.as_bytes()),
            Reading::TooManyValues(Some(RequestId::Number(3)))
        ));
        let note = format!(r#"{{"jsonrpc":"2.0","method":"x","params":{zeros}}}"#);
        assert!(matches!(wire.look_at(note.as_bytes()), Reading::TooManyValues(None)));

        let tag = tag("{}");
        wire.record_outgoing(&request(3, &tag, json!(null)));
        assert!(look(&wire, &list).is_some(), "nobody looks into the result of a call");
    }
}
