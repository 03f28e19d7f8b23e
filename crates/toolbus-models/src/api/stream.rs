//! The stream of an answer, of any API.

use serde_json::Value;

use super::anthropic::AnthropicStream;
use super::chat::ChatStream;
use super::sse::SseEvent;
use crate::completion::Completion;
use crate::error::{ErrorKind, ModelError};

/// Most tokens that an API is believed to have counted.
const TOKENS_MAX: u64 = 1 << 40;

/// Whether more is to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It may be.
    More,
    /// This was all.
    Done,
}

/// Puts an answer together, of any API.
pub(crate) enum AnswerStream<'a> {
    Chat(ChatStream<'a>),
    Anthropic(AnthropicStream<'a>),
}

impl AnswerStream<'_> {
    /// Takes one event.
    pub(crate) fn feed(&mut self, event: &SseEvent) -> Result<Progress, ErrorKind> {
        match self {
            Self::Chat(stream) => stream.feed(&event.data),
            Self::Anthropic(stream) => stream.feed(&event.data),
        }
    }

    /// Whether the model has stopped, so that nothing is missing.
    pub(crate) fn has_stopped(&self) -> bool {
        match self {
            Self::Chat(stream) => stream.has_stopped(),
            Self::Anthropic(stream) => stream.has_stopped(),
        }
    }

    /// The whole answer; `progress` is what the last event was.
    ///
    /// # Errors
    /// When the model has not stopped. Some servers say only that this was all.
    pub(crate) fn finish(self, progress: Progress) -> Result<Completion, ModelError> {
        let is_all = progress == Progress::Done && matches!(self, Self::Chat(_));
        if !self.has_stopped() && !is_all {
            let problem = "it ended before the model had stopped".to_owned();
            return Err(self.break_off(ErrorKind::BrokenStream { problem }));
        }
        Ok(match self {
            Self::Chat(stream) => stream.finish(),
            Self::Anthropic(stream) => stream.finish(),
        })
    }

    /// The error, with what there is of the answer.
    pub(crate) fn break_off(self, kind: ErrorKind) -> ModelError {
        let partial = match self {
            Self::Chat(stream) => stream.break_off(),
            Self::Anthropic(stream) => stream.break_off(),
        };
        ModelError { kind, partial }
    }
}

/// A number of tokens. Some servers write it with a fraction.
pub(crate) fn tokens(value: &Value) -> Option<u64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "what is no number of tokens is cut to one"
    )]
    let count = value.as_u64().or_else(|| value.as_f64().map(|count| count as u64))?;
    Some(count.min(TOKENS_MAX))
}

#[cfg(test)]
mod tests;
