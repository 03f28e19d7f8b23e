//! Params and results that go around rmcp, as they were written.
//!
//! rmcp reads every message into its types: members that it does not know are lost there, numbers
//! that no `f64` holds change, and a value takes up to thirty times its text. So the params that a
//! caller wrote are put into its request just before that is sent, and the result of a call is
//! taken out of the answer before rmcp reads it. What rmcp sees is an empty result. The same goes
//! for lists that are read here, definition by definition.

use rmcp::RoleClient;
use rmcp::model::{
    CallToolResult, GetExtensions as _, JsonRpcMessage, ListToolsResult, RequestId, ServerResult,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use toolbus_json::{Limits, count_values};
use toolbus_wire::json::RawJson;

use super::{CallTag, WireState};
use crate::catalogue::TOOLS_MAX;
use crate::transport::{MESSAGE_LIMITS, MESSAGE_VALUES_MAX, PARTS_LIMITS};

/// What the id of an answer may have: ours are numbers, and some servers make texts of them.
const ID_LIMITS: Limits = Limits::of_bytes(256).with_values(1);
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
/// The members of params that are of one hop and not of the caller.
const META: &str = "_meta";
const INPUT_RESPONSES: &str = "inputResponses";
const REQUEST_STATE: &str = "requestState";

/// What an incoming message is to be read as.
pub(crate) enum Reading {
    /// This text, the message itself.
    Text(Vec<u8>),
    /// This message: the text is not to be read.
    Message(Box<RxJsonRpcMessage<RoleClient>>),
    /// Nothing of it: it has too many values, and answers this request, if any.
    TooManyValues(Option<RequestId>),
}

/// A message as far as it says what it is.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
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
    /// Looks at a message before it is read into types, and sets the result of a call aside. The
    /// result stays in the memory of the message.
    pub(crate) fn look_at(&self, message: Vec<u8>) -> Reading {
        let mut answers = None;
        let taken = RawJson::take_out(message, |message| {
            let text = message.strip_prefix(BYTE_ORDER_MARK).unwrap_or(message);
            let envelope: Envelope<'_> = toolbus_json::from_slice(text, &PARTS_LIMITS).ok()?;
            let Envelope { id: Some(id), method: None, result } = envelope else { return None };
            let id: RequestId = toolbus_json::from_str(id.get(), &ID_LIMITS).ok()?;

            let answered = result.and_then(|_| self.pending.lock().answered_call(&id).cloned());
            answers = Some(id);
            let (tag, result) = (answered?, result?);
            if tag.is_listing() && count_values(message) > MESSAGE_VALUES_MAX {
                return None;
            }
            let kind: ResultKind<'_> = toolbus_json::from_checked(result.get()).ok()?;
            let is_complete = kind.result_type.is_none_or(|kind| kind.get() == r#""complete""#);
            let is_error = kind.is_error.is_some_and(|is_error| is_error.get() == "true");
            is_complete.then_some(((tag, is_error), result))
        });

        match (taken, answers) {
            (Ok(((tag, is_error), result)), Some(id)) => {
                let result = self.erase_in_raw(result);
                let stand_in = match is_error {
                    true => ServerResult::CallToolResult(CallToolResult::error(Vec::new())),
                    false => tag
                        .is_listing()
                        .then(|| stand_in_of_tools(&result))
                        .flatten()
                        .unwrap_or_else(|| ServerResult::empty(())),
                };
                tag.set_result(result);
                Reading::Message(Box::new(JsonRpcMessage::response(stand_in, id)))
            }
            (Ok(_), None) => Reading::TooManyValues(None),
            (Err(message), answers) => self.bound_values(message, answers),
        }
    }

    fn bound_values(&self, message: Vec<u8>, answers: Option<RequestId>) -> Reading {
        // Its reader limits the depth, and says so.
        let Err(over) = MESSAGE_LIMITS.with_depth(usize::MAX).check(&message) else {
            return Reading::Text(message);
        };
        tracing::warn!(
            server = self.server,
            bytes = message.len(),
            "skipping message of MCP server: {over}"
        );
        Reading::TooManyValues(answers)
    }

    /// Erases credentials from a result.
    fn erase_in_raw(&self, result: RawJson) -> RawJson {
        match self.eraser.finder().and_then(|finder| finder.erase_json(result.text())) {
            Some(erased) => {
                self.note_credential();
                // No result at all rather than one that may still hold the credential.
                RawJson::parse(erased).unwrap_or_else(|_| RawJson::of(&()))
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

        let Some(params) = &tag.0.params else { return serde_json::to_vec(message) };

        let message = RawJson::of(message);
        let of_hop = message.member("params");
        let of_hop = |name| of_hop.as_ref().and_then(|params| params.member(name));
        let meta = merge_meta(params.member(META), of_hop(META));
        let [responses, state] = [INPUT_RESPONSES, REQUEST_STATE].map(of_hop);
        let params = params.with_members(&[
            (META, meta.as_ref()),
            (INPUT_RESPONSES, responses.as_ref()),
            (REQUEST_STATE, state.as_ref()),
        ]);
        Ok(message.with_member("params", Some(&params)).text().as_bytes().to_vec())
    }
}

/// What stands in for a list of tools: those that rmcp can read. Over HTTP it repeats arguments of
/// calls in headers where a tool's schema says so, and takes out tools that say so in a wrong way.
/// They are as many as a catalogue takes, and one more that says that there are too many.
fn stand_in_of_tools(result: &RawJson) -> Option<ServerResult> {
    #[derive(Deserialize)]
    struct Tools<'a> {
        #[serde(borrow)]
        tools: Vec<&'a RawValue>,
    }

    // The values of a list were counted.
    let listed: Tools<'_> = toolbus_json::from_checked(result.text()).ok()?;
    let tools = listed.tools.into_iter();
    let tools = tools.filter_map(|tool| toolbus_json::from_str(tool.get(), &MESSAGE_LIMITS).ok());
    Some(ListToolsResult::with_all_items(tools.take(TOOLS_MAX + 1).collect()).into())
}

/// The members of the caller's `_meta` that are about more than its own hop, and those of this one.
fn merge_meta(caller: Option<RawJson>, hop: Option<RawJson>) -> Option<RawJson> {
    let Some(members) = caller.as_ref().and_then(RawJson::members) else { return hop };
    let of_hop = hop.as_ref().and_then(RawJson::members).unwrap_or_default();
    let is_replaced = |name: &str| of_hop.iter().any(|(of_hop, _)| of_hop == name);

    let kept = members.into_iter().filter(|(name, _)| !is_of_hop(name) && !is_replaced(name));
    Some(RawJson::of_members(kept.chain(of_hop.iter().cloned())))
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
mod tests;
