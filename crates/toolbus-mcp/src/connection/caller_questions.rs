//! A server's questions to the caller of a call, and the answers that the server gets.
//!
//! The form of a caller's answer is checked, and a missing answer becomes what the protocol has for
//! that: an elicitation without a decision is cancelled, a sampling without a completion is an
//! error. Credentials of the configuration are erased from questions.

use rmcp::model::{ElicitResult, ElicitationAction, ErrorCode, ErrorData};
use serde_json::{Value, json};
use toolbus_bus::{Asker, Question};
use toolbus_wire::message::toolbus::{AskError, AskErrorCode, AskKind, AskRound};

use crate::eraser::Eraser;

/// JSON-RPC code of a request that the client refuses.
const REFUSED: ErrorCode = ErrorCode(-1);
/// Deepest nesting of a question's parameters. A form has five levels.
const QUESTION_DEPTH_MAX: usize = 64;

/// Puts the questions of one server to one caller.
pub(super) struct CallerQuestions<'a> {
    pub(super) server: &'a str,
    pub(super) eraser: &'a Eraser,
    pub(super) asker: &'a Asker,
    /// The place of its questions among those that the server puts at the same time.
    pub(super) round: Option<AskRound>,
}

impl CallerQuestions<'_> {
    /// Asks for input, by a form or at a URL.
    pub(super) async fn elicit(&self, params: Value) -> ElicitResult {
        let is_form = params.get("mode").is_none_or(|mode| mode == "form");
        let answer = match self.ask(AskKind::Elicitation, params).await {
            Ok(answer) => answer,
            Err(error) => {
                tracing::info!(server = self.server, code = %error.code, "elicitation got no answer");
                return ElicitResult::new(ElicitationAction::Cancel);
            }
        };

        match serde_json::from_value::<ElicitResult>(answer) {
            Ok(result) if is_form && lacks_content(&result) => {
                tracing::warn!(server = self.server, "answer to elicitation has no content");
                ElicitResult::new(ElicitationAction::Cancel)
            }
            // A refusal, or a visit to a URL, has nothing to go along.
            Ok(result) if is_form && result.action == ElicitationAction::Accept => result,
            Ok(result) => ElicitResult::new(result.action),
            Err(error) => {
                tracing::warn!(server = self.server, %error, "answer to elicitation is invalid");
                ElicitResult::new(ElicitationAction::Cancel)
            }
        }
    }

    /// Asks for a completion, and checks nothing about it but that it is an object.
    pub(super) async fn sample(&self, params: Value) -> Result<Value, AskError> {
        match self.ask(AskKind::Sampling, params).await? {
            answer @ Value::Object(_) => Ok(answer),
            _ => Err(AskError::new(AskErrorCode::Failed, "the answer is no completion")),
        }
    }

    /// Asks for the folders that the caller works in.
    pub(super) async fn list_roots(&self, params: Value) -> Result<Value, AskError> {
        match self.ask(AskKind::Roots, params).await? {
            answer if answer["roots"].is_array() => Ok(answer),
            _ => Err(AskError::new(AskErrorCode::Failed, "the answer is no list of roots")),
        }
    }

    async fn ask(&self, kind: AskKind, mut params: Value) -> Result<Value, AskError> {
        if let Value::Object(members) = &mut params {
            // The metadata is between the server and this client.
            members.remove("_meta");
        }
        if !try_erase(&mut params, self.eraser, 0) {
            return Err(AskError::new(AskErrorCode::TooLarge, "the question is too deep"));
        }

        let from = Some(format!("MCP server '{}'", self.server));
        let round = self.round.clone();
        self.asker.ask(Question { kind, from, params, round }).await
    }
}

/// The error that a server gets for its request.
pub(super) fn refusal_error(error: &AskError) -> ErrorData {
    ErrorData::new(REFUSED, error.message.clone(), Some(json!({"code": error.code})))
}

fn lacks_content(result: &ElicitResult) -> bool {
    result.action == ElicitationAction::Accept
        && !result.content.as_ref().is_some_and(Value::is_object)
}

/// Erases secrets from every text. False when some are too deep to be reached.
fn try_erase(value: &mut Value, eraser: &Eraser, depth: usize) -> bool {
    match value {
        _ if depth > QUESTION_DEPTH_MAX => false,
        Value::String(text) => {
            if let std::borrow::Cow::Owned(erased) = eraser.erase(text) {
                *text = erased;
            }
            true
        }
        Value::Array(items) => items.iter_mut().all(|item| try_erase(item, eraser, depth + 1)),
        Value::Object(members) => {
            members.values_mut().all(|member| try_erase(member, eraser, depth + 1))
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests;
