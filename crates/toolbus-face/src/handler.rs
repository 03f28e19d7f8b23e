//! The methods of the protocol, for one path. Each is led on to whoever knows; nothing is decided
//! here.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestMethod, CallToolRequestParams, CallToolResponse, CompleteRequestMethod,
    CompleteResult, CompletionInfo, ConstString as _, ErrorData, GetPromptRequestMethod,
    GetPromptRequestParams, GetPromptResponse, Implementation, InputResponses,
    ListPromptsRequestMethod, ListPromptsResult, ListResourceTemplatesRequestMethod,
    ListResourceTemplatesResult, ListResourcesRequestMethod, ListResourcesResult, ListToolsResult,
    MetaObject, PaginatedRequestParams, PromptsCapability, ReadResourceRequestMethod,
    ReadResourceRequestParams, ReadResourceResponse, ResourcesCapability, ServerCapabilities,
    ServerConfig, SubscribeRequestMethod, SubscribeRequestParams, Tool, UnsubscribeRequestMethod,
    UnsubscribeRequestParams,
};
use rmcp::service::{Peer, RequestContext, SubscriptionContext};
use serde_json::Value;
use toolbus_bus::{Asker, Slot, SlotPool};
use toolbus_tools::call::{Arguments, Call, CallError, CallTime};
use toolbus_tools::id::{CallId, SessionId, ToolName};
use toolbus_tools::{Door, Principal, Scope, View};
use toolbus_wire::ErrorCode;

use crate::FaceDeps;
use crate::client_params::ClientParams;
use crate::input_rounds::RequestAnswer;
use crate::log::SessionLog;
use crate::offer::{self, BesideTools, Era, Introduction, Offer, Target};
use crate::outcome::{self, ServerErrors};
use crate::pending_call::{CallOutcome, ClientLinks, NewCall};
use crate::protocol_version;
use crate::resource_requests::ServerRequests;
use crate::subscriptions::{self, ResourceSubscriptions};
use crate::suspended_calls::{NamedRequest, RequestIdentity, SuspendedCalls};
use crate::written_results::ResultSlot;

/// What a client brings that comes back to answer.
struct ResumeRequest {
    responses: Option<InputResponses>,
    state: Option<String>,
}

/// Answers the clients of one path. Clones are of one session.
#[derive(Clone)]
pub(crate) struct Handler {
    offer: Offer,
    /// The client.
    scope: Arc<Scope>,
    calls: SlotPool,
    suspended: SuspendedCalls,
    log: SessionLog,
    subscriptions: ResourceSubscriptions,
}

/// The scope of this client that sees this, whose session and run are its own.
pub(crate) fn client_scope(deps: &FaceDeps, view: View, client: Principal) -> Arc<Scope> {
    let scope = Scope::new(Door::Mcp, client, deps.agent.clone());
    let session = SessionId::parse(format!("mcp/{}", scope.run.as_str()));
    Arc::new(deps.invoker.begin_run(scope.with_session(session.ok()).with_view(view)))
}

/// Has the server answer a request that asks nothing back. The result goes into the slot of the
/// request; the meta is that of what stands in for it.
async fn relay_to_slot(
    requests: &ServerRequests<'_>,
    method: &'static str,
    context: &RequestContext<RoleServer>,
) -> Result<MetaObject, ErrorData> {
    let result = requests.relay(method, ClientParams::of(context), &Asker::none()).await?;
    Ok(ResultSlot::of(context).keep(result))
}

impl Handler {
    /// Answers `client` with what `offer` has and `view` sees; `calls` bounds how many calls and
    /// other requests over the bus run, over all paths, and `suspended` has those whose clients are
    /// away.
    pub(crate) fn new(
        offer: Offer,
        view: View,
        client: Principal,
        calls: SlotPool,
        suspended: SuspendedCalls,
    ) -> Self {
        Self {
            scope: client_scope(offer.deps(), view, client),
            offer,
            calls,
            suspended,
            log: SessionLog::default(),
            subscriptions: ResourceSubscriptions::default(),
        }
    }

    /// The same for another session.
    pub(crate) fn for_session(&self) -> Self {
        let Scope { view, principal, .. } = &*self.scope;
        Self {
            scope: client_scope(self.offer.deps(), view.clone(), principal.clone()),
            log: SessionLog::default(),
            subscriptions: ResourceSubscriptions::default(),
            ..self.clone()
        }
    }

    /// The tool of this name, as far as it is known without asking anybody.
    pub(crate) fn known_tool(&self, name: &str) -> Option<Tool> {
        self.offer.known_tool(&self.scope, name)
    }

    /// Whether there is a tool of this name, as far as is known without asking anybody.
    pub(crate) fn knows_tool(&self, name: &str) -> bool {
        self.offer.knows_tool(&self.scope, name)
    }

    /// What the client may use beside tools.
    fn beside_tools(&self) -> BesideTools {
        self.offer.beside_tools(&self.scope.view)
    }

    pub(crate) fn suspended_calls(&self) -> &SuspendedCalls {
        &self.suspended
    }

    pub(crate) fn log(&self) -> &SessionLog {
        &self.log
    }

    /// A slot for a request that is answered over the bus.
    fn take_slot(&self) -> Result<Slot, ErrorData> {
        let busy = || ErrorData::internal_error("busy: too many calls are running", None);
        self.calls.try_take().ok_or_else(busy)
    }

    /// Which request this is, for a client that comes back with answers.
    fn request_identity(
        &self,
        method: &'static str,
        name: &str,
        arguments: &Value,
        context: &RequestContext<RoleServer>,
    ) -> RequestIdentity {
        let request = NamedRequest { method, name, arguments };
        self.suspended.identity(&self.scope.principal, self.offer.server(), request, context)
    }
}

/// What clients ask, by the protocol's names.
impl Handler {
    /// What clients are told of this server.
    pub(crate) fn server_info(&self) -> ServerConfig {
        let program = Implementation::new("toolbus", env!("CARGO_PKG_VERSION"));
        let tools = ServerCapabilities::builder().enable_tools().enable_tool_list_changed();
        let mut capabilities = tools.build();
        capabilities.logging = Some(serde_json::Map::new());

        let offered = self.beside_tools();
        capabilities.prompts = offered.prompts.then(|| {
            let mut prompts = PromptsCapability::default();
            prompts.list_changed = Some(true);
            prompts
        });

        capabilities.resources = offered.resources.then(|| {
            let mut resources = ResourcesCapability::default();
            resources.list_changed = Some(true);
            resources.subscribe = offered.subscriptions.then_some(true);
            resources
        });

        capabilities.completions = offered.completions.then(serde_json::Map::new);
        ServerConfig::new(capabilities)
            .with_server_info(program.with_title(self.offer.server_title()))
    }

    /// The same with what the agent, or the MCP server, says of itself.
    pub(crate) async fn introduce(&self, mut info: ServerConfig) -> ServerConfig {
        // It is asked for over the bus, as other requests are.
        let Ok(_slot) = self.offer.server().map(|_| self.take_slot()).transpose() else {
            return info;
        };
        let Introduction { program, instructions } = self.offer.introduction(&self.scope).await;
        if let Some(program) = program {
            info.server_info = program;
        }
        info.instructions = instructions.or(info.instructions);
        info
    }

    pub(crate) async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        // Those of a server are asked for over the bus, as other requests are.
        let _slot = self.offer.server().map(|_| self.take_slot()).transpose()?;
        let tools = self.offer.tools(&self.scope).await.map_err(unavailable_error)?;

        let cursor = request.and_then(|request| request.cursor);
        let is_stateless = protocol_version::is_stateless(&context);
        let era = if is_stateless { Era::Stateless } else { Era::Older };
        let page = offer::list_page(&tools, cursor.as_deref(), era)?;
        let mut stand_in = ListToolsResult::with_all_items(Vec::new());
        stand_in.meta = Some(ResultSlot::of(&context).keep(page));
        Ok(stand_in)
    }

    pub(crate) async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tool = request.name.clone();
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let asked =
            self.request_identity(CallToolRequestMethod::VALUE, &tool, &arguments, &context);
        let responses = request.input_responses;
        let slot_of_result = ResultSlot::of(&context);

        if let Some(state) = &request.request_state {
            let answer = self.resume_call(asked, state, responses, &context).await?;
            return Ok(answer.into_tool_response(&slot_of_result));
        }

        let Some(slot) = self.calls.try_take() else {
            let busy = CallError::new(ErrorCode::Busy, "too many calls are running");
            let busy = outcome::error_result(&busy);
            return Ok(outcome::tool_stand_in(busy, &slot_of_result).into());
        };
        let target = self
            .offer
            .resolve_call(&self.scope, request.name, arguments)
            .await
            .map_err(unavailable_error)?;
        let Some(Target { tool, arguments }) = target else {
            return Err(ErrorData::invalid_params(format!("there is no tool {tool:?}"), None));
        };

        let tool = ToolName::parse(&tool)
            .map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;

        let is_stateless = protocol_version::is_stateless(&context);
        let params = ClientParams::of(&context);
        let errors = match self.offer.server() {
            Some(_) => ServerErrors::AsTheyAre,
            None => ServerErrors::InWords,
        };
        let scope = Arc::clone(&self.scope);
        let invoker = self.offer.deps().invoker.clone();

        // A client that asks for progress waits for as long as there is some.
        let is_extended_by_progress = context.meta.get_progress_token().is_some();
        let time = CallTime { is_extended_by_progress, ..CallTime::default() };

        let call_slot = slot.clone();
        let begin = move |links| -> BoxFuture<'static, CallOutcome> {
            let ClientLinks { cancelled, progress, asker } = links;
            let call = Call::new(&scope, CallId::random(), tool, Arguments::Value(arguments))
                .with_time(time)
                .with_mcp_params(params)
                .with_cancelled(cancelled)
                .with_progress(progress)
                .with_asker(asker)
                .with_slot(call_slot.clone());
            Box::pin(async move {
                // The call gives its own away when it has passed the gates.
                let _slot = call_slot;
                let result = outcome::to_result(invoker.invoke(call).await, errors)?;
                Ok(if is_stateless { result } else { outcome::without_bare_values(result) })
            })
        };

        let answer = self.begin_call(asked, responses, &context, NewCall { slot, begin }).await?;
        Ok(answer.into_tool_response(&slot_of_result))
    }

    // What is not offered is not there, rather than empty, as rmcp has it by itself.

    pub(crate) async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let _slot = self.take_slot()?;
        let requests = self.offer.prompts(&self.scope, &context.ct);
        let requests =
            requests.ok_or_else(ErrorData::method_not_found::<ListPromptsRequestMethod>)?;
        let prompts = requests.prompts(request.and_then(|request| request.cursor)).await?;
        let mut stand_in = ListPromptsResult::with_all_items(Vec::new());
        stand_in.meta = Some(ResultSlot::of(&context).keep(prompts));
        Ok(stand_in)
    }

    pub(crate) async fn get_prompt(
        &self,
        mut request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        if !self.beside_tools().prompts {
            return Err(ErrorData::method_not_found::<GetPromptRequestMethod>());
        }

        let arguments = Value::Object(request.arguments.clone().unwrap_or_default());
        let asked = self.request_identity(
            GetPromptRequestMethod::VALUE,
            &request.name,
            &arguments,
            &context,
        );
        let back = ResumeRequest {
            responses: request.input_responses.take(),
            state: request.request_state.take(),
        };

        let slot = ResultSlot::of(&context);
        let answer = self.read_or_resume(asked, back, &context).await?;
        Ok(answer.into_prompt_response(&slot))
    }

    pub(crate) async fn list_resources(
        &self,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let _slot = self.take_slot()?;
        let requests = self.offer.resources(&self.scope, &context.ct);
        let requests =
            requests.ok_or_else(ErrorData::method_not_found::<ListResourcesRequestMethod>)?;
        let meta = relay_to_slot(&requests, ListResourcesRequestMethod::VALUE, &context).await?;
        let mut stand_in = ListResourcesResult::with_all_items(Vec::new());
        stand_in.meta = Some(meta);
        Ok(stand_in)
    }

    pub(crate) async fn list_resource_templates(
        &self,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let _slot = self.take_slot()?;
        let requests = self.offer.resources(&self.scope, &context.ct);
        let requests = requests
            .ok_or_else(ErrorData::method_not_found::<ListResourceTemplatesRequestMethod>)?;
        let meta =
            relay_to_slot(&requests, ListResourceTemplatesRequestMethod::VALUE, &context).await?;
        let mut stand_in = ListResourceTemplatesResult::with_all_items(Vec::new());
        stand_in.meta = Some(meta);
        Ok(stand_in)
    }

    pub(crate) async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        if !self.beside_tools().resources {
            return Err(ErrorData::method_not_found::<ReadResourceRequestMethod>());
        }
        let (uri, nothing) = (request.uri, Value::Null);
        let asked =
            self.request_identity(ReadResourceRequestMethod::VALUE, &uri, &nothing, &context);
        let back =
            ResumeRequest { responses: request.input_responses, state: request.request_state };
        let slot = ResultSlot::of(&context);
        let answer = self.read_or_resume(asked, back, &context).await?;
        Ok(answer.into_resource_response(&slot))
    }

    /// Asks the server for something, or goes on with that where its client comes back.
    async fn read_or_resume(
        &self,
        asked: RequestIdentity,
        back: ResumeRequest,
        context: &RequestContext<RoleServer>,
    ) -> Result<RequestAnswer, ErrorData> {
        if let Some(state) = &back.state {
            return self.resume_call(asked, state, back.responses, context).await;
        }

        let slot = self.take_slot()?;
        let offer = self.offer.clone();
        let scope = Arc::clone(&self.scope);
        let (method, params) = (asked.method, ClientParams::of(context));

        let call_slot = slot.clone();
        let begin = move |links: ClientLinks| -> BoxFuture<'static, CallOutcome> {
            Box::pin(async move {
                let _slot = call_slot;
                let nothing = || ErrorData::invalid_request("there is no server here", None);
                let requests = offer.requests(&scope, &links.cancelled).ok_or_else(nothing)?;
                requests.relay(method, params, &links.asker).await
            })
        };

        self.begin_call(asked, back.responses, context, NewCall { slot, begin }).await
    }

    /// Tells the client of this session what changes from now on.
    pub(crate) fn spawn_change_notifications(&self, client: Peer<RoleServer>) {
        self.suspended
            .spawn_while_open(self.subscriptions.notify_changes(self.offer.clone(), client));
    }

    pub(crate) async fn subscribe(&self, request: SubscribeRequestParams) -> Result<(), ErrorData> {
        let _slot = self.take_slot()?;
        if !self.beside_tools().subscriptions {
            return Err(ErrorData::method_not_found::<SubscribeRequestMethod>());
        }
        self.subscriptions.subscribe(&self.offer, &self.scope, request.uri).await
    }

    pub(crate) fn unsubscribe(&self, request: &UnsubscribeRequestParams) -> Result<(), ErrorData> {
        if !self.beside_tools().subscriptions {
            return Err(ErrorData::method_not_found::<UnsubscribeRequestMethod>());
        }
        self.subscriptions.unsubscribe(&request.uri);
        Ok(())
    }

    pub(crate) async fn listen(&self, context: &SubscriptionContext) -> Result<(), ErrorData> {
        subscriptions::listen(&self.offer, &self.scope, context).await
    }

    pub(crate) async fn complete(
        &self,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let _slot = self.take_slot()?;
        let requests = self.offer.requests(&self.scope, &context.ct);
        let requests = requests.filter(|_| self.beside_tools().completions);
        let requests = requests.ok_or_else(ErrorData::method_not_found::<CompleteRequestMethod>)?;
        let meta = relay_to_slot(&requests, CompleteRequestMethod::VALUE, &context).await?;
        let mut stand_in = CompleteResult::new(CompletionInfo::default());
        stand_in.meta = Some(meta);
        Ok(stand_in)
    }
}

/// The bridge does not say what its server has.
fn unavailable_error(error: CallError) -> ErrorData {
    ErrorData::internal_error(format!("{}: {}", error.code, error.message), None)
}
