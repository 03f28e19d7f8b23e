//! Questions of a call to whoever made it: a form for a person, a completion of the caller's model.
//!
//! An [`Asker`] goes down with a call as [`Progress`](crate::Progress) does, hop by hop: what a
//! responder gives its service asks over the bus, what a front door gives the invoker asks a
//! person. A question ends with its call, and one that nobody can answer ends at once.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use toolbus_wire::message::toolbus::{AskError, AskErrorCode, AskKind, AskRound};

/// Longest question, as its message has it, in bytes.
pub const QUESTION_BYTES_MAX: usize = 1 << 20;
/// Longest answer, as its message has it, in bytes.
pub const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Questions that one call may have open at a time; more are refused as busy.
pub const QUESTIONS_OPEN_MAX: usize = 8;
/// Questions that one call may ask in all; more are refused as busy.
pub const QUESTIONS_MAX: usize = 100;

/// How many questions of one kind a call may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuestionLimits {
    /// At a time.
    pub open: usize,
    /// In all.
    pub all: usize,
}

/// Of questions that a program asks a program, as a script does its caller. They have limits of
/// their own, beside those of all other questions together.
pub const SCRIPT_QUESTIONS: QuestionLimits = QuestionLimits { open: 64, all: 100_000 };
/// Of all other questions.
pub const QUESTIONS: QuestionLimits =
    QuestionLimits { open: QUESTIONS_OPEN_MAX, all: QUESTIONS_MAX };

/// What a call wants to know.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// What is asked for.
    pub kind: AskKind,
    /// Who asks, in words for people.
    pub from: Option<String>,
    /// The question, as the kind has it.
    pub params: Value,
    /// Where it has its place, when it is one of several that are put at the same time.
    pub round: Option<AskRound>,
}

type Answers = dyn Fn(Question) -> BoxFuture<'static, Result<Value, AskError>> + Send + Sync;

/// Whom a call may ask. Clones ask the same.
#[derive(Clone, Default)]
pub struct Asker {
    answers: Option<Arc<Answers>>,
    /// What is answered; nothing is said where it is what most answer.
    kinds: Option<Arc<[AskKind]>>,
}

/// Most kinds of questions that are read from a header.
const KINDS_MAX: usize = 16;

/// What somebody answers that does not say what.
const KINDS: [AskKind; 2] = [AskKind::Elicitation, AskKind::Sampling];

impl Asker {
    /// Nobody: every question is refused at once.
    #[must_use]
    pub const fn none() -> Self {
        Self { answers: None, kinds: None }
    }

    /// Whoever `answers` is: elicitations and completions. Its future is dropped when nobody wants
    /// the answer any more.
    #[must_use]
    pub fn to<F, Fut>(answers: F) -> Self
    where
        F: Fn(Question) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Value, AskError>> + Send + 'static,
    {
        let answers: Arc<Answers> = Arc::new(move |question| Box::pin(answers(question)));
        Self { answers: Some(answers), kinds: None }
    }

    /// The same, that answers these kinds of questions.
    #[must_use]
    pub fn with_kinds(self, kinds: impl Into<Arc<[AskKind]>>) -> Self {
        Self { kinds: Some(kinds.into()), ..self }
    }

    /// Whether there is anybody to ask.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.answers.is_some()
    }

    /// What it answers. A question of another kind may be put all the same, and is refused.
    #[must_use]
    pub fn kinds(&self) -> &[AskKind] {
        match &self.kinds {
            _ if !self.is_there() => &[],
            Some(kinds) => kinds,
            None => &KINDS,
        }
    }

    /// What it answers, as a header says it; nothing where it is what most answer.
    pub(crate) fn kinds_header(&self) -> Option<String> {
        let kinds: Vec<_> = self.kinds.as_deref()?.iter().map(AskKind::as_str).collect();
        Some(kinds.join(","))
    }

    /// The same, that answers what a header says.
    pub(crate) fn with_kinds_header(self, said: Option<&str>) -> Self {
        match said {
            Some(said) => {
                let kinds: Vec<_> = said.split(',').take(KINDS_MAX).map(AskKind::from).collect();
                self.with_kinds(kinds)
            }
            None => self,
        }
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
