//! Requests for prompts and resources of one MCP server: relayed over the bus, and answered as the
//! server answers them.
//!
//! Nothing is kept here, and nothing is cut: who reads a resource has it whole or not.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use rmcp::model::{ErrorCode, ErrorData, Prompt};
use tokio_util::sync::CancellationToken;
use toolbus_bus::Asker;
use toolbus_json::Limits;
use toolbus_mcp_agent::reads::{READ_TIMEOUT, READ_WITH_QUESTIONS_TIMEOUT};
use toolbus_tools::Scope;
use toolbus_tools::call::{Arguments, Call, CallError, CallTime};
use toolbus_tools::id::{CallId, ToolName};
use toolbus_tools::invoker::ReadContext;
use toolbus_wire::json::RawJson;

use crate::FaceDeps;
use crate::outcome;
use crate::pending_call::CallOutcome;

/// What a prompt of a server may have: bridges keep no more of all its prompts.
const PROMPT_LIMITS: Limits = Limits::of_bytes(1 << 20);

/// One server, for one request. Every read passes the invoker's gates.
pub(crate) struct ServerRequests<'a> {
    pub(crate) deps: &'a FaceDeps,
    pub(crate) server: &'a str,
    /// The client.
    pub(crate) scope: &'a Arc<Scope>,
    /// Fires when the client wants no answer any more.
    pub(crate) cancelled: &'a CancellationToken,
}

/// The call that a read is to the invoker, by the protocol's name of its method.
pub(crate) fn read_call(scope: &Arc<Scope>, method: &'static str) -> Call {
    let name = ToolName::parse(method).expect("a method's name is short");
    let time = CallTime::of_execution(READ_TIMEOUT);
    Call::new(scope, CallId::random(), name, Arguments::Text(None)).with_time(time)
}

impl ServerRequests<'_> {
    /// Has a read pass the gates, and makes it.
    fn admit<'a, T, Fut>(
        &'a self,
        method: &'static str,
        asker: &Asker,
        read: impl FnOnce(ReadContext) -> Fut + Send + 'a,
    ) -> BoxFuture<'a, Result<T, CallError>>
    where
        T: Send + 'a,
        Fut: Future<Output = Result<T, CallError>> + Send + 'a,
    {
        let call = read_call(self.scope, method);
        let call = call.with_cancelled(self.cancelled.clone()).with_asker(asker.clone());
        // Somebody may have to be asked first.
        let call = if asker.is_there() {
            call.with_time(CallTime::of_execution(READ_WITH_QUESTIONS_TIMEOUT))
        } else {
            call
        };

        let subject = self.deps.directory.read_subject(self.server, method);
        self.deps.read(call, subject, read)
    }

    /// The result with all prompts: they are few, so there is one page of them.
    pub(crate) async fn prompts(&self, cursor: Option<String>) -> Result<RawJson, ErrorData> {
        if cursor.is_some() {
            return Err(ErrorData::invalid_params("the cursor is none", None));
        }
        let directory = &self.deps.directory;
        let listing = |_| directory.details(self.server);
        let details = self.admit("prompts/list", &Asker::none(), listing).await.map_err(error)?;
        let prompts = details.prompts.into_iter().flatten();
        // What is no prompt is nothing that a client could ask for.
        let prompts = prompts.filter(|prompt| {
            toolbus_json::from_str::<Prompt>(prompt.text(), &PROMPT_LIMITS).is_ok()
        });
        let prompts = RawJson::of(&prompts.collect::<Vec<_>>());
        Ok(RawJson::of_members([("prompts", prompts.as_raw())]))
    }

    /// Has the server answer a request of the client.
    pub(crate) async fn relay(
        &self,
        method: &'static str,
        params: RawJson,
        asker: &Asker,
    ) -> CallOutcome {
        let directory = &self.deps.directory;
        let relay = |context| directory.relay(self.server, method, params, context);
        self.admit(method, asker, relay).await.map_err(error)
    }
}

/// What the server itself says is told in its own words and by its own code; the rest is an error
/// of ours.
pub(crate) fn error(error: CallError) -> ErrorData {
    match outcome::server_error(&error) {
        Some(error) => outcome::protocol_error(error),
        None if error.code == toolbus_wire::ErrorCode::InvalidArguments => {
            ErrorData::new(ErrorCode::INVALID_PARAMS, error.message, None)
        }
        None => ErrorData::internal_error(format!("{}: {}", error.code, error.message), None),
    }
}

#[cfg(test)]
mod tests;
