//! One request that may take several rounds: a server may want something of the caller first.
//!
//! A server of the newer era answers with `input_required` and what it wants; the request is then
//! made again with the answers and the state that the server gave. One of the older era may answer
//! with an error that names addresses to visit; the request is then made again as it was. In both
//! cases the server has said that it is not done, so making the request again does no harm.

use futures_util::future::try_join_all;
use rmcp::model::{
    CallToolRequest, CallToolRequestMethod, CallToolRequestParams, ClientCapabilities,
    ClientRequest, ConstString as _, ElicitationAction, ErrorCode, ErrorData, GetExtensions as _,
    GetPromptRequest, GetPromptRequestMethod, GetPromptRequestParams, InputRequest, InputRequests,
    InputRequiredResult, InputResponses, ReadResourceRequest, ReadResourceRequestMethod,
    ReadResourceRequestParams, RequestMetaObject, RootsCapabilities, ServerResult,
};
use rmcp::service::{PeerRequestOptions, ServiceError};
use serde_json::{Map, Value};
use tokio::time::{Duration, Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use toolbus_bus::{Asker, Progress};
use toolbus_wire::message::toolbus::{AskKind, AskRound};
use tracing::Instrument as _;

use super::face::capabilities;
use super::question::Inquiry;
use super::{Connection, Pending};
use crate::call::CallError;
use crate::connection::Ended;
use crate::record::{About, Operation};
use crate::transport::tap::Mark;

/// Most rounds of one request. Other clients have the same limit.
const ROUNDS_MAX: u32 = 10;
/// Most things that a server may want in one round.
const WANTED_MAX: usize = 8;
/// How long to wait when a server only wants to be asked again; doubled with every round.
const AGAIN_AFTER: Duration = Duration::from_millis(100);
/// JSON-RPC code of the error that names addresses to visit first.
const URL_ELICITATION_REQUIRED: ErrorCode = ErrorCode(-32042);

/// What is asked of a server. It can be put again.
pub(super) enum What<'a> {
    Tool { name: &'a str, arguments: &'a Map<String, Value>, is_listed: bool },
    Prompt { name: &'a str, arguments: &'a Map<String, Value> },
    Resource { uri: &'a str },
}

/// One request's limits, and who hears of it.
pub(super) struct Terms<'a> {
    pub(super) until: Instant,
    pub(super) cancelled: &'a CancellationToken,
    pub(super) progress: &'a Progress,
    pub(super) asker: &'a Asker,
}

/// How a request ended, and whether it had gone out.
pub(super) struct Exchange {
    pub(super) response: Result<ServerResult, ServiceError>,
    pub(super) mark: Mark,
    /// It was answered before, by a server that wanted something first.
    pub(super) is_repeated: bool,
}

/// What one more round takes along.
#[derive(Default)]
struct More {
    responses: Option<InputResponses>,
    state: Option<String>,
}

impl Connection {
    /// Makes a request, in as many rounds as it takes.
    pub(super) async fn exchange(
        &self,
        what: What<'_>,
        terms: Terms<'_>,
    ) -> Result<Exchange, Ended> {
        let mark = Mark::new(terms.progress.clone(), terms.asker.clone());
        let _over = mark.ends_with();
        let mut more = None;
        for round in 0..ROUNDS_MAX {
            let request = what.request(more.take());
            let operation = self.operation(what.method(), what.about());
            // Every arm only waits. The response goes first: it may have come before the end.
            let response = tokio::select! {
                biased;
                response = self.round_trip(request, &mark, &operation) => response,
                () = self.cut_off() => Err(ServiceError::TransportClosed),
                () = terms.cancelled.cancelled() => {
                    operation.fail("cancelled");
                    return Err(Ended::Cancelled);
                }
                () = sleep_until(terms.until) => {
                    operation.fail("timeout");
                    return Err(Ended::TimedOut);
                }
            };
            operation.end(&response);
            let next = tokio::select! {
                biased;
                next = self.provide(&response, round, terms.asker) => next?,
                () = self.cut_off() => None,
                () = terms.cancelled.cancelled() => return Err(Ended::Cancelled),
                () = sleep_until(terms.until) => return Err(Ended::TimedOut),
            };
            if next.is_none() {
                return Ok(Exchange { response, mark, is_repeated: round > 0 });
            }
            more = next;
        }
        Err(self.failed(&format!("asks for more after {ROUNDS_MAX} rounds")))
    }

    async fn round_trip(
        &self,
        mut request: ClientRequest,
        mark: &Mark,
        operation: &Operation<'_>,
    ) -> Result<ServerResult, ServiceError> {
        request.extensions_mut().insert(mark.clone());
        let options = self.options(mark, operation);
        let answering = async {
            // Boxed: kilobytes, which each of a dozen futures around it would move.
            let sending = Box::pin(self.peer.send_cancellable_request(request, options));
            let handle = sending.await?;
            operation.is_request(&handle.id);
            Pending::new(self, handle).response().await
        };
        answering.instrument(operation.span().clone()).await
    }

    /// Says with the request which trace it belongs to, and what its caller takes; only servers of
    /// the newer era hear that.
    fn options(&self, mark: &Mark, operation: &Operation<'_>) -> PeerRequestOptions {
        let mut meta = RequestMetaObject::default();
        operation.inject(&mut meta);
        if self.is_of_the_newer_era {
            meta.set_client_capabilities(capabilities_of(mark.asker()));
            if mark.wants_progress() {
                #[expect(deprecated, reason = "there is nothing in its place yet")]
                meta.set_log_level(rmcp::model::LoggingLevel::Info);
            }
        }
        PeerRequestOptions::no_options().with_meta(meta)
    }

    /// What the server wants first; `None` when this was its last word.
    async fn provide(
        &self,
        response: &Result<ServerResult, ServiceError>,
        round: u32,
        asker: &Asker,
    ) -> Result<Option<More>, Ended> {
        let (server, eraser) = (&*self.server, &self.eraser);
        let inquiry = Inquiry { server, eraser, asker, round: None };
        match response {
            Ok(ServerResult::InputRequiredResult(wanted)) => {
                let InputRequiredResult { input_requests, request_state, .. } = wanted;
                let state = request_state.clone();
                let responses = match input_requests {
                    Some(requests) if !requests.is_empty() => {
                        Some(self.answer(requests, &inquiry).await?)
                    }
                    _ => {
                        sleep(AGAIN_AFTER * 2_u32.pow(round)).await;
                        None
                    }
                };
                Ok(Some(More { responses, state }))
            }
            Err(ServiceError::McpError(error)) if error.code == URL_ELICITATION_REQUIRED => {
                let visited = asker.is_there() && visits(error, &inquiry).await;
                Ok(visited.then(More::default))
            }
            _ => Ok(None),
        }
    }

    async fn answer(
        &self,
        requests: &InputRequests,
        inquiry: &Inquiry<'_>,
    ) -> Result<InputResponses, Ended> {
        if requests.len() > WANTED_MAX {
            return Err(self.failed("asks for too much at a time"));
        }
        let size = u32::try_from(requests.len()).unwrap_or(u32::MAX);
        // At the same time: whoever answers may want to see them together.
        let answers = requests.iter().map(async |(key, request)| {
            let round = Some(AskRound { key: key.clone(), size });
            let answer = self.answer_one(request, &Inquiry { round, ..*inquiry }).await?;
            Ok((key.clone(), answer))
        });
        Ok(try_join_all(answers).await?.into_iter().collect())
    }

    async fn answer_one(
        &self,
        request: &InputRequest,
        inquiry: &Inquiry<'_>,
    ) -> Result<Value, Ended> {
        let params = match serde_json::to_value(request) {
            Ok(mut request) => request["params"].take(),
            Err(_) => return Err(self.failed("asks for something that cannot be read")),
        };
        let without = |what| {
            move |error| self.failed(&format!("asks for {what} that it does not get: {error}"))
        };
        match request {
            InputRequest::Elicitation(_) => {
                Ok(serde_json::to_value(inquiry.elicit(params).await).unwrap_or_default())
            }
            InputRequest::CreateMessage(_) => {
                inquiry.sample(params).await.map_err(without("a completion"))
            }
            InputRequest::ListRoots(_) => inquiry.roots(params).await.map_err(without("roots")),
            _ => Err(self.failed("asks for input that nobody here can give")),
        }
    }

    pub(super) fn failed(&self, what: &str) -> Ended {
        let message = format!("MCP server '{}' {what}", self.server);
        Ended::With(CallError::Failed { message })
    }
}

/// What the caller of one request answers.
fn capabilities_of(asker: &Asker) -> ClientCapabilities {
    let takes = |kind| asker.kinds().contains(&kind);
    let mut capabilities = capabilities();
    capabilities.elicitation = capabilities.elicitation.filter(|_| takes(AskKind::Elicitation));
    capabilities.sampling = capabilities.sampling.filter(|_| takes(AskKind::Sampling));
    capabilities.roots = takes(AskKind::Roots).then(RootsCapabilities::default);
    capabilities
}

/// Sends the caller to every address that the error names, and says whether it went to all.
async fn visits(error: &ErrorData, inquiry: &Inquiry<'_>) -> bool {
    let data = error.data.as_ref().and_then(|data| data.get("elicitations"));
    let Some(Value::Array(elicitations)) = data else { return false };
    if elicitations.is_empty() || elicitations.len() > WANTED_MAX {
        return false;
    }
    for elicitation in elicitations {
        let is_url = elicitation.get("mode").is_some_and(|mode| mode == "url");
        if !is_url || inquiry.elicit(elicitation.clone()).await.action != ElicitationAction::Accept
        {
            return false;
        }
    }
    true
}

impl<'a> What<'a> {
    fn method(&self) -> &'static str {
        match self {
            Self::Tool { .. } => CallToolRequestMethod::VALUE,
            Self::Prompt { .. } => GetPromptRequestMethod::VALUE,
            Self::Resource { .. } => ReadResourceRequestMethod::VALUE,
        }
    }

    fn about(&self) -> About<'a> {
        match *self {
            Self::Tool { name, is_listed, .. } => About::Tool { name, is_listed },
            Self::Prompt { name, .. } => About::Prompt(name),
            Self::Resource { uri } => About::Resource(uri),
        }
    }

    fn request(&self, more: Option<More>) -> ClientRequest {
        let More { responses, state } = more.unwrap_or_default();
        match *self {
            Self::Tool { name, arguments, .. } => {
                let mut params = CallToolRequestParams::new(name.to_owned());
                params.arguments = Some(arguments.clone());
                (params.input_responses, params.request_state) = (responses, state);
                ClientRequest::CallToolRequest(CallToolRequest::new(params))
            }
            Self::Prompt { name, arguments } => {
                let mut params = GetPromptRequestParams::new(name);
                params.arguments = Some(arguments.clone());
                (params.input_responses, params.request_state) = (responses, state);
                ClientRequest::GetPromptRequest(GetPromptRequest::new(params))
            }
            Self::Resource { uri } => {
                let mut params = ReadResourceRequestParams::new(uri);
                (params.input_responses, params.request_state) = (responses, state);
                ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params))
            }
        }
    }
}
