//! One exchange with a server: a request that may take several rounds, because the server may want
//! input from the caller first.
//!
//! A server of the newer era answers with `input_required` and what it wants; the request is then
//! made again with the answers and the state that the server gave. One of the older era may answer
//! with an error that names addresses to visit; the request is then made again as it was. In both
//! cases the server has said that it is not done, so making the request again does no harm.

use futures_util::future::try_join_all;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientCapabilities, ClientRequest, CompleteRequest,
    ElicitationAction, ErrorCode, ErrorData, GetExtensions as _, GetPromptRequest,
    GetPromptRequestParams, InputRequest, InputRequests, InputRequiredResult, InputResponses,
    ListResourceTemplatesRequest, ListResourcesRequest, ReadResourceRequest,
    ReadResourceRequestParams, RequestMetaObject, RootsCapabilities, ServerResult,
};
use rmcp::service::{PeerRequestOptions, ServiceError};
use serde_json::Value;
use tokio::time::{Duration, sleep};
use tokio_util::sync::CancellationToken;
use toolbus_bus::{Asker, Deadline, Progress};
use toolbus_wire::json::RawJson;
use toolbus_wire::message::toolbus::{AskKind, AskRound};
use tracing::Instrument as _;

use super::CallFailure;
use super::caller_questions::CallerQuestions;
use super::client_handler::capabilities;
use super::request_sender::{RequestSender, SentRequest};
use crate::call::CallError;
use crate::method::{Method, read_params};
use crate::record::{About, Operation};
use crate::transport::intercept::CallTag;

/// Most rounds of one request. Other clients have the same limit.
const ROUNDS_MAX: u32 = 10;
/// Most inputs that a server may request in one round.
const INPUTS_PER_ROUND_MAX: usize = 8;
/// How long to wait when a server only wants the request to be repeated; doubled with every round.
const REPEAT_BACKOFF: Duration = Duration::from_millis(100);
/// JSON-RPC code of the error that names addresses to visit first.
const URL_ELICITATION_REQUIRED: ErrorCode = ErrorCode(-32042);

/// A request to a server, which can be built again for every round.
pub(super) struct McpRequest<'a> {
    pub(super) method: Method,
    /// What it is about, for its record.
    pub(super) about: About<'a>,
    /// Its params, as the caller wrote them.
    pub(super) params: &'a RawJson,
}

/// The limits of one exchange, and the handles of its caller.
pub(super) struct ExchangeScope<'a> {
    pub(super) deadline: Deadline,
    pub(super) cancelled: &'a CancellationToken,
    pub(super) progress: &'a Progress,
    pub(super) asker: &'a Asker,
}

/// The last answer of an exchange, and whether the request was handed over.
pub(super) struct ExchangeOutcome {
    /// The result as the server wrote it.
    pub(super) result: Result<RawJson, ServiceError>,
    pub(super) tag: CallTag,
    /// True when the server has answered before, and wanted input first.
    pub(super) is_repeated: bool,
}

/// One exchange, from its first request to the answer that ends it.
pub(super) struct Exchange<'a> {
    sender: &'a RequestSender,
    request: McpRequest<'a>,
    scope: ExchangeScope<'a>,
    tag: CallTag,
}

/// What the request of one more round carries.
#[derive(Default)]
struct RoundInput {
    responses: Option<InputResponses>,
    state: Option<String>,
}

impl<'a> Exchange<'a> {
    pub(super) fn new(
        sender: &'a RequestSender,
        request: McpRequest<'a>,
        scope: ExchangeScope<'a>,
    ) -> Self {
        let params = request.params.clone();
        let tag = CallTag::new(scope.progress.clone(), scope.asker.clone(), params);
        Self { sender, request, scope, tag }
    }

    /// Makes the request, in as many rounds as it takes.
    pub(super) async fn run(self) -> Result<ExchangeOutcome, CallFailure> {
        let _until_outcome = self.tag.outcome_guard();
        let Self { sender, request, scope, tag } = &self;
        let lifecycle = &sender.lifecycle;
        let mut input = None;

        for round in 0..ROUNDS_MAX {
            let request_of_round = request.build(input.take()).map_err(|error| {
                let what = request.method.name();
                let message = format!("the params of {what} are not valid: {error}");
                CallFailure::Final(CallError::InvalidArguments { message, server_error: None })
            })?;
            let operation = sender.begin_operation(request.method.name(), request.about);
            // Every arm only waits. The response goes first: it may have come before the end.
            let response = tokio::select! {
                biased;
                response = self.round_trip(request_of_round, &operation) => response,
                () = lifecycle.wait_cut_off() => Err(ServiceError::TransportClosed),
                () = scope.cancelled.cancelled() => {
                    operation.fail("cancelled");
                    return Err(CallFailure::Cancelled);
                }
                () = scope.deadline.wait_over(scope.progress) => {
                    operation.fail("timeout");
                    return Err(CallFailure::TimedOut);
                }
            };
            operation.end(&response);

            let next_input = tokio::select! {
                biased;
                next_input = self.collect_input(&response, round) => next_input?,
                () = lifecycle.wait_cut_off() => None,
                () = scope.cancelled.cancelled() => return Err(CallFailure::Cancelled),
                () = scope.deadline.wait_over(scope.progress) => return Err(CallFailure::TimedOut),
            };
            if next_input.is_none() {
                let is_repeated = round > 0;
                // What is not set aside is an answer of a kind that nobody asked for.
                let result = response
                    .and_then(|_| self.tag.take_result().ok_or(ServiceError::UnexpectedResponse));
                return Ok(ExchangeOutcome { result, tag: tag.clone(), is_repeated });
            }
            input = next_input;
        }

        Err(sender.answer_failure(&format!("asks for more after {ROUNDS_MAX} rounds")))
    }

    async fn round_trip(
        &self,
        mut request: ClientRequest,
        operation: &Operation<'_>,
    ) -> Result<ServerResult, ServiceError> {
        request.extensions_mut().insert(self.tag.clone());
        let options = self.request_options(operation);

        let answering = async {
            // Boxed: kilobytes, which each of a dozen futures around it would move.
            let sending = Box::pin(self.sender.peer.send_cancellable_request(request, options));
            let handle = sending.await?;
            operation.set_request_id(&handle.id);
            SentRequest::new(self.sender, handle).wait_response().await
        };
        answering.instrument(operation.span().clone()).await
    }

    /// Says with the request which trace it belongs to, and what its caller takes; only servers of
    /// the newer era are told that.
    fn request_options(&self, operation: &Operation<'_>) -> PeerRequestOptions {
        let mut meta = RequestMetaObject::default();
        operation.inject(&mut meta);

        if self.sender.is_stateless_protocol {
            meta.set_client_capabilities(capabilities_of(self.tag.asker()));
            if self.tag.wants_progress() {
                #[expect(deprecated, reason = "there is nothing in its place yet")]
                meta.set_log_level(rmcp::model::LoggingLevel::Info);
            }
        }
        PeerRequestOptions::no_options().with_meta(meta)
    }

    /// Collects the input that the server wants first; `None` when this answer is its last.
    async fn collect_input(
        &self,
        response: &Result<ServerResult, ServiceError>,
        round: u32,
    ) -> Result<Option<RoundInput>, CallFailure> {
        let asker = self.scope.asker;
        let questions = CallerQuestions {
            server: &self.sender.server,
            eraser: &self.sender.eraser,
            asker,
            round: None,
        };

        match response {
            Ok(ServerResult::InputRequiredResult(required)) => {
                let InputRequiredResult { input_requests, request_state, .. } = required;
                let state = request_state.clone();
                let responses = match input_requests {
                    Some(requests) if !requests.is_empty() => {
                        Some(self.answer_all(requests, &questions).await?)
                    }
                    _ => {
                        sleep(REPEAT_BACKOFF * 2_u32.pow(round)).await;
                        None
                    }
                };
                Ok(Some(RoundInput { responses, state }))
            }
            Err(ServiceError::McpError(error)) if error.code == URL_ELICITATION_REQUIRED => {
                let has_visited = asker.is_there() && visit_urls(error, &questions).await;
                Ok(has_visited.then(RoundInput::default))
            }
            _ => Ok(None),
        }
    }

    async fn answer_all(
        &self,
        requests: &InputRequests,
        questions: &CallerQuestions<'_>,
    ) -> Result<InputResponses, CallFailure> {
        if requests.len() > INPUTS_PER_ROUND_MAX {
            return Err(self.sender.answer_failure("asks for too much at a time"));
        }

        let size = u32::try_from(requests.len()).unwrap_or(u32::MAX);
        // At the same time: the caller may want to see them together.
        let answers = requests.iter().map(async |(key, request)| {
            let round = Some(AskRound { key: key.clone(), size });
            let answer = self.answer_one(request, &CallerQuestions { round, ..*questions }).await?;
            Ok((key.clone(), answer))
        });
        Ok(try_join_all(answers).await?.into_iter().collect())
    }

    async fn answer_one(
        &self,
        request: &InputRequest,
        questions: &CallerQuestions<'_>,
    ) -> Result<Value, CallFailure> {
        let sender = self.sender;
        let params = match serde_json::to_value(request) {
            Ok(mut request) => request["params"].take(),
            Err(_) => {
                return Err(sender.answer_failure("asks for something that cannot be read"));
            }
        };
        let refused = |what| {
            move |error| {
                sender.answer_failure(&format!("asks for {what} that it does not get: {error}"))
            }
        };

        match request {
            InputRequest::Elicitation(_) => {
                Ok(serde_json::to_value(questions.elicit(params).await).unwrap_or_default())
            }
            InputRequest::CreateMessage(_) => {
                questions.sample(params).await.map_err(refused("a completion"))
            }
            InputRequest::ListRoots(_) => {
                questions.list_roots(params).await.map_err(refused("roots"))
            }
            _ => Err(sender.answer_failure("asks for input that nobody here can give")),
        }
    }
}

/// The capabilities that the caller of one request has.
fn capabilities_of(asker: &Asker) -> ClientCapabilities {
    let takes = |kind| asker.kinds().contains(&kind);

    let mut capabilities = capabilities();
    capabilities.elicitation = capabilities.elicitation.filter(|_| takes(AskKind::Elicitation));
    capabilities.sampling = capabilities.sampling.filter(|_| takes(AskKind::Sampling));
    capabilities.roots = takes(AskKind::Roots).then(RootsCapabilities::default);
    capabilities
}

/// Sends the caller to every address that the error names, and says whether it went to all.
async fn visit_urls(error: &ErrorData, questions: &CallerQuestions<'_>) -> bool {
    let data = error.data.as_ref().and_then(|data| data.get("elicitations"));
    let Some(Value::Array(elicitations)) = data else { return false };
    if elicitations.is_empty() || elicitations.len() > INPUTS_PER_ROUND_MAX {
        return false;
    }

    for elicitation in elicitations {
        let is_url = elicitation.get("mode").is_some_and(|mode| mode == "url");
        if !is_url
            || questions.elicit(elicitation.clone()).await.action != ElicitationAction::Accept
        {
            return false;
        }
    }
    true
}

impl<'a> McpRequest<'a> {
    /// Builds the request of one round, as rmcp reads it; what is sent are the params themselves.
    ///
    /// # Errors
    /// When the params are none of this method, or exceed a limit.
    fn build(&self, input: Option<RoundInput>) -> Result<ClientRequest, toolbus_json::Error> {
        let RoundInput { responses, state } = input.unwrap_or_default();

        Ok(match self.method {
            Method::CallTool => {
                let mut params: CallToolRequestParams = read_params(self.params)?;
                (params.input_responses, params.request_state) = (responses, state);
                ClientRequest::CallToolRequest(CallToolRequest::new(params))
            }
            Method::GetPrompt => {
                let mut params: GetPromptRequestParams = read_params(self.params)?;
                (params.input_responses, params.request_state) = (responses, state);
                ClientRequest::GetPromptRequest(GetPromptRequest::new(params))
            }
            Method::ReadResource => {
                let mut params: ReadResourceRequestParams = read_params(self.params)?;
                (params.input_responses, params.request_state) = (responses, state);
                ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params))
            }
            Method::ListResources => ClientRequest::ListResourcesRequest(ListResourcesRequest {
                params: Some(read_params(self.params)?),
                ..ListResourcesRequest::default()
            }),
            Method::ListResourceTemplates => {
                ClientRequest::ListResourceTemplatesRequest(ListResourceTemplatesRequest {
                    params: Some(read_params(self.params)?),
                    ..ListResourceTemplatesRequest::default()
                })
            }
            Method::Complete => {
                ClientRequest::CompleteRequest(CompleteRequest::new(read_params(self.params)?))
            }
        })
    }
}
