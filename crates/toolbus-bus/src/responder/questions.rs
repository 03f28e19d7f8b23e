//! The worker's side of questions: a call that runs here asks its caller, and the answer comes
//! back.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};
use tokio_util::sync::CancellationToken;
use toolbus_wire::envelope::new_id;
use toolbus_wire::message::toolbus::{AskError, AskErrorCode, AskKind, ToolAnswer, ToolAsk};
use toolbus_wire::{Envelope, Topic, json};

use super::cancel::CallName;
use super::outbox::Outbox;
use crate::Deadline;
use crate::asker::{
    ANSWER_BYTES_MAX, Asker, QUESTION_BYTES_MAX, QUESTIONS, Question, QuestionLimits,
    SCRIPT_QUESTIONS,
};
use crate::port::{Bus, PublishError};

/// Questions that are open at a time, over all calls of one worker: those of a hundred scripts.
const OPEN_QUESTIONS_MAX: usize = 8_192;
/// How long to wait before a question is sent again whose confirm was lost.
const RESEND_BACKOFF: Duration = Duration::from_millis(100);

/// Asks for one responder. Clones are the same.
#[derive(Clone)]
pub(super) struct Asks {
    inner: Arc<AsksInner>,
}

struct AsksInner {
    bus: Arc<dyn Bus>,
    outbox: Outbox,
    source: String,
    /// Where answers go.
    reply_to: Topic,
    open: Arc<OpenQuestions>,
}

/// The questions without an answer so far, by their ids.
#[derive(Default)]
pub(super) struct OpenQuestions(Mutex<HashMap<String, oneshot::Sender<Result<Value, AskError>>>>);

/// Lets one call ask questions, within its limits.
struct QuestionPermit {
    asks: Asks,
    caller: Topic,
    call: Arc<CallName>,
    deadline: Deadline,
    cancelled: CancellationToken,
    people: QuestionCount,
    scripts: QuestionCount,
}

/// Counts the questions of one call that share a limit.
struct QuestionCount {
    limits: QuestionLimits,
    open_slots: Semaphore,
    asked_count: AtomicUsize,
}

impl QuestionCount {
    fn new(limits: QuestionLimits) -> Self {
        let open_slots = Semaphore::new(limits.open);
        Self { limits, open_slots, asked_count: AtomicUsize::new(0) }
    }

    /// Admits a question, until the permit is dropped.
    fn admit(&self) -> Result<SemaphorePermit<'_>, AskError> {
        let busy = |why| AskError::new(AskErrorCode::Busy, why);
        let place =
            self.open_slots.try_acquire().map_err(|_| busy("too many questions at a time"))?;

        if self.asked_count.fetch_add(1, Ordering::Relaxed) >= self.limits.all {
            return Err(busy("too many questions of one call"));
        }

        Ok(place)
    }
}

impl Asks {
    pub(super) fn new(
        bus: Arc<dyn Bus>,
        outbox: Outbox,
        source: &str,
        reply_to: Topic,
        open: Arc<OpenQuestions>,
    ) -> Self {
        let source = source.to_owned();
        Self { inner: Arc::new(AsksInner { bus, outbox, source, reply_to, open }) }
    }

    /// Asks the caller of one call, at the topic that its request named. A question is given up
    /// with the call, or a little before `deadline`, so that the call can still say so.
    pub(super) fn asker(
        &self,
        caller: Option<Topic>,
        call: &Arc<CallName>,
        deadline: Deadline,
        cancelled: &CancellationToken,
    ) -> Asker {
        let Some(caller) = caller else { return Asker::none() };
        let permit = Arc::new(QuestionPermit {
            asks: self.clone(),
            caller,
            call: Arc::clone(call),
            deadline: deadline.for_next_hop(),
            cancelled: cancelled.clone(),
            people: QuestionCount::new(QUESTIONS),
            scripts: QuestionCount::new(SCRIPT_QUESTIONS),
        });

        Asker::to(move |question| {
            let permit = Arc::clone(&permit);
            async move { permit.ask(question).await }
        })
    }
}

impl QuestionPermit {
    async fn ask(&self, question: Question) -> Result<Value, AskError> {
        let is_script = question.kind == AskKind::Script;
        let count = if is_script { &self.scripts } else { &self.people };
        let _place = count.admit()?;

        // Every arm only waits. A question that is dropped takes its place in the table along.
        tokio::select! {
            biased;
            () = self.cancelled.cancelled() => {
                Err(AskError::new(AskErrorCode::Cancelled, "the call is over"))
            }
            answer = self.put_question(question) => answer,
            () = tokio::time::sleep_until(self.deadline.at()) => {
                Err(AskError::new(AskErrorCode::Timeout, "no answer came in time"))
            }
        }
    }

    async fn put_question(&self, question: Question) -> Result<Value, AskError> {
        let AsksInner { bus, outbox, source, reply_to, open } = &*self.asks.inner;
        let ask_id = new_id();
        let ask_kind = question.kind.clone();
        let ask = ToolAsk {
            tool_call_id: self.call.call_id.to_string(),
            ask_id: ask_id.clone(),
            kind: question.kind,
            from: question.from,
            params: question.params,
            round: question.round,
        };

        let mut envelope = Envelope::of(&ask, source.as_str()).with_expiry(self.deadline.left());
        let bytes = envelope.body.len();

        if bytes > QUESTION_BYTES_MAX {
            let why = format!("a question of {bytes} bytes is over {QUESTION_BYTES_MAX}");
            return Err(AskError::new(AskErrorCode::TooLarge, why));
        }

        envelope.correlation_id = Some(ask_id.clone());
        envelope.reply_to = Some(reply_to.clone());
        // Progress that the call sent before it asks arrives before: the caller may read none
        // after. Programs do.
        if ask_kind != AskKind::Script {
            outbox.flush_notifications().await;
        }
        let (_place, mut answer) = open.register(ask_id)?;
        let gone = |_| AskError::new(AskErrorCode::Cancelled, "the worker stops");

        // The answer may overtake the broker's confirm.
        tokio::select! {
            biased;
            answer = &mut answer => return answer.unwrap_or_else(|end| Err(gone(end))),
            sent = publish_question(&**bus, &self.caller, envelope) => sent?,
        }

        answer.await.unwrap_or_else(|end| Err(gone(end)))
    }
}

/// Publishes a question, again while its confirm is lost: its id tells the caller that it is the
/// same.
async fn publish_question(
    bus: &dyn Bus,
    caller: &Topic,
    question: Envelope,
) -> Result<(), AskError> {
    loop {
        match bus.publish(caller, question.clone()).await {
            Ok(()) => return Ok(()),
            Err(PublishError::Unconfirmed) => tokio::time::sleep(RESEND_BACKOFF).await,
            Err(error) => {
                let why = format!("the caller cannot be asked: {error}");
                return Err(AskError::new(AskErrorCode::Unroutable, why));
            }
        }
    }
}

impl OpenQuestions {
    fn register(
        self: &Arc<Self>,
        ask_id: String,
    ) -> Result<(OpenQuestionSlot, oneshot::Receiver<Result<Value, AskError>>), AskError> {
        let (sender, receiver) = oneshot::channel();
        let mut open = self.0.lock();
        if open.len() >= OPEN_QUESTIONS_MAX {
            return Err(AskError::new(AskErrorCode::Busy, "too many questions are open here"));
        }
        open.insert(ask_id.clone(), sender);
        drop(open);
        Ok((OpenQuestionSlot { open: Arc::clone(self), ask_id }, receiver))
    }

    pub(super) fn take_answer(&self, envelope: &Envelope) {
        let bytes = envelope.body.len();
        let (ask_id, answer) = if bytes > ANSWER_BYTES_MAX {
            let why = format!("an answer of {bytes} bytes is over {ANSWER_BYTES_MAX}");
            let ask_id = envelope.correlation_id.clone().unwrap_or_default();
            (ask_id, Err(AskError::new(AskErrorCode::TooLarge, why)))
        } else {
            match json::read::<ToolAnswer>(&envelope.body) {
                Ok(ToolAnswer { ask_id, error: Some(error), .. }) => (ask_id, Err(error)),
                Ok(ToolAnswer { ask_id, result, .. }) => (ask_id, Ok(result.unwrap_or_default())),
                Err(error) => return tracing::warn!(%error, "dropped a malformed answer"),
            }
        };

        let waiting = self.0.lock().remove(&ask_id);
        // The receiver is gone when the question was given up in this very moment.
        if waiting.is_none_or(|waiting| waiting.send(answer).is_err()) {
            tracing::debug!(ask_id, "dropped an answer to a question that is not open");
        }
    }
}

/// A question's place in the table, given up when dropped.
struct OpenQuestionSlot {
    open: Arc<OpenQuestions>,
    ask_id: String,
}

impl Drop for OpenQuestionSlot {
    fn drop(&mut self) {
        self.open.0.lock().remove(&self.ask_id);
    }
}
