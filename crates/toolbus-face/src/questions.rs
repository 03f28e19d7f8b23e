//! Questions of a call to the client that made it.
//!
//! In the older era a question is a request to the client, on the stream of its call's response; it
//! is sent from the task that serves the call, for rmcp finds the stream by that. A question that
//! the client has not said it can answer is refused without a message, and one that is open when
//! its call ends, or that nobody waits for any more, is taken back.
//!
//! In the newer era a question is the result of the call: see [`crate::pending_call`].

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use rmcp::RoleServer;
use rmcp::model::{CancelledNotificationParam, ClientCapabilities, CustomRequest, ServerRequest};
use rmcp::service::{Peer, PeerRequestOptions, RequestContext, ServiceError};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use toolbus_bus::asker::QUESTIONS_OPEN_MAX;
use toolbus_bus::{Asker, Question};
use toolbus_wire::message::toolbus::{AskError, AskErrorCode, AskKind};

use crate::protocol_version;

/// How long a call that has ended takes to say that its questions are taken back.
const WITHDRAW_TIMEOUT: Duration = Duration::from_secs(1);

/// The questions of one call.
pub(crate) struct Questions {
    client: Client,
    is_asked: bool,
    sender: mpsc::Sender<ForwardedQuestion>,
    waiting: mpsc::Receiver<ForwardedQuestion>,
}

/// The client that the questions go to.
#[derive(Clone)]
struct Client {
    peer: Peer<RoleServer>,
    capabilities: Arc<ClientCapabilities>,
}

/// A question that waits for its answer.
struct ForwardedQuestion {
    question: Question,
    answer: oneshot::Sender<Result<Value, AskError>>,
}

impl Questions {
    pub(crate) fn of(context: &RequestContext<RoleServer>) -> Self {
        let (sender, waiting) = mpsc::channel(QUESTIONS_OPEN_MAX);
        let capabilities = Arc::new(context.client_capabilities().unwrap_or_default());
        let is_asked =
            !question_kinds(&capabilities).is_empty() && !protocol_version::is_stateless(context);
        let client = Client { peer: context.peer.clone(), capabilities };
        Self { client, is_asked, sender, waiting }
    }

    /// Whom the call may ask: nobody, when the client answers nothing.
    pub(crate) fn asker(&self) -> Asker {
        if !self.is_asked {
            return Asker::none();
        }

        let (sender, kinds) = (self.sender.clone(), question_kinds(&self.client.capabilities));
        let asker = Asker::to(move |question| {
            let sender = sender.clone();
            async move {
                let (answer, answered) = oneshot::channel();
                if sender.try_send(ForwardedQuestion { question, answer }).is_err() {
                    return Err(AskError::new(AskErrorCode::Busy, "too many questions are open"));
                }
                let ended = |_| AskError::new(AskErrorCode::Cancelled, "the call has ended");
                answered.await.map_err(ended)?
            }
        });

        asker.with_kinds(kinds)
    }

    /// Waits for the call, and leads its questions on meanwhile.
    pub(crate) async fn answer_during<T>(self, call: impl Future<Output = T>) -> T {
        let Self { client, sender: _sender, mut waiting, .. } = self;
        let mut call = std::pin::pin!(call);
        let over = CancellationToken::new();
        let mut open = FuturesUnordered::new();

        // Every arm only waits. The answers are work of their own, which this task drives.
        let outcome = loop {
            let next = tokio::select! {
                biased;
                outcome = &mut call => break outcome,
                Some(()) = open.next() => continue,
                Some(next) = waiting.recv(), if open.len() < QUESTIONS_OPEN_MAX => next,
            };
            open.push(client.answer(next, over.clone()));
        };

        over.cancel();
        let taken_back = async { while open.next().await.is_some() {} };
        // A client that reads nothing any more is not waited for.
        let _ = tokio::time::timeout(WITHDRAW_TIMEOUT, taken_back).await;
        outcome
    }
}

impl Client {
    async fn answer(&self, open: ForwardedQuestion, over: CancellationToken) {
        let ForwardedQuestion { question, mut answer } = open;
        let request = match client_request(question, &self.capabilities) {
            Ok(request) => ServerRequest::CustomRequest(request),
            Err(error) => return drop(answer.send(Err(error))),
        };

        let options = PeerRequestOptions::no_options();
        let handle = match self.peer.send_cancellable_request(request, options).await {
            Ok(handle) => handle,
            Err(error) => return drop(answer.send(Err(ask_error(&error)))),
        };

        let id = handle.id.clone();
        let answered = tokio::select! {
            biased;
            answered = handle.await_response() => Some(answered),
            () = answer.closed() => None,
            () = over.cancelled() => None,
        };

        let Some(answered) = answered else {
            let why = Some("nobody waits for the answer any more".to_owned());
            let _ =
                self.peer.notify_cancelled(CancelledNotificationParam::new(Some(id), why)).await;
            return;
        };

        let answered = answered.map_err(|error| ask_error(&error)).and_then(|result| {
            serde_json::to_value(result)
                .map_err(|_| AskError::new(AskErrorCode::Failed, "the answer cannot be read"))
        });

        // Whoever asked may have gone this moment.
        drop(answer.send(answered));
    }
}

/// The kinds of questions that a client answers.
pub(crate) fn question_kinds(client: &ClientCapabilities) -> Vec<AskKind> {
    let kinds = [
        (AskKind::Elicitation, client.elicitation.is_some()),
        (AskKind::Sampling, client.sampling.is_some()),
        (AskKind::Roots, client.roots.is_some()),
    ];
    kinds.into_iter().filter(|(_, answers)| *answers).map(|(kind, _)| kind).collect()
}

/// The request to the client, as the tool's server made it. Refused where the client cannot answer.
pub(crate) fn client_request(
    question: Question,
    client: &ClientCapabilities,
) -> Result<CustomRequest, AskError> {
    let Question { kind, mut params, .. } = question;
    if kind == AskKind::Roots && params.is_null() {
        params = Value::Object(serde_json::Map::new());
    }

    let has = |member: &str| params.get(member).is_some();
    let (method, can_answer) = match kind {
        AskKind::Elicitation => {
            let is_url = params.get("mode").is_some_and(|mode| mode == "url");
            let can_answer = client.elicitation.as_ref().is_some_and(|elicitation| {
                // A client that names no mode knows forms, which came first.
                let by_form = elicitation.form.is_some() || elicitation.url.is_none();
                if is_url { elicitation.url.is_some() } else { by_form }
            });
            ("elicitation/create", can_answer)
        }
        AskKind::Sampling => {
            let with_tools = has("tools") || has("toolChoice");
            let can_answer = client
                .sampling
                .as_ref()
                .is_some_and(|sampling| !with_tools || sampling.tools.is_some());
            ("sampling/createMessage", can_answer)
        }
        AskKind::Roots => ("roots/list", client.roots.is_some()),
        _ => ("", false),
    };

    if !can_answer || !params.is_object() {
        let text = "the client does not answer such questions";
        return Err(AskError::new(AskErrorCode::Unsupported, text));
    }

    Ok(CustomRequest::new(method, Some(params)))
}

fn ask_error(error: &ServiceError) -> AskError {
    match error {
        ServiceError::McpError(error) => {
            AskError::new(AskErrorCode::Failed, format!("the client refuses: {}", error.message))
        }
        _ => AskError::new(AskErrorCode::Unroutable, "the client cannot be reached"),
    }
}

#[cfg(test)]
mod tests;
