//! The methods of the protocol, for one path. Each is led on to whoever knows; nothing is decided
//! here.

use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestMethod, CompleteRequestParams,
    CompleteResult, ErrorData, Implementation, ListPromptsRequestMethod, ListPromptsResult,
    ListResourceTemplatesRequestMethod, ListResourceTemplatesResult, ListResourcesRequestMethod,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
    Tool,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use tokio::sync::Semaphore;
use toolbus_tools::call::{Arguments, Call, CallError, Time};
use toolbus_wire::ErrorCode;
use toolbus_wire::envelope::new_id;

use super::news::News;
use super::offer::{self, Offer, Target};
use super::outcome;

/// Who calls, for the records.
const CALLER: &str = "mcp";

/// Answers the clients of one path. Clones are the same.
#[derive(Clone)]
pub(super) struct Handler {
    offer: Offer,
    calls: Arc<Semaphore>,
}

impl Handler {
    /// Answers with what `offer` has; `calls` bounds how many calls run over all paths.
    pub(super) fn new(offer: Offer, calls: Arc<Semaphore>) -> Self {
        Self { offer, calls }
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let program = Implementation::new("toolbus", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(program.with_title(self.offer.title()))
    }

    /// Without waiting, for the check of headers that repeat arguments.
    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.offer.known_tool(name)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.offer.tools().await.map_err(unavailable)?;
        offer::page(&tools, request.and_then(|request| request.cursor).as_deref())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Ok(_permit) = self.calls.try_acquire() else {
            let busy = CallError::new(ErrorCode::Busy, "too many calls are running");
            return Ok(outcome::failed(&busy).into());
        };
        let tool = request.name.clone();
        let arguments = request.arguments.unwrap_or_default();
        let target = self.offer.target(request.name, arguments).await.map_err(unavailable)?;
        let Some(Target { tool, arguments }) = target else {
            return Err(ErrorData::invalid_params(format!("there is no tool {tool:?}"), None));
        };
        let news = News::of(&context);
        let call = Call {
            id: new_id(),
            tool,
            arguments: Arguments::Value(arguments),
            caller: CALLER.to_owned(),
            session: None,
            time: Time::Default,
            cancelled: context.ct.clone(),
            progress: news.progress(),
            asker: toolbus_bus::Asker::none(),
        };
        let ended = news.tell_during(self.offer.agent().invoker().invoke(call)).await;
        outcome::answer(ended).map(CallToolResponse::from)
    }

    // What is not offered is not there, rather than empty, as rmcp has it by itself.

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListPromptsRequestMethod>())
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListResourcesRequestMethod>())
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListResourceTemplatesRequestMethod>())
    }

    async fn complete(
        &self,
        _request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(ErrorData::method_not_found::<CompleteRequestMethod>())
    }
}

/// The bridge does not say what its server has.
fn unavailable(error: CallError) -> ErrorData {
    ErrorData::internal_error(format!("{}: {}", error.code, error.message), None)
}
