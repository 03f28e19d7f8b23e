//! What the answers to one `tools/call` mean.

use std::time::{Duration, SystemTime};

use rmcp::model::{ErrorCode, ErrorData};
use rmcp::service::ServiceError;
use rmcp::transport::DynamicTransportError;
use serde_json::Value;
use toolbus_tools::hidden_text::{self, HiddenCounts};
use toolbus_wire::message::mcp::McpServerError;

use super::request_sender::RequestSender;
use crate::auth;
use crate::call::{Call, CallError};
use crate::eraser::shorten_text;
use crate::failure::{Failure, TEXT_BYTES_MAX, is_unauthorized, is_unreachable, json_rpc_text};
use crate::transport::intercept::CallTag;
use crate::transport::requested_pause::requested_pause;
use crate::{http, transport};

/// Longest data of a server's error that is passed on, in bytes of JSON.
const ERROR_DATA_BYTES_MAX: usize = 256 << 10;
/// Longest name of a capability that is repeated, in bytes.
const CAPABILITY_NAME_BYTES_MAX: usize = 40;

/// Why a call has no result, and whether it may be sent again.
#[derive(Debug)]
pub(crate) enum CallFailure {
    /// The request never reached the server: it may be sent again whatever the tool does.
    NotSent(Failure),
    /// The server stays away, and nothing was tried: the circuit is open.
    Unavailable { failure: Failure, retry_after: Duration },
    /// The request was sent, and its outcome is unknown.
    Lost(Failure),
    /// The call has failed for good.
    Final(CallError),
    /// The deadline has passed since the server was sent the call.
    TimedOut,
    /// The deadline passed before the server was sent anything.
    TimedOutUnsent,
    /// The caller has cancelled since the server was sent the call.
    Cancelled,
    /// The caller cancelled before the server was sent anything.
    CancelledUnsent,
}

impl CallFailure {
    /// The failure of a call to a server that is closed.
    pub(crate) fn closed() -> Self {
        Self::NotSent(Failure::new("it was closed"))
    }
}

/// Reads the answers to calls.
///
/// | the server's answer | is |
/// |---|---|
/// | a result, `isError` or not | a result |
/// | a result that asks for input | one more round with what the caller gives |
/// | a task | `execution_failed`: it was not asked for |
/// | JSON-RPC error −32602 (invalid params) for a tool that it lists | `invalid_arguments` |
/// | the same for a tool that it does not list; −32601 | `tool_not_found` |
/// | any other JSON-RPC error | `execution_failed` |
/// | HTTP 401, or 403 with a challenge | `auth_required` |
/// | the same, and a token could not be had | not sent, or `auth_required` for a login |
/// | HTTP 429 | `rate_limited` |
/// | none: it has asked for a pause | `rate_limited` |
/// | any other HTTP status, an answer that is too long | `execution_failed` |
/// | no answer: the connection was never made, the session is gone | not sent |
/// | no answer: the child or the connection ended | lost |
///
/// Seen with real servers: those of the TypeScript kit answer an unknown tool and wrong
/// arguments with a result that is an error and says `MCP error -32602: …`; those of the
/// Python kit with JSON-RPC errors or with results, depending on their version.
pub(super) struct AnswerReader<'a> {
    sender: &'a RequestSender,
}

impl<'a> AnswerReader<'a> {
    pub(super) fn new(sender: &'a RequestSender) -> Self {
        Self { sender }
    }

    /// Explains an error in the place of an answer.
    pub(super) async fn explain_failure(
        &self,
        call: &Call,
        tag: &CallTag,
        error: ServiceError,
        is_listed: impl FnOnce() -> bool,
    ) -> CallFailure {
        match error {
            ServiceError::McpError(error) => {
                CallFailure::Final(self.json_rpc_call_error(call, &error, is_listed()))
            }
            ServiceError::TransportClosed if !tag.is_handed_over() => {
                CallFailure::NotSent(self.sender.lifecycle.why_over().await)
            }
            ServiceError::TransportClosed if self.sender.lifecycle.is_over() => {
                CallFailure::Lost(self.sender.lifecycle.why_over().await)
            }

            // Only the stream that was to bring this answer.
            ServiceError::TransportClosed => {
                CallFailure::Lost(Failure::new("its answer broke off"))
            }
            ServiceError::TransportSend(error) => self.explain_unsent(error),
            ServiceError::UnexpectedResponse => {
                self.sender.answer_failure("gave an answer that is no result of its request")
            }
            other => CallFailure::Lost(Failure::request(&other, &self.sender.eraser)),
        }
    }

    /// The call error that a JSON-RPC error means. Its text names the tool and the server: those of
    /// the server seldom do, and its reader may have called several.
    fn json_rpc_call_error(&self, call: &Call, error: &ErrorData, is_listed: bool) -> CallError {
        let tool = &call.tool;
        let server = &self.sender.server;
        let text = self.error_text(error);
        let about = |what: &str| {
            if transport::is_replaced_answer(error) {
                return text.clone();
            }
            format!("Tool '{tool}' of MCP server '{server}' {what}: {text}")
        };

        match error.code {
            ErrorCode::INVALID_PARAMS if is_listed => CallError::InvalidArguments {
                message: about("does not take the arguments"),
                server_error: self.server_error(error),
            },
            ErrorCode::INVALID_PARAMS | ErrorCode::METHOD_NOT_FOUND => CallError::ToolUnknown {
                server: server.clone(),
                tool: tool.clone(),
                message: text,
                server_error: self.server_error(error),
            },
            _ => CallError::Failed {
                message: about("failed"),
                server_error: self.server_error(error),
                retry_after: None,
            },
        }
    }

    /// A JSON-RPC error as programs are told it; nothing where the server's answer could not be
    /// used and the error is ours.
    pub(super) fn server_error(&self, error: &ErrorData) -> Option<Box<McpServerError>> {
        if transport::is_replaced_answer(error) {
            return None;
        }

        let text = shorten_text(&error.message, ERROR_DATA_BYTES_MAX);
        let text = hidden_text::clean_text(&text, &mut HiddenCounts::default()).into_owned();
        let text = self.sender.eraser.erase(&text);
        let is_short = |data: &Value| data.to_string().len() <= ERROR_DATA_BYTES_MAX;
        Some(Box::new(McpServerError {
            code: error.code.0,
            message: shorten_text(&text, TEXT_BYTES_MAX).into_owned(),
            // Credentials are erased from it where messages come in.
            data: error.data.clone().filter(is_short),
        }))
    }

    /// The failure of a request that the server answered with a JSON-RPC error.
    pub(super) fn failure_of(&self, error: &ErrorData) -> CallFailure {
        CallFailure::Final(CallError::Failed {
            message: self.error_text(error),
            server_error: self.server_error(error),
            retry_after: None,
        })
    }

    /// The text of a JSON-RPC error, as it may be passed on.
    pub(super) fn error_text(&self, error: &ErrorData) -> String {
        let mut text = if transport::is_replaced_answer(error) {
            format!("MCP server '{}' {}", self.sender.server, error.message)
        } else {
            json_rpc_text(error, &self.sender.eraser)
        };

        if error.code == ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY {
            // Which ones: the caller may be able to add them.
            let data =
                error.data.as_ref().and_then(|data| data["requiredCapabilities"].as_object());
            let names = data.into_iter().flatten().map(|(name, _)| name.as_str());
            let names: Vec<_> = names.filter(|name| is_capability_name(name)).collect();
            text = format!("{text}: {}", names.join(", "));
        }

        shorten_text(&text, TEXT_BYTES_MAX).into_owned()
    }

    /// Explains why the transport did not carry a request.
    pub(super) fn explain_unsent(&self, error: DynamicTransportError) -> CallFailure {
        let server = self.sender.server.clone();
        let failure =
            |error| Failure::request(&ServiceError::TransportSend(error), &self.sender.eraser);
        let http = error.error.downcast_ref::<http::Error>();

        if let Some(pause) = http.and_then(requested_pause) {
            return CallFailure::Final(CallError::Paused { server, left: pause.left });
        }

        match http.and_then(auth::carried_error) {
            // The token is good, and not for this tool.
            Some(auth::Error::NeedsLogin { scope: Some(_), .. }) => {
                let reason = failure(error).to_string();
                return CallFailure::Final(CallError::NeedsLogin { server, reason });
            }
            Some(auth::Error::Scope(_)) => {
                let reason = failure(error).to_string();
                return CallFailure::Final(CallError::NotGranted { server, reason });
            }
            // Sent without a token that is good, it was refused, and so is every request after it.
            Some(_) => return CallFailure::NotSent(failure(error)),
            None => {}
        }

        match http {
            _ if is_unauthorized(&error) => CallFailure::Final(CallError::Unauthorized { server }),
            Some(http::Error::HttpStatus(status)) if status.status == 429 => {
                let retry_after = http::retry_after(status, SystemTime::now());
                CallFailure::Final(CallError::RateLimited { server, retry_after })
            }
            Some(
                http::Error::HttpStatus(_)
                | http::Error::UnexpectedServerResponse(_)
                | http::Error::UnexpectedContentType(_)
                | http::Error::ResponseBodyTooLarge { .. },
            ) => {
                let retry_after = match http {
                    Some(http::Error::HttpStatus(status)) => {
                        http::retry_after(status, SystemTime::now())
                    }
                    _ => None,
                };
                let message = format!("MCP server '{server}' failed: {}", failure(error));
                CallFailure::Final(CallError::Failed { message, server_error: None, retry_after })
            }
            Some(http::Error::SessionExpired) => CallFailure::NotSent(failure(error)),
            _ if is_unreachable(&error) => CallFailure::NotSent(failure(error)),
            _ => CallFailure::Lost(failure(error)),
        }
    }
}

/// Whether this may name a capability, and is no sentence of the server's.
fn is_capability_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte);
    name.len() <= CAPABILITY_NAME_BYTES_MAX && name.bytes().all(is_plain)
}
