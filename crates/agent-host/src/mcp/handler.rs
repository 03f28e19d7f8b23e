//! The methods of the protocol, for one path. Each is led on to whoever knows; nothing is decided
//! here.

use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestMethod, CompleteRequestParams,
    CompleteResult, ErrorData, GetPromptRequestMethod, GetPromptRequestParams, GetPromptResponse,
    Implementation, ListPromptsRequestMethod, ListPromptsResult,
    ListResourceTemplatesRequestMethod, ListResourceTemplatesResult, ListResourcesRequestMethod,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, PromptsCapability,
    ReadResourceRequestMethod, ReadResourceRequestParams, ReadResourceResponse,
    ResourcesCapability, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use tokio::sync::{Semaphore, SemaphorePermit};
use toolbus_tools::call::{Arguments, Call, CallError, Time};
use toolbus_wire::ErrorCode;
use toolbus_wire::envelope::new_id;

use super::era;
use super::log::Session;
use super::news::News;
use super::offer::{self, Offer, Target};
use super::outcome;
use super::questions::Questions;

/// Who calls, for the records.
const CALLER: &str = "mcp";

/// Answers the clients of one path. Clones are of one session.
#[derive(Clone)]
pub(super) struct Handler {
    offer: Offer,
    calls: Arc<Semaphore>,
    log: Session,
}

impl Handler {
    /// Answers with what `offer` has; `calls` bounds how many calls and other requests
    /// over the bus run, over all paths.
    pub(super) fn new(offer: Offer, calls: Arc<Semaphore>) -> Self {
        Self { offer, calls, log: Session::default() }
    }

    /// The same for another session.
    pub(super) fn for_session(&self) -> Self {
        Self { log: Session::default(), ..self.clone() }
    }

    /// Room for a request that is answered over the bus.
    fn permit(&self) -> Result<SemaphorePermit<'_>, ErrorData> {
        let permit = self.calls.try_acquire();
        permit.map_err(|_| ErrorData::internal_error("busy: too many calls are running", None))
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let program = Implementation::new("toolbus", env!("CARGO_PKG_VERSION"));
        let mut capabilities = ServerCapabilities::builder().enable_tools().build();
        capabilities.logging = Some(serde_json::Map::new());
        let offered = self.offer.beside_tools();
        capabilities.prompts = offered.prompts.then(PromptsCapability::default);
        capabilities.resources = offered.resources.then(ResourcesCapability::default);
        ServerConfig::new(capabilities).with_server_info(program.with_title(self.offer.title()))
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
        let is_newer = era::is_newer(&context);
        let news = News::of(&context, self.log.threshold(&context));
        let questions = Questions::of(&context);
        let call = Call {
            id: new_id(),
            tool,
            arguments: Arguments::Value(arguments),
            caller: CALLER.to_owned(),
            session: None,
            time: Time::Default,
            cancelled: context.ct.clone(),
            progress: news.progress(),
            asker: questions.asker(),
        };
        let call = questions.answer_during(self.offer.agent().invoker().invoke(call));
        let ended = news.tell_during(call).await;
        let result = outcome::answer(ended)?;
        let result = if is_newer { result } else { outcome::without_bare_values(result) };
        Ok(result.into())
    }

    #[expect(deprecated, reason = "the protocol has nothing in place of its log yet")]
    async fn set_level(
        &self,
        request: rmcp::model::SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.log.set(request.level);
        Ok(())
    }

    // What is not offered is not there, rather than empty, as rmcp has it by itself.

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let _permit = self.permit()?;
        let reading = self.offer.prompts(&context.ct);
        let reading =
            reading.ok_or_else(ErrorData::method_not_found::<ListPromptsRequestMethod>)?;
        reading.prompts(request.and_then(|request| request.cursor)).await
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let _permit = self.permit()?;
        let reading = self.offer.prompts(&context.ct);
        let reading = reading.ok_or_else(ErrorData::method_not_found::<GetPromptRequestMethod>)?;
        reading.prompt(request).await.map(GetPromptResponse::from)
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let _permit = self.permit()?;
        let reading = self.offer.resources(&context.ct);
        let reading =
            reading.ok_or_else(ErrorData::method_not_found::<ListResourcesRequestMethod>)?;
        reading.resources(request.and_then(|request| request.cursor)).await
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let _permit = self.permit()?;
        let reading = self.offer.resources(&context.ct);
        let reading = reading
            .ok_or_else(ErrorData::method_not_found::<ListResourceTemplatesRequestMethod>)?;
        reading.templates(request.and_then(|request| request.cursor)).await
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let _permit = self.permit()?;
        let reading = self.offer.resources(&context.ct);
        let reading =
            reading.ok_or_else(ErrorData::method_not_found::<ReadResourceRequestMethod>)?;
        reading.resource(request.uri).await.map(ReadResourceResponse::from)
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
