//! Questions of a call to whoever made it: a form for a person, a completion of the caller's model.
//!
//! An [`Asker`] goes down with a call as [`Progress`](crate::Progress) does, hop by hop: what a
//! responder gives its service asks over the bus, what a front door gives the invoker asks a person.
//! A question ends with its call, and one that nobody can answer ends at once.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use toolbus_wire::message::toolbus::{AskError, AskErrorCode, AskKind};

/// Longest question, as its message has it, in bytes.
pub const QUESTION_BYTES_MAX: usize = 1 << 20;
/// Longest answer, as its message has it, in bytes.
pub const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Questions that one call may have open at a time; more are refused as busy.
pub const QUESTIONS_OPEN_MAX: usize = 8;
/// Questions that one call may ask in all; more are refused as busy.
pub const QUESTIONS_MAX: usize = 100;

/// What a call wants to know.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// What is asked for.
    pub kind: AskKind,
    /// Who asks, in words for people.
    pub from: Option<String>,
    /// The question, as the kind has it.
    pub params: Value,
}

type Answers = dyn Fn(Question) -> BoxFuture<'static, Result<Value, AskError>> + Send + Sync;

/// Whom a call may ask. Clones ask the same.
#[derive(Clone, Default)]
pub struct Asker {
    answers: Option<Arc<Answers>>,
}

impl Asker {
    /// Nobody: every question is refused at once.
    #[must_use]
    pub const fn none() -> Self {
        Self { answers: None }
    }

    /// Whoever `answers` is. Its future is dropped when nobody wants the answer any more.
    #[must_use]
    pub fn to<F, Fut>(answers: F) -> Self
    where
        F: Fn(Question) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Value, AskError>> + Send + 'static,
    {
        Self { answers: Some(Arc::new(move |question| Box::pin(answers(question)))) }
    }

    /// Whether there is anybody to ask.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.answers.is_some()
    }

    /// Asks, and waits for the answer. What the answer looks like depends on the kind of question.
    ///
    /// # Errors
    /// Why there is no answer; a person's no is one.
    pub async fn ask(&self, question: Question) -> Result<Value, AskError> {
        match &self.answers {
            Some(answers) => answers(question).await,
            None => Err(AskError::new(
                AskErrorCode::Unsupported,
                "the caller of this call takes no questions",
            )),
        }
    }
}

impl fmt::Debug for Asker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_there() { "Asker(there)" } else { "Asker(none)" })
    }
}
