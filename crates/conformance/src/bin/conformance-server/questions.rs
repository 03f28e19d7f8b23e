//! Questions of a tool or a prompt to its caller, in the way of the caller's era: a client of
//! 2026-07-28 gets them as the result and calls again with the answers, an older one is sent each
//! as a request of its own while the call waits.
//!
//! Only what the client says it can answer is asked. What carries the state between two calls is a
//! seal that nobody else can make.

use rmcp::RoleServer;
use rmcp::model::{
    ClientCapabilities, ElicitationCapability, ErrorData, InputRequest, InputRequests,
    InputRequiredResult, InputResponses, ProtocolVersion, SamplingCapability, ServerRequest,
};
use rmcp::service::RequestContext;
use serde_json::{Map, Value};

use crate::offer::QuestionRounds;

/// How asking the client ended.
pub(crate) enum AskOutcome {
    /// Everything is answered.
    Answered(InputResponses),
    /// The client has to call again.
    Wait(InputRequiredResult),
}

/// The part of a call that concerns questions.
pub(crate) struct CallState {
    pub(crate) responses: Option<InputResponses>,
    pub(crate) state: Option<String>,
    pub(crate) arguments: Map<String, Value>,
}

/// Asks the caller the questions of `asks`.
///
/// # Errors
/// When the client can answer none of them, or its seal is broken.
pub(crate) async fn ask(
    asks: &QuestionRounds,
    carried: CallState,
    secret: &str,
    context: &RequestContext<RoleServer>,
) -> Result<AskOutcome, ErrorData> {
    let capabilities = context.client_capabilities().unwrap_or_default();
    let modern = context
        .protocol_version()
        .is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str());

    if !modern {
        let mut responses = InputResponses::new();
        for round in 0..asks.rounds.len() {
            let questions =
                answerable_questions(asks.questions(round, &carried.arguments), &capabilities)?;
            for (key, question) in questions {
                responses.insert(key, send_question(question, context).await?);
            }
        }
        return Ok(AskOutcome::Answered(responses));
    }

    let round = match carried.state.as_deref() {
        None => 0,
        Some(state) => unseal(state, secret, asks)?,
    };

    let questions = answerable_questions(asks.questions(round, &carried.arguments), &capabilities)?;
    let responses = carried.responses.unwrap_or_default();
    let is_answered = |key: &String| responses.get(key).is_some_and(Value::is_object);
    let has_seal = !asks.sealed || carried.state.is_some();
    let next = if has_seal && questions.keys().all(is_answered) { round + 1 } else { round };

    if next == asks.rounds.len() {
        let known = responses.into_iter().filter(|(key, _)| questions.contains_key(key));
        return Ok(AskOutcome::Answered(known.collect()));
    }

    let questions = answerable_questions(asks.questions(next, &carried.arguments), &capabilities)?;
    let state = asks.sealed.then(|| seal(next, secret));
    Ok(AskOutcome::Wait(InputRequiredResult::new(Some(questions), state)))
}

/// The questions that the client can answer.
fn answerable_questions(
    questions: InputRequests,
    capabilities: &ClientCapabilities,
) -> Result<InputRequests, ErrorData> {
    let mut missing = ClientCapabilities::default();
    let mut kept = InputRequests::new();
    for (key, question) in questions {
        let is_allowed = match &question {
            InputRequest::CreateMessage(_) => {
                missing.sampling = Some(SamplingCapability::default());
                capabilities.sampling.is_some()
            }
            InputRequest::Elicitation(_) => {
                missing.elicitation = Some(ElicitationCapability::default());
                capabilities.elicitation.is_some()
            }
            _ => true,
        };

        if is_allowed {
            kept.insert(key, question);
        }
    }

    if kept.is_empty() {
        return Err(ErrorData::missing_required_client_capability(missing));
    }
    Ok(kept)
}

/// Sends a question as a request of its own, and waits for the answer.
async fn send_question(
    question: InputRequest,
    context: &RequestContext<RoleServer>,
) -> Result<Value, ErrorData> {
    let failed = |error: &dyn std::fmt::Display| ErrorData::internal_error(error.to_string(), None);
    let request = match question {
        InputRequest::CreateMessage(request) => ServerRequest::CreateMessageRequest(request),
        InputRequest::Elicitation(request) => ServerRequest::ElicitRequest(request),
        InputRequest::ListRoots(request) => ServerRequest::ListRootsRequest(request),
        _ => return Err(failed(&"a question of a kind that is not known")),
    };
    let answer = context.peer.send_request(request).await.map_err(|error| failed(&error))?;
    serde_json::to_value(answer).map_err(|error| failed(&error))
}

fn seal(round: usize, secret: &str) -> String {
    format!("{round}.{secret}")
}

fn unseal(state: &str, secret: &str, asks: &QuestionRounds) -> Result<usize, ErrorData> {
    let rounds = 0..asks.rounds.len();
    let round = rounds.into_iter().find(|&round| seal(round, secret) == state);
    round.ok_or_else(|| ErrorData::invalid_params("the state was tampered with", None))
}
