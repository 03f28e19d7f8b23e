//! The methods of the protocol, for one path. Each is led on to whoever knows; nothing is decided
//! here.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestMethod, CallToolRequestParams, CallToolResponse, CompleteRequestMethod,
    CompleteRequestParams, CompleteResult, ConstString as _, ErrorData, GetPromptRequestMethod,
    GetPromptRequestParams, GetPromptResponse, Implementation, InputResponses,
    ListPromptsRequestMethod, ListPromptsResult, ListResourceTemplatesRequestMethod,
    ListResourceTemplatesResult, ListResourcesRequestMethod, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, PromptsCapability, ReadResourceRequestMethod,
    ReadResourceRequestParams, ReadResourceResponse, ResourcesCapability, ServerCapabilities,
    ServerConfig, SubscribeRequestMethod, SubscribeRequestParams, UnsubscribeRequestMethod,
    UnsubscribeRequestParams,
};
use rmcp::service::{Peer, RequestContext, SubscriptionContext};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use toolbus_tools::call::{Arguments, Call, CallError, Time};
use toolbus_wire::ErrorCode;
use toolbus_wire::envelope::new_id;

use crate::converse::Answer;
use crate::era;
use crate::kept::{Identity, Kept};
use crate::log::Session;
use crate::offer::{self, Offer, Target};
use crate::outcome;
use crate::reading::Wanted;
use crate::standing::{self, Standing};
use crate::talk::{Ended, Means, Reply};

/// Who calls, for the records.
const CALLER: &str = "mcp";

/// What a client brings that comes back to answer.
struct Back {
    responses: Option<InputResponses>,
    state: Option<String>,
}

/// Answers the clients of one path. Clones are of one session.
#[derive(Clone)]
pub(crate) struct Handler {
    offer: Offer,
    calls: Arc<Semaphore>,
    kept: Kept,
    log: Session,
    standing: Standing,
}

impl Handler {
    /// Answers with what `offer` has; `calls` bounds how many calls and other requests
    /// over the bus run, over all paths, and `kept` has those whose clients are away.
    pub(crate) fn new(offer: Offer, calls: Arc<Semaphore>, kept: Kept) -> Self {
        Self { offer, calls, kept, log: Session::default(), standing: Standing::default() }
    }

    /// The same for another session.
    pub(crate) fn for_session(&self) -> Self {
        Self { log: Session::default(), standing: Standing::default(), ..self.clone() }
    }

    pub(crate) fn offer(&self) -> &Offer {
        &self.offer
    }

    pub(crate) fn kept(&self) -> &Kept {
        &self.kept
    }

    pub(crate) fn log(&self) -> &Session {
        &self.log
    }

    /// Room for a request that is answered over the bus.
    fn permit(&self) -> Result<OwnedSemaphorePermit, ErrorData> {
        let permit = Arc::clone(&self.calls).try_acquire_owned();
        permit.map_err(|_| ErrorData::internal_error("busy: too many calls are running", None))
    }

    /// Which request this is, for a client that comes back with answers.
    fn identity(
        &self,
        method: &'static str,
        name: &str,
        arguments: &Value,
        context: &RequestContext<RoleServer>,
    ) -> Identity {
        self.kept.identity(self.offer.server(), method, (name, arguments), context)
    }
}

/// What clients ask, by the protocol's names.
impl Handler {
    /// What clients are told of this server.
    pub(crate) fn info(&self) -> ServerConfig {
        let program = Implementation::new("toolbus", env!("CARGO_PKG_VERSION"));
        let tools = ServerCapabilities::builder().enable_tools().enable_tool_list_changed();
        let mut capabilities = tools.build();
        capabilities.logging = Some(serde_json::Map::new());
        let offered = self.offer.beside_tools();
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
        ServerConfig::new(capabilities).with_server_info(program.with_title(self.offer.title()))
    }

    pub(crate) async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        // Those of a server are asked for over the bus, as other requests are.
        let _permit = self.offer.server().map(|_| self.permit()).transpose()?;
        let tools = self.offer.tools().await.map_err(unavailable)?;

        let cursor = request.and_then(|request| request.cursor);
        let mut page = offer::page(&tools, cursor.as_deref())?;
        if !era::is_newer(&context) {
            offer::for_the_older_era(&mut page.tools);
        }
        Ok(page)
    }

    pub(crate) async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tool = request.name.clone();
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let asked = self.identity(CallToolRequestMethod::VALUE, &tool, &arguments, &context);
        let responses = request.input_responses;
        if let Some(state) = &request.request_state {
            return self.go_on(asked, state, responses, &context).await?.of_tool();
        }
        let Ok(permit) = Arc::clone(&self.calls).try_acquire_owned() else {
            let busy = CallError::new(ErrorCode::Busy, "too many calls are running");
            return Ok(outcome::failed(&busy).into());
        };
        let target = self.offer.target(request.name, arguments).await.map_err(unavailable)?;
        let Some(Target { tool, arguments }) = target else {
            return Err(ErrorData::invalid_params(format!("there is no tool {tool:?}"), None));
        };
        let is_newer = era::is_newer(&context);
        let invoker = self.offer.deps().invoker.clone();
        let begin = move |means| -> BoxFuture<'static, Ended> {
            let Means { cancelled, progress, asker } = means;
            let call = Call {
                id: new_id(),
                tool,
                arguments: Arguments::Value(arguments),
                caller: CALLER.to_owned(),
                session: None,
                time: Time::Default,
                cancelled,
                progress,
                asker,
            };
            Box::pin(async move {
                let _permit = permit;
                let result = outcome::answer(invoker.invoke(call).await)?;
                let result = if is_newer { result } else { outcome::without_bare_values(result) };
                Ok(Reply::Tool(result))
            })
        };
        self.begin(asked, responses, &context, begin).await?.of_tool()
    }

    // What is not offered is not there, rather than empty, as rmcp has it by itself.

    pub(crate) async fn list_prompts(
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

    pub(crate) async fn get_prompt(
        &self,
        mut request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        if !self.offer.beside_tools().prompts {
            return Err(ErrorData::method_not_found::<GetPromptRequestMethod>());
        }
        let arguments = Value::Object(request.arguments.clone().unwrap_or_default());
        let asked =
            self.identity(GetPromptRequestMethod::VALUE, &request.name, &arguments, &context);
        let back =
            Back { responses: request.input_responses.take(), state: request.request_state.take() };
        self.read(asked, back, Wanted::Prompt(request), &context).await?.of_prompt()
    }

    pub(crate) async fn list_resources(
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

    pub(crate) async fn list_resource_templates(
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

    pub(crate) async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        if !self.offer.beside_tools().resources {
            return Err(ErrorData::method_not_found::<ReadResourceRequestMethod>());
        }
        let (uri, nothing) = (request.uri, Value::Null);
        let asked = self.identity(ReadResourceRequestMethod::VALUE, &uri, &nothing, &context);
        let back = Back { responses: request.input_responses, state: request.request_state };
        self.read(asked, back, Wanted::Resource(uri), &context).await?.of_resource()
    }

    /// Asks the server for something, or goes on with that where its client comes back.
    async fn read(
        &self,
        asked: Identity,
        back: Back,
        wanted: Wanted,
        context: &RequestContext<RoleServer>,
    ) -> Result<Answer, ErrorData> {
        if let Some(state) = &back.state {
            return self.go_on(asked, state, back.responses, context).await;
        }
        let (permit, offer) = (self.permit()?, self.offer.clone());
        let begin = move |means: Means| -> BoxFuture<'static, Ended> {
            Box::pin(async move {
                let _permit = permit;
                let nothing = || ErrorData::invalid_request("there is no server here", None);
                let reading = offer.reading(&means.cancelled).ok_or_else(nothing)?;
                reading.read(wanted, &means.asker).await
            })
        };
        self.begin(asked, back.responses, context, begin).await
    }

    /// Tells the client of this session what changes from now on.
    pub(crate) fn begin_to_tell(&self, client: Peer<RoleServer>) {
        self.kept.while_open(self.standing.tell(self.offer.clone(), client));
    }

    pub(crate) async fn subscribe(&self, request: SubscribeRequestParams) -> Result<(), ErrorData> {
        let _permit = self.permit()?;
        if !self.offer.beside_tools().subscriptions {
            return Err(ErrorData::method_not_found::<SubscribeRequestMethod>());
        }
        self.standing.subscribe(&self.offer, request.uri).await
    }

    pub(crate) fn unsubscribe(&self, request: &UnsubscribeRequestParams) -> Result<(), ErrorData> {
        if !self.offer.beside_tools().subscriptions {
            return Err(ErrorData::method_not_found::<UnsubscribeRequestMethod>());
        }
        self.standing.unsubscribe(&request.uri);
        Ok(())
    }

    pub(crate) async fn listen(&self, context: &SubscriptionContext) -> Result<(), ErrorData> {
        standing::listen(&self.offer, context).await
    }

    pub(crate) async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let _permit = self.permit()?;
        let reading = self.offer.reading(&context.ct);
        let reading = reading.filter(|_| self.offer.beside_tools().completions);
        let reading = reading.ok_or_else(ErrorData::method_not_found::<CompleteRequestMethod>)?;
        reading.complete(request).await
    }
}

/// The bridge does not say what its server has.
fn unavailable(error: CallError) -> ErrorData {
    ErrorData::internal_error(format!("{}: {}", error.code, error.message), None)
}
