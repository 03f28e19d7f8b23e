//! How tasks are answered.

use toolbus_wire::message::a2a::{
    AgentArtifact, AgentErrorCode, AgentMessage, AgentTaskError, AgentTaskResult, AgentTaskState,
    ROLE_AGENT,
};
use toolbus_wire::{Message, Topic, json, topic};

use crate::TaskEnd;
use crate::event::{RESULT_BYTES_MAX, cut};
use crate::metrics::Outcome;
use crate::received::Answer;

/// Largest answer, in bytes. Artifacts that make one larger are left out, and that is said.
const ANSWER_BYTES_MAX: usize = 4 << 20;
const LEFT_OUT: &str = "\n\n[The artifacts are left out: they are too large.]";

/// Why a task is not begun.
pub(crate) struct Refusal {
    pub(crate) code: AgentErrorCode,
    pub(crate) message: String,
    pub(crate) is_retryable: bool,
}

impl Refusal {
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        let code = AgentErrorCode::InvalidRequest;
        Self { code, message: message.into(), is_retryable: false }
    }
}

/// How a task ended: what is answered, and what is counted.
pub(crate) struct Ended {
    pub(crate) end: TaskEnd,
    pub(crate) outcome: Outcome,
}

impl Ended {
    pub(crate) fn failed(message: String) -> Self {
        let code = AgentErrorCode::ExecutionFailed;
        TaskEnd::Failed { code, message, is_retryable: false }.into()
    }

    pub(crate) fn timed_out(message: String) -> Self {
        Self { outcome: Outcome::TimedOut, ..Self::failed(message) }
    }
}

impl From<TaskEnd> for Ended {
    fn from(end: TaskEnd) -> Self {
        let outcome = Outcome::of_end(&end);
        Self { end, outcome }
    }
}

pub(crate) fn reply_topic(text: &str) -> Topic {
    Topic::parse(text).unwrap_or(topic::AGENT_RESPONSE)
}

pub(crate) fn body_of<T: Message>(message: &T) -> String {
    // What we write is JSON, and so UTF-8.
    String::from_utf8_lossy(&json::write(message)).into_owned()
}

/// What an answer is about.
#[derive(Clone, Copy)]
pub(crate) struct About<'a> {
    pub(crate) id: &'a str,
    pub(crate) context_id: Option<&'a str>,
}

pub(crate) fn error_of(about: About<'_>, refusal: Refusal) -> Answer {
    let Refusal { code, message, is_retryable } = refusal;
    let (task_id, context_id) = (about.id.to_owned(), about.context_id.map(str::to_owned));
    let error = AgentTaskError { task_id, context_id, code, message, is_retryable };
    Answer { message_type: AgentTaskError::TYPE.to_owned(), body: body_of(&error) }
}

pub(crate) fn answer_of(about: About<'_>, end: TaskEnd) -> Answer {
    let (state, text, artifacts) = match end {
        TaskEnd::Failed { code, message, is_retryable } => {
            return error_of(about, Refusal { code, message, is_retryable });
        }
        TaskEnd::Completed { text, artifacts } => {
            (AgentTaskState::Completed, Some(text), artifacts)
        }
        TaskEnd::InputRequired { text } => (AgentTaskState::InputRequired, Some(text), Vec::new()),
        TaskEnd::Canceled => (AgentTaskState::Canceled, None, Vec::new()),
    };

    let text = text.map(|text| cut(text, RESULT_BYTES_MAX));
    let result = |text: Option<String>, artifacts: Option<Vec<AgentArtifact>>| AgentTaskResult {
        task_id: about.id.to_owned(),
        context_id: about.context_id.map(str::to_owned),
        state,
        artifacts,
        message: text.map(|text| AgentMessage::of_text(ROLE_AGENT, text)),
    };

    let made = Some(artifacts).filter(|artifacts| !artifacts.is_empty());
    let mut body = body_of(&result(text.clone(), made));
    if body.len() > ANSWER_BYTES_MAX {
        let text = text.unwrap_or_default() + LEFT_OUT;
        body = body_of(&result(Some(text), None));
    }
    Answer { message_type: AgentTaskResult::TYPE.to_owned(), body }
}
