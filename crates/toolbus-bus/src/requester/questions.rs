//! The caller's side of questions: each question of a call under way is asked once, and its answer
//! sent back, while the call waits.

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use toolbus_wire::message::tool::ID_BYTES_MAX;
use toolbus_wire::message::toolbus::{AskError, AskErrorCode, AskKind, ToolAnswer, ToolAsk};
use toolbus_wire::{Envelope, Topic, json};
use tracing::Instrument as _;

use super::pending::Pending;
use crate::asker::{
    ANSWER_BYTES_MAX, Asker, QUESTION_BYTES_MAX, QUESTIONS, Question, QuestionLimits,
    SCRIPT_QUESTIONS,
};
use crate::port::{Bus, PublishError};

/// How long an answer is sent again while its worker's queue is away, and how often.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
const ANSWER_RETRY_BACKOFF: Duration = Duration::from_millis(250);
/// Refusals that are being sent at a time. More questions than that are dropped: their workers
/// give them up with their calls.
const REFUSALS_MAX: usize = 256;

/// Takes the questions that come for one requester.
pub(super) struct Questions {
    bus: Arc<dyn Bus>,
    source: String,
    pending: Arc<Pending>,
    refusals: Arc<Semaphore>,
    closed: CancellationToken,
    tasks: TaskTracker,
}

/// What one call may ask. Dropped, it ends the questions that are open.
pub(super) struct CallQuestions {
    asker: Asker,
    people: SeenQuestions,
    scripts: SeenQuestions,
    ended: CancellationToken,
    _end: DropGuard,
}

/// The questions of one call that share a limit.
struct SeenQuestions {
    limits: QuestionLimits,
    ids: Mutex<HashSet<String>>,
    room: Arc<Semaphore>,
}

/// A question that may be put to the caller.
pub(super) struct AdmittedQuestion {
    asker: Asker,
    ended: CancellationToken,
    _place: OwnedSemaphorePermit,
}

/// Why a question is not asked.
pub(super) enum Rejected {
    /// It came before.
    Duplicate,
    /// The worker gets this error.
    WithError(AskError),
}

impl CallQuestions {
    /// `None` when the caller takes no questions.
    pub(super) fn new(asker: Asker) -> Option<Arc<Self>> {
        asker.is_there().then(|| {
            let ended = CancellationToken::new();
            Arc::new(Self {
                asker,
                people: SeenQuestions::new(QUESTIONS),
                scripts: SeenQuestions::new(QuestionLimits {
                    // Whoever asks steadily asks again before the broker has confirmed the answer.
                    open: 2 * SCRIPT_QUESTIONS.open,
                    ..SCRIPT_QUESTIONS
                }),
                _end: ended.clone().drop_guard(),
                ended,
            })
        })
    }

    fn admit(&self, ask_id: &str, kind: &AskKind) -> Result<AdmittedQuestion, Rejected> {
        let seen = if *kind == AskKind::Script { &self.scripts } else { &self.people };
        let place = seen.admit(ask_id)?;
        Ok(AdmittedQuestion { asker: self.asker.clone(), ended: self.ended.clone(), _place: place })
    }
}

impl SeenQuestions {
    fn new(limits: QuestionLimits) -> Self {
        Self { limits, ids: Mutex::default(), room: Arc::new(Semaphore::new(limits.open)) }
    }

    fn admit(&self, ask_id: &str) -> Result<OwnedSemaphorePermit, Rejected> {
        let busy = |why| Rejected::WithError(AskError::new(AskErrorCode::Busy, why));
        let mut ids = self.ids.lock();

        if ids.contains(ask_id) {
            return Err(Rejected::Duplicate);
        }
        if ids.len() >= self.limits.all {
            return Err(busy("this call has asked too much"));
        }

        let place = Arc::clone(&self.room).try_acquire_owned();
        let place = place.map_err(|_| busy("this call asks too much at a time"))?;
        ids.insert(ask_id.to_owned());
        Ok(place)
    }
}

impl Questions {
    /// `closed` ends every question that is open.
    pub(super) fn new(
        bus: Arc<dyn Bus>,
        source: &str,
        pending: Arc<Pending>,
        closed: CancellationToken,
        tasks: TaskTracker,
    ) -> Self {
        let refusals = Arc::new(Semaphore::new(REFUSALS_MAX));
        Self { bus, source: source.to_owned(), pending, refusals, closed, tasks }
    }

    /// Takes a question and returns at once; the answer follows.
    pub(super) fn take(&self, envelope: &Envelope) {
        let Some(reply_to) = envelope.reply_to.clone() else {
            return tracing::warn!("dropped a question without a reply topic");
        };

        let bytes = envelope.body.len();
        if bytes > QUESTION_BYTES_MAX {
            let ask_id = envelope.correlation_id.clone().unwrap_or_default();
            let ids = ToolAnswer { ask_id, ..ToolAnswer::default() };
            let why = format!("a question of {bytes} bytes is over {QUESTION_BYTES_MAX}");
            return self.refuse(reply_to, ids, AskError::new(AskErrorCode::TooLarge, why));
        }

        let ask = match json::read::<ToolAsk>(&envelope.body) {
            Ok(ask) => ask,
            Err(error) => return tracing::warn!(%error, "dropped a malformed question"),
        };

        let ToolAsk { tool_call_id, ask_id, kind, from, params, round } = ask;
        // The one is kept for as long as its call waits, and any answer repeats both.
        if ask_id.len() > ID_BYTES_MAX || tool_call_id.len() > ID_BYTES_MAX {
            return tracing::warn!("dropped a malformed question: an id is too long");
        }

        let question = Question { kind, from, params, round };
        let admitted = match self.pending.questions_of(&tool_call_id) {
            Some(questions_of) => questions_of.admit(&ask_id, &question.kind),
            None => Err(Rejected::WithError(AskError::new(
                AskErrorCode::UnknownCall,
                "no call of this id waits here that takes questions",
            ))),
        };

        let ids = ToolAnswer { tool_call_id, ask_id, ..ToolAnswer::default() };
        match admitted {
            Ok(admitted) => self.put_question(reply_to, ids, admitted, question),
            Err(Rejected::Duplicate) => {
                tracing::debug!(ask_id = ids.ask_id, "ignored a duplicate question")
            }
            Err(Rejected::WithError(error)) => self.refuse(reply_to, ids, error),
        }
    }

    fn put_question(
        &self,
        reply_to: Topic,
        ids: ToolAnswer,
        admitted: AdmittedQuestion,
        question: Question,
    ) {
        let bus = Arc::clone(&self.bus);
        let source = self.source.clone();
        let closed = self.closed.clone();

        let task = async move {
            let ended = admitted.ended.clone();
            let answer = async move {
                let answered = ask_caller(&admitted.asker, question).await;
                publish_answer(&*bus, &reply_to, wrap_answer(ids, answered, &source)).await;
            };

            // What is dropped here is an answer that is not wanted any more.
            tokio::select! {
                () = answer => {}
                () = ended.cancelled() => {}
                () = closed.cancelled() => {}
            }
        };

        self.tasks.spawn(task.in_current_span());
    }

    fn refuse(&self, reply_to: Topic, ids: ToolAnswer, error: AskError) {
        tracing::debug!(ask_id = ids.ask_id, code = %error.code, "refused a question");
        let Ok(place) = Arc::clone(&self.refusals).try_acquire_owned() else { return };
        let answer = wrap_answer(ids, Err(error), &self.source);
        let bus = Arc::clone(&self.bus);
        let closed = self.closed.clone();

        let task = async move {
            closed.run_until_cancelled(publish_answer(&*bus, &reply_to, answer)).await;
            drop(place);
        };
        self.tasks.spawn(task.in_current_span());
    }
}

async fn ask_caller(asker: &Asker, question: Question) -> Result<Value, AskError> {
    let answered = AssertUnwindSafe(asker.ask(question)).catch_unwind().await;
    answered.unwrap_or_else(|_| {
        tracing::error!("question handler panicked");
        Err(AskError::new(AskErrorCode::Failed, "the question could not be put"))
    })
}

fn wrap_answer(ids: ToolAnswer, answered: Result<Value, AskError>, source: &str) -> Envelope {
    let ask_id = ids.ask_id.clone();
    let (result, error) = match answered {
        Ok(result) => (Some(result), None),
        Err(error) => (None, Some(error)),
    };

    let answer = ToolAnswer { result, error, ..ids };
    let envelope = Envelope::of(&answer, source);
    let bytes = envelope.body.len();
    let envelope = if bytes > ANSWER_BYTES_MAX {
        let why = format!("an answer of {bytes} bytes is over {ANSWER_BYTES_MAX}");
        let error = Some(AskError::new(AskErrorCode::TooLarge, why));
        Envelope::of(&ToolAnswer { result: None, error, ..answer }, source)
    } else {
        envelope
    };

    envelope.with_correlation_id(ask_id)
}

/// Sends an answer, again while its worker's queue may come back. A worker that gets it twice takes
/// the first.
async fn publish_answer(bus: &dyn Bus, topic: &Topic, answer: Envelope) {
    let give_up = Instant::now() + ANSWER_TIMEOUT;
    loop {
        match bus.publish(topic, answer.clone()).await {
            Ok(()) => return,
            Err(PublishError::TooLarge { .. } | PublishError::Closed) => return,
            Err(error) if Instant::now() >= give_up => {
                return tracing::info!(%error, %topic, "dropped an answer: its worker has no queue");
            }
            Err(_) => tokio::time::sleep(ANSWER_RETRY_BACKOFF).await,
        }
    }
}
