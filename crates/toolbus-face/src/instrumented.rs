//! The instrumented handler of one path: every request goes through here to its handler, and is
//! recorded by the names that [`toolbus_telemetry::mcp`] defines. Nothing is answered here but what
//! rmcp answers by itself.
//!
//! What rmcp refuses before it asks anybody (a revision of the protocol that nobody speaks, a
//! request without what has to be in it) is in no record.

use std::sync::OnceLock;

use axum::http::request::Parts;
use rmcp::model::*;
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler};
use tokio_util::sync::CancellationToken;
use toolbus_telemetry::mcp::{self as telemetry, About, Failure, Operation, Recorder};
use tracing::Instrument as _;

use crate::handler::Handler;
use crate::subscriptions;

/// The name of methods that the protocol does not have: clients may make up any.
const OTHER_METHOD: &str = "_OTHER";

/// Answers the client of one session, or one request where there are no sessions.
pub(crate) struct InstrumentedHandler {
    handler: Handler,
    recorder: Recorder,
    /// The session, from its first request on.
    session: OnceLock<telemetry::Session>,
}

/// A request that is being answered.
struct RecordedRequest<'a> {
    operation: Operation<'a>,
    cancelled: CancellationToken,
}

impl InstrumentedHandler {
    pub(crate) fn new(handler: Handler, recorder: Recorder) -> Self {
        Self { handler, recorder, session: OnceLock::new() }
    }

    fn begin_record(
        &self,
        method: &'static str,
        about: About<'_>,
        context: &RequestContext<RoleServer>,
    ) -> RecordedRequest<'_> {
        let mut operation = self.recorder.begin(method, about, &context.meta);
        // What a client asks for at the beginning of its session is not what it gets.
        let protocol =
            context.protocol_version().filter(|_| method != InitializeResultMethod::VALUE);
        if let Some(protocol) = protocol {
            operation.speaks(protocol.as_str());
        }
        operation.tell(telemetry::REQUEST, || Some(context.id.to_string()));
        operation.tell(telemetry::SESSION, || {
            let headers = &context.extensions.get::<Parts>()?.headers;
            headers.get("mcp-session-id")?.to_str().ok()
        });
        RecordedRequest { operation, cancelled: context.ct.clone() }
    }

    /// Begins the record of a request that is about nothing that has a name.
    fn begin_unnamed(
        &self,
        method: &'static str,
        context: &RequestContext<RoleServer>,
    ) -> RecordedRequest<'_> {
        self.begin_record(method, About::Nothing, context)
    }
}

impl RecordedRequest<'_> {
    /// Answers it.
    async fn record<T>(
        self,
        work: impl Future<Output = Result<T, ErrorData>>,
    ) -> Result<T, ErrorData> {
        let answer = work.instrument(self.operation.span().clone()).await;
        self.end(&answer, |_| None);
        answer
    }

    /// Records the end of the request with this answer; `failure` finds those that are errors by
    /// their own account.
    fn end<T>(self, answer: &Result<T, ErrorData>, failure: impl FnOnce(&T) -> Option<Failure>) {
        self.operation.end(match answer {
            _ if self.cancelled.is_cancelled() => Some(Failure::Because("cancelled")),
            Ok(answer) => failure(answer),
            Err(error) => Some(Failure::Code(error.code.0)),
        });
    }
}

fn failure_of_result(response: &CallToolResponse) -> Option<Failure> {
    match response {
        CallToolResponse::Complete(result) if result.is_error == Some(true) => {
            Some(Failure::Because(telemetry::TOOL_ERROR))
        }
        _ => None,
    }
}

impl ServerHandler for InstrumentedHandler {
    fn get_info(&self) -> ServerConfig {
        self.handler.server_info()
    }

    /// Without waiting, for the check of headers that repeat arguments.
    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.handler.known_tool(name)
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let mut recorded = self.begin_unnamed(InitializeResultMethod::VALUE, &context);
        let answer = match self.negotiate_initialize(&request) {
            Ok(info) => Ok(self.handler.introduce(info).await),
            Err(error) => Err(error),
        };
        if let Ok(result) = &answer {
            let protocol = result.protocol_version.as_str();
            recorded.operation.speaks(protocol);
            self.session.get_or_init(|| self.recorder.session(protocol));
        }
        context.peer.set_peer_info(request);
        recorded.end(&answer, |_| None);
        answer
    }

    async fn discover(
        &self,
        context: RequestContext<RoleServer>,
    ) -> Result<DiscoverResult, ErrorData> {
        let revisions = self.supported_protocol_versions().into_owned();
        let recorded = self.begin_unnamed(DiscoverRequestMethod::VALUE, &context);
        let info = self.handler.introduce(self.get_info());
        let discovering = async { Ok(DiscoverResult::from_server_info(revisions, info.await)) };
        recorded.record(discovering).await
    }

    async fn ping(&self, context: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        self.begin_unnamed(PingRequestMethod::VALUE, &context).end(&Ok(()), |()| None);
        Ok(())
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let recorded = self.begin_unnamed(ListToolsRequestMethod::VALUE, &context);
        recorded.record(self.handler.list_tools(request, context)).await
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let is_listed = self.handler.knows_tool(&request.name);
        let about = About::Tool { name: &request.name, is_listed };
        let mut recorded = self.begin_record(CallToolRequestMethod::VALUE, about, &context);
        // Not copied but where it may be found meanwhile.
        let unknown = (!is_listed).then(|| request.name.clone());
        let span = recorded.operation.span().clone();

        let answer = self.handler.call_tool(request, context).instrument(span).await;

        if let Some(name) = unknown.filter(|name| self.handler.knows_tool(name)) {
            recorded.operation.is_listed(&name);
        }
        recorded.end(&answer, failure_of_result);
        answer
    }

    #[expect(deprecated, reason = "the protocol has nothing in place of its log yet")]
    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.handler.log().set(request.level);
        self.begin_unnamed(SetLevelRequestMethod::VALUE, &context).end(&Ok(()), |()| None);
        Ok(())
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let recorded = self.begin_unnamed(ListPromptsRequestMethod::VALUE, &context);
        recorded.record(self.handler.list_prompts(request, context)).await
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let about = About::Prompt(&request.name);
        let recorded = self.begin_record(GetPromptRequestMethod::VALUE, about, &context);
        // Boxed: seldom, and larger than the rest.
        recorded.record(Box::pin(self.handler.get_prompt(request, context))).await
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let recorded = self.begin_unnamed(ListResourcesRequestMethod::VALUE, &context);
        recorded.record(self.handler.list_resources(context)).await
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let recorded = self.begin_unnamed(ListResourceTemplatesRequestMethod::VALUE, &context);
        recorded.record(self.handler.list_resource_templates(context)).await
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let about = About::Resource(&request.uri);
        let recorded = self.begin_record(ReadResourceRequestMethod::VALUE, about, &context);
        recorded.record(self.handler.read_resource(request, context)).await
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let about = About::Resource(&request.uri);
        let recorded = self.begin_record(SubscribeRequestMethod::VALUE, about, &context);
        recorded.record(self.handler.subscribe(request)).await
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let about = About::Resource(&request.uri);
        let recorded = self.begin_record(UnsubscribeRequestMethod::VALUE, about, &context);
        let answer = self.handler.unsubscribe(&request);
        recorded.end(&answer, |()| None);
        answer
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(subscriptions::accepted_filter(requested))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let request = context.request_context();
        let RecordedRequest { operation, .. } =
            self.begin_unnamed(SubscriptionsListenRequestMethod::VALUE, request);
        let span = operation.span().clone();
        let answer = self.handler.listen(&context).instrument(span).await;
        // Clients end it by giving it up.
        operation.end(answer.as_ref().err().map(|error| Failure::Code(error.code.0)));
        answer
    }

    async fn complete(
        &self,
        _: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let recorded = self.begin_unnamed(CompleteRequestMethod::VALUE, &context);
        recorded.record(self.handler.complete(context)).await
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let unknown = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None);
        let answer = Err(unknown);
        self.begin_unnamed(OTHER_METHOD, &context).end(&answer, |_: &CustomResult| None);
        answer
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.handler.spawn_change_notifications(context.peer);
    }
}
