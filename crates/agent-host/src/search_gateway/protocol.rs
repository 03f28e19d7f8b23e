//! JSON-RPC, as far as it is spoken here.

use serde_json::{Map, Value, json};
use toolbus_json::Limits;

use super::LINE_BYTES_MAX;

/// What a message may have: a line, with its end.
const LINE_LIMITS: Limits = Limits::of_bytes(LINE_BYTES_MAX + 1);

/// What a request is.
pub(super) const INVALID_REQUEST: i64 = -32600;
pub(super) const PARSE: i64 = -32700;
pub(super) const NOT_FOUND: i64 = -32601;
pub(super) const INVALID_PARAMS: i64 = -32602;
pub(super) const INTERNAL: i64 = -32603;

/// A request.
pub(super) struct Request {
    pub(super) id: Value,
    pub(super) method: String,
    pub(super) params: Map<String, Value>,
}

/// Why a request is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) code: i64,
    pub(super) message: String,
}

/// An answer.
pub(super) struct Reply {
    pub(super) id: Value,
    pub(super) outcome: Result<Value, Refusal>,
}

impl Refusal {
    pub(super) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

impl Reply {
    fn refused(id: Value, code: i64, message: impl Into<String>) -> Box<Self> {
        Box::new(Self { id, outcome: Err(Refusal::new(code, message)) })
    }

    /// The answer as a line of ASCII.
    pub(super) fn into_line(self) -> String {
        let text = match self.outcome {
            Ok(result) => json!({"jsonrpc": "2.0", "id": self.id, "result": result}),
            Err(Refusal { code, message }) => {
                let error = json!({"code": code, "message": message});
                json!({"jsonrpc": "2.0", "id": self.id, "error": error})
            }
        };
        escape(&text.to_string()) + "\n"
    }
}

/// Reads a message. `None`: a notification, or an answer to nothing that was asked.
pub(super) fn parse(line: &[u8]) -> Result<Option<Request>, Box<Reply>> {
    let message: Value = toolbus_json::from_slice(line, &LINE_LIMITS)
        .map_err(|error| Reply::refused(Value::Null, PARSE, format!("not JSON: {error}")))?;
    let Value::Object(mut message) = message else {
        let what = "a message is an object; batches are not taken";
        return Err(Reply::refused(Value::Null, INVALID_REQUEST, what));
    };

    let id = message.remove("id");
    let Some(Value::String(method)) = message.remove("method") else {
        // An answer has a result or an error.
        if message.contains_key("result") || message.contains_key("error") {
            return Ok(None);
        }
        let id = id.unwrap_or_default();
        return Err(Reply::refused(id, INVALID_REQUEST, "a request has a method"));
    };
    let id = match id {
        None => return Ok(None),
        Some(id @ (Value::String(_) | Value::Number(_))) => id,
        Some(_) => {
            let what = "an id is a string or a number";
            return Err(Reply::refused(Value::Null, INVALID_REQUEST, what));
        }
    };
    let params = match message.remove("params") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(params)) => params,
        Some(_) => return Err(Reply::refused(id, INVALID_PARAMS, "params are an object")),
    };
    Ok(Some(Request { id, method, params }))
}

/// The answer to a line that is too long to be read.
pub(super) fn too_long(bytes_max: usize) -> Box<Reply> {
    let what = format!("a message has at most {bytes_max} bytes");
    Reply::refused(Value::Null, INVALID_REQUEST, what)
}

/// JSON with every other character than those of ASCII escaped.
fn escape(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_ascii() {
            escaped.push(c);
            continue;
        }
        let mut units = [0; 2];
        for unit in c.encode_utf16(&mut units) {
            escaped.push_str(&format!("\\u{unit:04x}"));
        }
    }
    escaped
}

/// Reads a message and answers with its parameters. The answer is JSON in one line of ASCII.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(line: &[u8]) {
    let reply = match parse(line) {
        Ok(Some(Request { id, params, .. })) => Reply { id, outcome: Ok(params.into()) },
        Ok(None) => return,
        Err(refused) => *refused,
    };

    let written = reply.into_line();
    assert!(written.is_ascii() && written.find('\n') == Some(written.len() - 1));
    assert!(toolbus_json::from_str::<Value>(&written, &LINE_LIMITS).is_ok(), "{written}");
}
