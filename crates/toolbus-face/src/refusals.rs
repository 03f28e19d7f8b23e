//! Refusals of the transport, in words for whoever sent the request.
//!
//! rmcp decides what is refused. Its texts for a body that it cannot read are those of the library
//! that reads it, under a status for something else. They are replaced here by errors of JSON-RPC,
//! and by lines that say what is wanted. A request that is not refused is not read for it.

use axum::body::Bytes;
use axum::extract::Request;
use axum::http::header::{CONTENT_TYPE, HeaderMap};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};
use toolbus_json::Limits;
use toolbus_wire::json::RawJson;

/// The codes of JSON-RPC for a body that is no JSON, and for JSON that is no message.
const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;

/// The first revision of the protocol whose errors leave out an id that was not read. JSON-RPC, and
/// MCP before it, has null there.
const OMITS_ID_SINCE: &str = "2025-11-25";
/// What an id that is told back may have.
const ID_LIMITS: Limits = Limits::of_bytes(256);

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

const POST_ACCEPTS: &str = "the client has to accept both kinds of answers: \
                            Accept: application/json, text/event-stream\n";
const GET_ACCEPTS: &str = "this address is for MCP clients: they POST JSON-RPC messages, and a GET \
                           of theirs has Accept: text/event-stream\n";
const BODY_TYPE: &str = "the body has to be JSON: Content-Type: application/json\n";

/// What a refusal is worded by, of a request that is on its way.
pub(crate) struct SentRequest {
    method: Method,
    is_json: bool,
    omits_id: bool,
    body: Bytes,
}

/// What is wrong with a body.
#[derive(Debug, PartialEq)]
struct BodyError {
    code: i32,
    message: String,
    id: Option<Value>,
}

impl SentRequest {
    /// Notes what is needed of a request with this body.
    pub(crate) fn of(method: &Method, headers: &HeaderMap, body: &Bytes) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let kind = text(CONTENT_TYPE.as_str()).and_then(|kind| kind.split(';').next());
        let version = text("mcp-protocol-version");
        Self {
            method: method.clone(),
            is_json: kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json")),
            omits_id: version.is_some_and(|version| version >= OMITS_ID_SINCE),
            body: body.clone(),
        }
    }

    /// The response, in our words where it refuses the request.
    pub(crate) fn reword(self, mut response: Response) -> Response {
        let status = response.status();
        match status {
            StatusCode::NOT_ACCEPTABLE if self.method == Method::GET => {
                return refuse(status, GET_ACCEPTS);
            }
            StatusCode::NOT_ACCEPTABLE => return refuse(status, POST_ACCEPTS),
            StatusCode::UNSUPPORTED_MEDIA_TYPE if !self.is_json => {
                return refuse(status, BODY_TYPE);
            }
            StatusCode::UNSUPPORTED_MEDIA_TYPE => return self.refuse_body(),
            _ => {}
        }

        let is_error = status.is_client_error() || status.is_server_error();
        if is_error && !response.headers().contains_key(CONTENT_TYPE) {
            response.headers_mut().insert(CONTENT_TYPE, TEXT);
        }
        response
    }

    fn refuse_body(&self) -> Response {
        let BodyError { code, message, id } = body_error(&self.body);
        let mut error = json!({"jsonrpc": "2.0", "error": {"code": code, "message": message}});
        if id.is_some() || !self.omits_id {
            error["id"] = id.unwrap_or_default();
        }
        (StatusCode::BAD_REQUEST, [(CONTENT_TYPE, JSON)], error.to_string()).into_response()
    }
}

/// A refusal in one line.
pub(crate) fn refuse(status: StatusCode, line: impl Into<String>) -> Response {
    (status, [(CONTENT_TYPE, TEXT)], line.into()).into_response()
}

/// The answer at a path where nothing is served.
pub(crate) async fn nothing_here(_: Request) -> Response {
    let line = "nothing is served at this path: MCP clients connect to /mcp, or to /mcp/NAME for \
                one MCP server, and GET / lists what there is\n";
    refuse(StatusCode::NOT_FOUND, line)
}

/// What is wrong with a body that is no message of the protocol.
fn body_error(body: &Bytes) -> BodyError {
    let of = |code, message: &str| BodyError { code, message: message.to_owned(), id: None };
    if body.iter().all(u8::is_ascii_whitespace) {
        return of(PARSE_ERROR, "Parse error: the body is empty");
    }
    let message = match RawJson::parse_bytes(body.clone()) {
        Ok(message) => message,
        Err(error) if error.line() > 0 => {
            let (line, column) = (error.line(), error.column());
            let told = format!("Parse error: the body is no JSON at line {line}, column {column}");
            return of(PARSE_ERROR, &told);
        }
        Err(_) => return of(PARSE_ERROR, "Parse error: the body is not of UTF-8"),
    };

    let id = message.member("id").and_then(|id| read_id(&id));
    let reason = message_error(&message);
    BodyError { code: INVALID_REQUEST, message: format!("Invalid Request: {reason}"), id }
}

/// The first thing that keeps a JSON value from being a message.
fn message_error(message: &RawJson) -> &'static str {
    if message.text().starts_with('[') {
        return "a batch is not taken: each message has a POST of its own";
    }
    if message.members().is_none() {
        return "a message is a JSON object";
    }
    if message.member("jsonrpc").is_none_or(|version| version.text() != r#""2.0""#) {
        return "`jsonrpc` has to be \"2.0\"";
    }

    let is_answer = ["result", "error"].iter().any(|name| message.member(name).is_some());
    let method = message.member("method");
    if !is_answer && method.is_none_or(|method| !method.text().starts_with('"')) {
        return "`method` has to be a text";
    }
    if message.member("id").is_some_and(|id| read_id(&id).is_none()) {
        return "`id` has to be a text or a whole number";
    }
    if message.member("params").is_some_and(|params| !params.text().starts_with('{')) {
        return "`params` has to be an object";
    }
    "it has not the form of a message of MCP"
}

/// The id of a request, where it is one.
fn read_id(id: &RawJson) -> Option<Value> {
    let id: Value = toolbus_json::from_str(id.text(), &ID_LIMITS).ok()?;
    (id.is_string() || id.is_i64()).then_some(id)
}

#[cfg(test)]
mod tests;
