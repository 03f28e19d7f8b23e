//! Requests on one connection that only read: prompts, resources, completions.

use std::collections::HashMap;

use rmcp::model::{
    ArgumentInfo, ClientRequest, CompleteRequest, CompleteRequestParams, CompletionContext,
    ErrorCode, Reference, ServerResult,
};
use rmcp::service::ServiceError;
use tokio::time::{Instant, sleep_until};
use toolbus_bus::Progress;
use toolbus_wire::message::mcp::McpCompleteRequest;

use super::answers::{AnswerReader, CallFailure};
use super::exchange::{Exchange, ExchangeScope, McpRequest};
use super::listing::{OfferLister, PageCursor};
use super::request_sender::RequestSender;
use crate::call::Call;
use crate::failure::Failure;
use crate::lookup::{ReadRequest, ReadResponse, completion, contents, page, prompt};

/// Makes one request that only reads, within the limits of `call`.
pub(super) async fn read(
    sender: &RequestSender,
    request: &ReadRequest,
    call: &Call,
    until: Instant,
) -> Result<ReadResponse, CallFailure> {
    let mcp_request = match request {
        ReadRequest::Resources { .. } | ReadRequest::Completion(_) => {
            let response = tokio::select! {
                biased;
                response = read_at_once(sender, request) => response,
                () = call.context.cancelled.cancelled() => return Err(CallFailure::Cancelled),
                () = sleep_until(until) => return Err(CallFailure::TimedOut),
            };
            return match response {
                Ok(response) => Ok(response),
                Err(error) => Err(explain_failed_read(sender, request, error).await),
            };
        }
        ReadRequest::Prompt { name, arguments } => McpRequest::Prompt { name, arguments },
        ReadRequest::Resource { uri } => McpRequest::Resource { uri },
    };

    let progress = &Progress::none();
    let scope = ExchangeScope {
        until,
        cancelled: &call.context.cancelled,
        progress,
        asker: &call.context.asker,
    };
    let outcome = Exchange::new(sender, mcp_request, scope).run().await?;

    match outcome.response {
        Ok(ServerResult::GetPromptResult(result)) => prompt(result)
            .map(ReadResponse::Prompt)
            .map_err(|why| sender.answer_failure(&format!("failed: {why}"))),
        Ok(ServerResult::ReadResourceResult(result)) => {
            Ok(ReadResponse::Resource(contents(result)))
        }
        Ok(_) => Err(sender.answer_failure(&format!("gave no answer to {}", request.method()))),
        Err(ServiceError::McpError(error)) => {
            Err(explain_failed_read(sender, request, ServiceError::McpError(error)).await)
        }
        Err(error) => {
            Err(AnswerReader::new(sender).explain_failure(call, &outcome.tag, error, || true).await)
        }
    }
}

/// Makes a request that takes one round: no server asks back for these.
async fn read_at_once(
    sender: &RequestSender,
    request: &ReadRequest,
) -> Result<ReadResponse, ServiceError> {
    match request {
        ReadRequest::Completion(request) => complete_argument(sender, request).await,
        ReadRequest::Resources { cursor } => read_resource_page(sender, cursor.clone()).await,
        _ => Err(ServiceError::UnexpectedResponse),
    }
}

async fn complete_argument(
    sender: &RequestSender,
    request: &McpCompleteRequest,
) -> Result<ReadResponse, ServiceError> {
    let reference = match (&request.prompt_name, &request.uri_template) {
        (Some(prompt), _) => Reference::for_prompt(prompt.clone()),
        (None, uri) => Reference::for_resource(uri.clone().unwrap_or_default()),
    };
    let argument = ArgumentInfo::new(&request.argument_name, &request.argument_value);
    let decided = request.arguments.iter();
    let decided =
        decided.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
    let decided: HashMap<_, _> = decided.collect();

    let mut params = CompleteRequestParams::new(reference, argument);
    params.context = (!decided.is_empty()).then(|| CompletionContext::with_arguments(decided));
    let request = ClientRequest::CompleteRequest(CompleteRequest::new(params));
    match sender.send(request).await? {
        ServerResult::CompleteResult(result) => {
            Ok(ReadResponse::Completion(completion(result.completion)))
        }
        _ => Err(ServiceError::UnexpectedResponse),
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
    request: &ReadRequest,
    error: ServiceError,
) -> CallFailure {
    let answers = AnswerReader::new(sender);
    match error {
        ServiceError::McpError(error) if error.code == ErrorCode::METHOD_NOT_FOUND => {
            sender.answer_failure(&format!("does not know {}", request.method()))
        }
        ServiceError::McpError(error) => answers.failure_of(&error),
        ServiceError::TransportClosed => CallFailure::Lost(sender.lifecycle.why_over().await),
        ServiceError::TransportSend(error) => answers.explain_unsent(error),
        other => CallFailure::Lost(Failure::request(&other, &sender.eraser)),
    }
}
