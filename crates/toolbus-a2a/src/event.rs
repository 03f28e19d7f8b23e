//! What happens to a task for another agent, and how a model reads it.

use serde::{Deserialize, Serialize};
use toolbus_policy::SessionOwner;
use toolbus_tools::Lineage;
use toolbus_wire::message::a2a::{
    AgentArtifact, AgentMessage, AgentMessagePart, AgentTaskError, AgentTaskResult, AgentTaskState,
};

/// Longest text of a result, in bytes. What is over that is left out, and that is said.
pub const RESULT_BYTES_MAX: usize = 1 << 20;
/// Longest text of a status or an error, in bytes.
const REMARK_BYTES_MAX: usize = 16 << 10;

/// Something that happened to a task for another agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskEvent {
    /// Id of the task. Its end is told once, or again under the same id after a process was
    /// killed while it told it.
    pub task_id: String,
    /// Whose task it is.
    pub owner: SessionOwner,
    /// The agent that was asked.
    pub target: String,
    /// What it was asked for.
    pub skill: String,
    /// What happened.
    pub what: TaskChange,
    /// The key of working memory that the text of the result is kept under.
    pub kept_at: Option<String>,
    /// The lineage of a turn that is begun to tell it. `None`: no turn may be begun.
    pub lineage: Option<Lineage>,
}

/// What happened to a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskChange {
    /// It goes on, and there may be something to say of that. Not told again after a kill.
    Progress {
        /// The number of its state.
        state: i64,
        /// What the agent says.
        text: String,
    },
    /// The agent does not give it up.
    NotCancelled {
        /// Which error that is.
        code: String,
        /// Why, in the agent's words.
        message: String,
    },
    /// It ended, and the agent has answered.
    Answered {
        /// The number of the state that it ended in.
        state: i64,
        /// All that the agent says.
        text: String,
    },
    /// It failed.
    Failed {
        /// Which error it is.
        code: String,
        /// What went wrong, in the agent's words.
        message: String,
        /// Whether it may go well when it is tried again.
        is_retryable: bool,
    },
    /// No answer came in time. The agent is asked to give it up.
    TimedOut {
        /// How long it had, in seconds.
        seconds: u64,
    },
}

impl TaskChange {
    /// Whether the task is over.
    #[must_use]
    pub fn is_end(&self) -> bool {
        !matches!(self, Self::Progress { .. } | Self::NotCancelled { .. })
    }

    pub(crate) fn of_status(state: AgentTaskState, message: Option<&AgentMessage>) -> Self {
        let mut text = String::new();
        push_parts(&mut text, message.map(|message| &*message.parts).unwrap_or_default());
        Self::Progress { state: state.number(), text: cut(text, REMARK_BYTES_MAX) }
    }

    pub(crate) fn of_result(result: &AgentTaskResult) -> Self {
        let text = text_of(result.message.as_ref(), result.artifacts.as_deref());
        Self::Answered { state: result.state.number(), text: cut(text, RESULT_BYTES_MAX) }
    }

    pub(crate) fn of_error(error: AgentTaskError) -> Self {
        Self::Failed {
            code: cut(error.code.as_str().to_owned(), 64),
            message: cut(error.message, REMARK_BYTES_MAX),
            is_retryable: error.is_retryable,
        }
    }
}

impl TaskEvent {
    /// The event as a model reads it in its conversation.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { task_id, target, skill, .. } = self;
        let about = format!("task {task_id} ('{skill}') of agent '{target}'");
        let kept = match &self.kept_at {
            Some(key) => format!("\n\n[kept in working memory under '{key}']"),
            None => String::new(),
        };

        match &self.what {
            TaskChange::Progress { text, .. } if text.is_empty() => {
                format!("[The {about} is under way.]")
            }
            TaskChange::Progress { text, .. } => format!("[The {about} is under way: {text}]"),
            TaskChange::NotCancelled { code, message } => {
                format!("[The {about} was not cancelled: {message} ({code})]")
            }
            TaskChange::Answered { state, text } => {
                let ended = match AgentTaskState::from(*state) {
                    AgentTaskState::Completed => "completed",
                    AgentTaskState::InputRequired => "needs an answer before it can go on",
                    AgentTaskState::Failed => "failed",
                    AgentTaskState::Canceled => "was cancelled",
                    _ => "ended in a state that is not known here",
                };
                let text = if text.is_empty() { "(no text)" } else { text };
                format!("[The {about} {ended}:]\n\n{text}{kept}")
            }
            TaskChange::Failed { code, message, is_retryable } => {
                let again = if *is_retryable { ", may be tried again" } else { "" };
                format!("[The {about} failed: {message} ({code}{again})]")
            }
            TaskChange::TimedOut { seconds } => {
                format!("[The {about} gave no result within {seconds} s, and was given up.]")
            }
        }
    }

    /// The text of the result alone, which is what is kept.
    pub(crate) fn result(&self) -> Option<&str> {
        match &self.what {
            TaskChange::Answered { text, .. } if !text.is_empty() => Some(text),
            _ => None,
        }
    }
}

/// The text of an answer: what the agent says, and what it has made.
fn text_of(message: Option<&AgentMessage>, artifacts: Option<&[AgentArtifact]>) -> String {
    let mut text = String::new();
    push_parts(&mut text, message.map(|message| &*message.parts).unwrap_or_default());
    for artifact in artifacts.unwrap_or_default() {
        if text.len() > RESULT_BYTES_MAX {
            break;
        }
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(&format!("## {}", artifact.name));
        if let Some(description) = &artifact.description {
            text.push_str(&format!("\n\n{description}"));
        }
        text.push_str("\n\n");
        push_parts(&mut text, &artifact.parts);
    }
    text
}

/// Texts as they are, data as it is, each on lines of its own.
pub(crate) fn push_parts(text: &mut String, parts: &[AgentMessagePart]) {
    let said = parts.iter().filter_map(|part| part.text.as_ref().or(part.data.as_ref()));
    for (at, part) in said.enumerate() {
        if text.len() > RESULT_BYTES_MAX {
            return;
        }
        text.push_str(if at > 0 { "\n" } else { "" });
        text.push_str(part);
    }
}

/// A text that is no longer than that, and says so. Databases do not keep the character zero.
pub(crate) fn cut(mut text: String, bytes_max: usize) -> String {
    const CUT: &str = "\n[cut off: the answer is longer]";
    if text.len() > bytes_max {
        text.truncate(text.floor_char_boundary(bytes_max.saturating_sub(CUT.len())));
        text.push_str(CUT);
    }
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }
}

#[cfg(test)]
mod tests;
