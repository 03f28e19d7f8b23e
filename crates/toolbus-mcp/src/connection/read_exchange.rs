//! Requests on one connection that only read: prompts, resources, completions.

use rmcp::model::ErrorCode;
use rmcp::service::ServiceError;
use serde_json::{Value, json};
use tokio::time::sleep_until;
use toolbus_bus::Deadline;
use toolbus_wire::json::RawJson;

use super::answers::{AnswerReader, CallFailure};
use super::exchange::{Exchange, ExchangeScope, McpRequest};
use super::listing::{OfferLister, PageCursor};
use super::request_sender::RequestSender;
use crate::call::{Call, CallError};
use crate::failure::Failure;
use crate::lookup::{ReadRequest, ReadResponse, contents, page, prompt};
use crate::method::Method;
use crate::record::About;

/// Most values in a prompt or a resource that is read into types.
const VALUES_MAX: usize = 64 << 10;

/// Makes one request that only reads, within the limits of `call`.
pub(super) async fn read(
    sender: &RequestSender,
    request: &ReadRequest,
    call: &Call,
    deadline: Deadline,
) -> Result<ReadResponse, CallFailure> {
    let (method, params) = match request {
        ReadRequest::Resources { cursor } => {
            let response = tokio::select! {
                biased;
                response = read_resource_page(sender, cursor.clone()) => response,
                () = call.context.cancelled.cancelled() => return Err(CallFailure::Cancelled),
                () = sleep_until(deadline.at()) => return Err(CallFailure::TimedOut),
            };
            return match response {
                Ok(response) => Ok(response),
                Err(error) => Err(explain_failed_read(sender, request.method(), error).await),
            };
        }
        ReadRequest::Prompt { name, arguments } => {
            (Method::GetPrompt, RawJson::of(&json!({"name": name, "arguments": arguments})))
        }
        ReadRequest::Resource { uri } => (Method::ReadResource, RawJson::of(&json!({"uri": uri}))),
        ReadRequest::Relay(method, params) => {
            let result = relay(sender, *method, params, call, deadline).await?;
            return Ok(ReadResponse::Relay(result));
        }
    };

    let result = relay(sender, method, &params, call, deadline).await?;
    let no_answer = |_| sender.answer_failure(&format!("gave no answer to {}", request.method()));
    let value = result.to_value(VALUES_MAX).map_err(|error| {
        sender.answer_failure(&format!("gave an answer that cannot be used: {error}"))
    })?;
    match request {
        ReadRequest::Prompt { .. } => prompt(serde_json::from_value(value).map_err(no_answer)?)
            .map(ReadResponse::Prompt)
            .map_err(|why| sender.answer_failure(&format!("failed: {why}"))),
        _ => {
            Ok(ReadResponse::Resource(contents(serde_json::from_value(value).map_err(no_answer)?)))
        }
    }
}

/// Makes one request of which its caller reads the result.
async fn relay(
    sender: &RequestSender,
    method: Method,
    params: &RawJson,
    call: &Call,
    deadline: Deadline,
) -> Result<RawJson, CallFailure> {
    let name = |member| params.member(member).and_then(|name| name.to_value(1).ok());
    let name = match method {
        Method::GetPrompt => name("name"),
        Method::ReadResource => name("uri"),
        _ => None,
    };
    let about = match name.as_ref().and_then(Value::as_str) {
        Some(name) if method == Method::GetPrompt => About::Prompt(name),
        Some(uri) => About::Resource(uri),
        None => About::Nothing,
    };

    let scope = ExchangeScope {
        deadline,
        cancelled: &call.context.cancelled,
        progress: &call.context.progress,
        asker: &call.context.asker,
    };
    let request = McpRequest { method, about, params };
    let outcome = Exchange::new(sender, request, scope).run().await?;

    match outcome.result {
        Ok(result) => Ok(result),
        Err(ServiceError::McpError(error)) => {
            Err(explain_failed_read(sender, method.name(), ServiceError::McpError(error)).await)
        }
        Err(error) => {
            Err(AnswerReader::new(sender).explain_failure(call, &outcome.tag, error, || true).await)
        }
    }
}

async fn read_resource_page(
    sender: &RequestSender,
    cursor: Option<String>,
) -> Result<ReadResponse, ServiceError> {
    let lister = OfferLister::new(sender);
    // The templates go along with the first page only.
    let templates = match &cursor {
        None => lister.list_templates().await?,
        Some(_) => Vec::new(),
    };

    let (resources, next_cursor) = lister.list_resources_page(&PageCursor(cursor)).await?;
    Ok(ReadResponse::Resources(page(resources, templates, next_cursor)))
}

/// Explains an error in the place of what was to be read.
async fn explain_failed_read(
    sender: &RequestSender,
    method: &str,
    error: ServiceError,
) -> CallFailure {
    let answers = AnswerReader::new(sender);
    match error {
        ServiceError::McpError(error) if error.code == ErrorCode::METHOD_NOT_FOUND => {
            let server = &sender.server;
            let message = format!("MCP server '{server}' does not know {method}");
            let server_error = answers.server_error(&error);
            CallFailure::Final(CallError::Failed { message, server_error, retry_after: None })
        }
        ServiceError::McpError(error) => answers.failure_of(&error),
        ServiceError::TransportClosed => CallFailure::Lost(sender.lifecycle.why_over().await),
        ServiceError::TransportSend(error) => answers.explain_unsent(error),
        other => CallFailure::Lost(Failure::request(&other, &sender.eraser)),
    }
}
