//! The port: a model is asked, and tells its answer while it writes it.

use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::completion::Completion;
use crate::error::ModelError;
use crate::request::ModelRequest;

/// Something that answers requests: an API, several of them in turn, or a script in a test.
pub trait Model: Send + Sync {
    /// The model's name, as its API knows it, such as `gpt-5.6` or `anthropic/claude-opus-5`.
    fn name(&self) -> &str;

    /// Asks the model, and tells of its answer while it comes. What was told is in the completion
    /// once more, as a whole. Dropping the future cancels the request, and the API is not read on.
    ///
    /// # Errors
    /// Why there is no complete answer, with what there is of it.
    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest,
        on_event: OnEvent<'a>,
    ) -> BoxFuture<'a, Result<Completion, ModelError>>;
}

/// Who is told of an answer while it comes. It is called on the task that reads the answer, and
/// must not block it.
pub type OnEvent<'a> = &'a mut (dyn FnMut(ModelEvent) + Send);

/// What happens while a model answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ModelEvent {
    /// More text for whoever asked.
    Text {
        /// What comes behind the text so far.
        delta: String,
    },
    /// More of what the model thinks.
    Reasoning {
        /// What comes behind the text so far.
        delta: String,
    },
    /// The model began to write a call. Its arguments come with the completion.
    CallBegun {
        /// The call's id.
        id: String,
        /// The tool's own name.
        name: String,
    },
    /// Nothing has come yet, and the same model is asked once more after a wait.
    Retrying {
        /// The model.
        model: String,
        /// How long the wait is.
        wait: Duration,
        /// What went wrong.
        reason: String,
    },
    /// Nothing has come, and another model is asked instead.
    FellBack {
        /// The model that is asked now.
        model: String,
        /// What went wrong with the one before.
        reason: String,
    },
}

impl ModelEvent {
    /// Whether it is a part of an answer: after that no other model can be asked.
    #[must_use]
    pub fn is_answer(&self) -> bool {
        match self {
            Self::Text { .. } | Self::Reasoning { .. } | Self::CallBegun { .. } => true,
            Self::Retrying { .. } | Self::FellBack { .. } => false,
        }
    }
}
