//! What a client is told of a turn.

use serde::Serialize;
use serde_json::Value;
use toolbus_agent::{TurnEvent, TurnReport};
use toolbus_models::model::ModelEvent;

/// Something that happens in a turn. On the wire it is an event of that name, with its members as
/// JSON.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum TurnMessage {
    /// The turn begins in this session.
    Session { session: String },
    /// More text of the agent.
    Text { delta: String },
    /// More of what the model thinks.
    Reasoning { delta: String },
    /// The model is asked once more.
    Retrying { model: String, wait_ms: u64, reason: String },
    /// Another model is asked.
    FellBack { model: String, reason: String },
    /// A call begins.
    CallBegun { id: String, tool: String, arguments: Value },
    /// A call came to its end.
    CallEnded { id: String, tool: String, is_error: bool, took_ms: u64, text: String },
    /// The turn is over.
    End {
        #[serde(flatten)]
        report: TurnReport,
        session: String,
    },
    /// The turn cannot be had.
    Error(Value),
}

impl TurnMessage {
    /// What is told of an event, where something is.
    pub(crate) fn of(event: TurnEvent) -> Option<Self> {
        let ms = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Some(match event {
            TurnEvent::Model(ModelEvent::Text { delta }) => Self::Text { delta },
            TurnEvent::Model(ModelEvent::Reasoning { delta }) => Self::Reasoning { delta },
            TurnEvent::Model(ModelEvent::Retrying { model, wait, reason }) => {
                Self::Retrying { model, wait_ms: ms(wait), reason }
            }
            TurnEvent::Model(ModelEvent::FellBack { model, reason }) => {
                Self::FellBack { model, reason }
            }
            // It is told with its arguments when it is made.
            TurnEvent::Model(ModelEvent::CallBegun { .. }) => return None,

            TurnEvent::CallBegun { id, tool, arguments } => Self::CallBegun { id, tool, arguments },
            TurnEvent::CallEnded { id, tool, text, is_error, took } => {
                Self::CallEnded { id, tool, is_error, took_ms: ms(took), text }
            }
        })
    }

    /// The name of the event.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Session { .. } => "session",
            Self::Text { .. } => "text",
            Self::Reasoning { .. } => "reasoning",
            Self::Retrying { .. } => "retrying",
            Self::FellBack { .. } => "fell_back",
            Self::CallBegun { .. } => "call_begun",
            Self::CallEnded { .. } => "call_ended",
            Self::End { .. } => "end",
            Self::Error(_) => "error",
        }
    }

    /// Some size that grows with what it takes in memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        const OF_ANY: usize = 128;
        OF_ANY
            + match self {
                Self::Text { delta } | Self::Reasoning { delta } => delta.len(),
                Self::CallBegun { arguments, .. } => arguments.to_string().len(),
                Self::CallEnded { text, .. } => text.len(),
                _ => 0,
            }
    }

    /// Adds a message behind this one to it, where both are text of the same kind. Else it comes
    /// back.
    pub(crate) fn append(&mut self, next: Self) -> Option<Self> {
        match (self, next) {
            (Self::Text { delta }, Self::Text { delta: more })
            | (Self::Reasoning { delta }, Self::Reasoning { delta: more }) => {
                delta.push_str(&more);
                None
            }
            (_, next) => Some(next),
        }
    }
}
