//! One `tools/call` on one connection, and what the answers mean.

use rmcp::model::{ErrorCode, ErrorData, ServerResult};
use rmcp::service::ServiceError;
use rmcp::transport::DynamicTransportError;
use tokio::time::Instant;

use super::Connection;
use super::rounds::{Exchange, Terms, What};
use crate::auth;
use crate::call::{Call, CallError};
use crate::call_result::CallResult;
use crate::eraser::shortened;
use crate::failure::{Failure, TEXT_BYTES_MAX, is_unauthorized, is_unreachable, json_rpc};
use crate::transport::tap::Mark;
use crate::{http, transport};

/// How a call ended that has no result.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The request never reached the server: it may be made again whatever the tool does.
    NotSent(Failure),
    /// The request was sent, and nobody knows what became of it.
    Lost(Failure),
    /// For good.
    With(CallError),
    /// The deadline.
    TimedOut,
    /// The caller.
    Cancelled,
}

impl Connection {
    /// Calls a tool.
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
    /// | any other HTTP status, an answer that is too long | `execution_failed` |
    /// | no answer: the connection was never made, the session is gone | not sent |
    /// | no answer: the child or the connection ended | lost |
    ///
    /// Seen with real servers: those of the TypeScript kit answer an unknown tool and wrong
    /// arguments with a result that is an error and says `MCP error -32602: …`; those of the
    /// Python kit with JSON-RPC errors or with results, depending on their version.
    pub(crate) async fn call(
        &self,
        call: &Call,
        deadline: Instant,
        is_listed: impl Fn() -> bool,
    ) -> Result<CallResult, Ended> {
        let is_listed_now = is_listed();
        let what =
            What::Tool { name: &call.tool, arguments: &call.arguments, is_listed: is_listed_now };
        let terms = Terms {
            until: deadline,
            cancelled: &call.cancelled,
            progress: &call.progress,
            asker: &call.asker,
        };
        let Exchange { response, mark, is_repeated } = self.exchange(what, terms).await?;
        match response {
            Ok(result) => self.understand(result),
            Err(error) => match self.explain(call, &mark, error, is_listed).await {
                // What was there before the server asked for more may have taken effect.
                Ended::NotSent(failure) if is_repeated => Err(Ended::Lost(failure)),
                ended => Err(ended),
            },
        }
    }

    fn understand(&self, result: ServerResult) -> Result<CallResult, Ended> {
        let what = match result {
            ServerResult::CallToolResult(result) => return Ok(CallResult::from_mcp(result)),
            ServerResult::EmptyResult(_) => return Ok(CallResult::default()),
            ServerResult::CustomResult(result) => match CallResult::from_unknown(result) {
                Some(result) => return Ok(result),
                None => "gave an answer that is no result of a tool",
            },
            ServerResult::CreateTaskResult(_) => "made a task of the call, which it may not",
            _ => "gave an answer that is no result of a tool",
        };
        Err(self.failed(what))
    }

    pub(super) async fn explain(
        &self,
        call: &Call,
        mark: &Mark,
        error: ServiceError,
        is_listed: impl FnOnce() -> bool,
    ) -> Ended {
        match error {
            ServiceError::McpError(error) if is_of_a_lost_session(&error) => {
                Ended::Lost(Failure::new("its session was lost"))
            }
            ServiceError::McpError(error) => Ended::With(self.refused(call, &error, is_listed())),
            ServiceError::TransportClosed if !mark.is_handed_over() => {
                Ended::NotSent(self.why_over().await)
            }
            ServiceError::TransportClosed if self.is_over() => Ended::Lost(self.why_over().await),
            // Only the stream that was to bring this answer.
            ServiceError::TransportClosed => Ended::Lost(Failure::new("its answer broke off")),
            ServiceError::TransportSend(error) => self.not_carried(error),
            other => Ended::Lost(Failure::request(&other, &self.eraser)),
        }
    }

    /// What a JSON-RPC error is. Its text names the tool and the server: those of the server seldom
    /// do, and whoever reads it may have called several.
    fn refused(&self, call: &Call, error: &ErrorData, is_listed: bool) -> CallError {
        let (tool, server) = (&call.tool, &self.server);
        let told = self.told_by(error);
        let about = |what: &str| {
            if transport::is_ours(error) {
                return told.clone();
            }
            format!("Tool '{tool}' of MCP server '{server}' {what}: {told}")
        };
        match error.code {
            ErrorCode::INVALID_PARAMS if is_listed => {
                CallError::InvalidArguments { message: about("does not take the arguments") }
            }
            ErrorCode::INVALID_PARAMS | ErrorCode::METHOD_NOT_FOUND => {
                CallError::ToolUnknown { server: server.clone(), tool: tool.clone(), message: told }
            }
            _ => CallError::Failed { message: about("failed") },
        }
    }

    /// The text of a JSON-RPC error, as it may be passed on.
    pub(crate) fn told_by(&self, error: &ErrorData) -> String {
        let mut text = if transport::is_ours(error) {
            format!("MCP server '{}' {}", self.server, error.message)
        } else {
            json_rpc(error)
        };
        if error.code == ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY {
            // Which ones: whoever called may be able to mend it.
            let data =
                error.data.as_ref().and_then(|data| data["requiredCapabilities"].as_object());
            let names: Vec<_> = data.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
            text = format!("{text}: {}", names.join(", "));
        }
        shortened(&self.eraser.erase(&text), TEXT_BYTES_MAX).into_owned()
    }

    /// What it is when the transport did not carry a request.
    pub(super) fn not_carried(&self, error: DynamicTransportError) -> Ended {
        let server = self.server.clone();
        let failure = |error| Failure::request(&ServiceError::TransportSend(error), &self.eraser);
        let http = error.error.downcast_ref::<http::Error>();
        match http.and_then(auth::carried) {
            // The token is good, and not for this tool.
            Some(auth::Error::NeedsLogin { scope: Some(_), .. }) => {
                let reason = failure(error).to_string();
                return Ended::With(CallError::NeedsLogin { server, reason });
            }
            Some(auth::Error::Scope(_)) => {
                let reason = failure(error).to_string();
                return Ended::With(CallError::NotGranted { server, reason });
            }
            // Sent without a token that is good, it was refused, and so is whatever comes next.
            Some(_) => return Ended::NotSent(failure(error)),
            None => {}
        }
        match http {
            _ if is_unauthorized(&error) => Ended::With(CallError::Unauthorized { server }),
            Some(http::Error::HttpStatus(status)) if status.status == 429 => {
                Ended::With(CallError::RateLimited { server })
            }
            Some(
                http::Error::HttpStatus(_)
                | http::Error::UnexpectedServerResponse(_)
                | http::Error::UnexpectedContentType(_)
                | http::Error::ResponseBodyTooLarge { .. },
            ) => {
                let message = format!("MCP server '{server}' failed: {}", failure(error));
                Ended::With(CallError::Failed { message })
            }
            Some(http::Error::SessionExpired | http::Error::ReinitializationFailed(_)) => {
                Ended::NotSent(failure(error))
            }
            _ if is_unreachable(&error) => Ended::NotSent(failure(error)),
            _ => Ended::Lost(failure(error)),
        }
    }
}

/// Whether rmcp made this error up for a call whose session was replaced while it ran.
fn is_of_a_lost_session(error: &ErrorData) -> bool {
    error.code == ErrorCode::INTERNAL_ERROR
        && error.message.starts_with("streamable HTTP session was re-initialized")
}
