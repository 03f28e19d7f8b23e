//! Requests to the bridge that are about servers, not tools.

use std::time::Duration;

use toolbus_bus::port::BODY_BYTES_MAX;
use toolbus_bus::requester::{self, Requester};
use toolbus_bus::{CallContext, Envelope, Progress};
use toolbus_json::Limits;
use toolbus_tools::Permit;
use toolbus_tools::call::CallError;
use toolbus_wire::message::mcp::{
    McpGetServiceDetailsRequest, McpGetServiceDetailsResponse, McpResponse,
};
use toolbus_wire::{ErrorCode, Message, header, json, queue, topic};

/// How long a bridge may take to answer.
pub const TIMEOUT: Duration = Duration::from_secs(30);
/// Most pages of the details of one server: four times what the bridge keeps of one at most.
const DETAILS_PAGES_MAX: usize = 64;
/// Most tools on all pages together: four times as well.
const DETAILS_TOOLS_MAX: usize = 40_000;
/// Most bytes of all pages together, likewise.
const DETAILS_BYTES_MAX: usize = 64 << 20;
/// What a JSON text within details may have, such as a schema.
pub(crate) const DETAILS_LIMITS: Limits = Limits::of_bytes(BODY_BYTES_MAX);

/// Asks the bridge, in the context of a call and by exact names; progress is not reported. Without
/// a permit, only what is announced anyway may be asked for. `timed_out` is what the model is told
/// when the bridge does not answer.
pub(crate) async fn ask<Q: Message, A: Message>(
    requester: &Requester,
    question: &Q,
    context: CallContext,
    permit: Option<&Permit>,
    timed_out: impl FnOnce() -> String,
) -> Result<A, CallError> {
    ask_counted(requester, question, context, permit, timed_out).await.map(|(answer, _)| answer)
}

/// The same, and how many bytes the answer has.
async fn ask_counted<Q: Message, A: Message>(
    requester: &Requester,
    question: &Q,
    context: CallContext,
    permit: Option<&Permit>,
    timed_out: impl FnOnce() -> String,
) -> Result<(A, usize), CallError> {
    let envelope = Envelope::of(question, requester.agent().as_str());
    let envelope = envelope.with_header(header::EXACT, "1");
    let request = requester::Request {
        may_repeat: false,
        topic: &topic::MCP_MANAGE,
        workers: Some(&queue::mcp_bridge_manage(requester.agent())),
        // These requests have no id of their own: the message's takes its place at both ends.
        call_id: &envelope.message_id.clone(),
        envelope,
        context: context.with_progress(Progress::none()),
    };
    let replied = match permit {
        Some(permit) => requester.request_sealed(request, permit).await,
        None => requester.request(request).await,
    };
    let reply = replied.map_err(|error| match error {
        requester::Error::Timeout { .. } => CallError::new(ErrorCode::Timeout, timed_out()),
        error if error.is_unroutable() => CallError::new(
            ErrorCode::Unroutable,
            "no MCP bridge is running: nobody manages MCP servers",
        ),
        error => toolbus_tools::bus::error_of("mcp.manage", error),
    })?;

    let answer = json::read(&reply.body).map_err(|error| {
        CallError::new(
            ErrorCode::OutcomeUnknown,
            format!("the reply of {} cannot be read: {error}", reply.source),
        )
    })?;
    Ok((answer, reply.body.len()))
}

/// The details of one server, as far as their pages have come.
struct DetailsPages {
    details: McpGetServiceDetailsResponse,
    bytes: usize,
}

impl DetailsPages {
    /// Adds a page of so many bytes.
    ///
    /// # Errors
    /// The limit that they exceed with it.
    fn add(&mut self, page: McpGetServiceDetailsResponse, bytes: usize) -> Result<(), String> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > DETAILS_BYTES_MAX {
            return Err(format!("{DETAILS_BYTES_MAX} bytes"));
        }
        if self.details.tools.len() + page.tools.len() > DETAILS_TOOLS_MAX {
            return Err(format!("{DETAILS_TOOLS_MAX} tools"));
        }

        self.details.tools.extend(page.tools);
        self.details.tools_next = page.tools_next;
        Ok(())
    }
}

/// Asks the bridge all about a server, page by page: one message may have no room for all its
/// tools. Bridges that know no pages answer with everything. An error of the bridge is in the
/// answer.
pub(crate) async fn ask_details(
    requester: &Requester,
    server: &str,
    context: CallContext,
    timed_out: impl Fn() -> String,
) -> Result<McpGetServiceDetailsResponse, CallError> {
    let ask_page = async |from: u32| {
        let server_name = server.to_owned();
        let question = McpGetServiceDetailsRequest { server_name, tools_from: Some(from) };
        let page = ask_counted(requester, &question, context.clone(), None, &timed_out).await?;
        Ok::<(McpGetServiceDetailsResponse, usize), CallError>(page)
    };
    let too_long = |limit: String| {
        let text = format!("the details of MCP server '{server}' have more than {limit}");
        CallError::execution_failed(text)
    };

    let (details, bytes) = ask_page(0).await?;
    let mut pages = DetailsPages { details, bytes };
    for _ in 1..DETAILS_PAGES_MAX {
        let Some(next) = pages.details.tools_next.take() else { return Ok(pages.details) };
        let (page, bytes) = ask_page(next).await?;
        if page.error.is_some() {
            return Ok(page);
        }
        pages.add(page, bytes).map_err(too_long)?;
    }

    match pages.details.tools_next {
        None => Ok(pages.details),
        Some(_) => Err(too_long(format!("{DETAILS_PAGES_MAX} pages"))),
    }
}

/// Refuses an answer by which the bridge denies what was asked for. Other errors are for the model
/// to read.
pub(crate) fn check_denied(response: &impl McpResponse) -> Result<(), CallError> {
    match response.error_code() {
        Some(ErrorCode::Denied) => check_answer(response),
        _ => Ok(()),
    }
}

/// Refuses an answer that tells of an error instead of what was asked for.
pub(crate) fn check_answer(response: &impl McpResponse) -> Result<(), CallError> {
    let Some(text) = response.error_text() else { return Ok(()) };
    let code = response.error_code().unwrap_or(ErrorCode::ExecutionFailed);
    let error = CallError::new(code, text);
    Err(match response.server_error() {
        Some(server_error) => error.with_details(server_error.to_details()),
        None => error,
    })
}

#[cfg(test)]
mod tests;
