//! A pending call of a client without a session: the client is asked by results, and answers by
//! making its request again.
//!
//! The call runs in a task of its own, so that it goes on whether or not a request waits for it. A
//! [`PendingCall`] is the client's handle, passed from one request to the next: it receives the
//! outcome and questions, and takes answers. Dropped without the outcome, it cancels the call. What
//! a client answers beforehand, to questions that it knows, is taken for the first of that name.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use opentelemetry::context::FutureExt as _;
use parking_lot::Mutex;
use rmcp::model::{ClientCapabilities, ErrorData, InputRequest, InputRequests, InputResponses};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::{CancellationToken, DropGuard};
use toolbus_bus::asker::QUESTIONS_OPEN_MAX;
use toolbus_bus::{Asker, Progress, Question, Slot};
use toolbus_wire::json::RawJson;
use toolbus_wire::message::toolbus::{AskError, AskErrorCode, ToolProgress};

use crate::questions::{client_request, question_kinds};
use crate::suspended_calls::SuspendedCalls;

/// How long the questions of one round may be apart; what comes later is asked later.
const ROUND_TIMEOUT: Duration = Duration::from_secs(2);

/// How a call ends: with the result of its method as it is written, or with an error.
pub(crate) type CallOutcome = Result<RawJson, ErrorData>;

/// What a call is given when it starts.
pub(crate) struct ClientLinks {
    /// Fires when nobody wants the outcome any more.
    pub(crate) cancelled: CancellationToken,
    pub(crate) progress: Progress,
    pub(crate) asker: Asker,
}

/// A call that is to begin.
pub(crate) struct NewCall<F> {
    /// The slot that it takes up.
    pub(crate) slot: Slot,
    /// Makes the call.
    pub(crate) begin: F,
}

/// What a pending call reports next to its client.
pub(crate) enum PendingCallEvent {
    /// It is over.
    Finished(CallOutcome),
    /// It wants to know this first.
    NeedsInput(InputRequests),
}

/// One call, for the client that waits for it.
pub(crate) struct PendingCall {
    /// First, so that a call that is given up hears it before its questions end.
    _cancel: DropGuard,
    ended: oneshot::Receiver<(CallOutcome, Option<OwnedSemaphorePermit>)>,
    questions: mpsc::Receiver<OpenQuestion>,
    /// The questions of this round, by what they are called.
    round: BTreeMap<String, AskedQuestion>,
    /// How many questions have come in this round, out of how many, and until when the rest may.
    questions_received: usize,
    questions_expected: usize,
    round_ends: Instant,
    /// Answers that the client gave before it was asked.
    early_answers: InputResponses,
    capabilities: ClientCapabilities,
    pub(crate) progress: ProgressSwitch,
    /// Parked while the client is away.
    pub(crate) slot: Slot,
}

/// A question that has come from the call.
struct OpenQuestion {
    question: Question,
    answer: oneshot::Sender<Result<Value, AskError>>,
    room: OwnedSemaphorePermit,
}

/// A question that the client is asked.
struct AskedQuestion {
    request: InputRequest,
    answer: oneshot::Sender<Result<Value, AskError>>,
    _room: OwnedSemaphorePermit,
}

/// Where the progress of a call goes: to the request that waits for it, and nowhere while none
/// does. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct ProgressSwitch(Arc<ProgressSwitchState>);

#[derive(Default)]
struct ProgressSwitchState {
    to: Mutex<Progress>,
    /// Nobody waits for the call.
    is_disconnected: AtomicBool,
}

impl ProgressSwitch {
    /// Leads to a request that waits from now on.
    pub(crate) fn redirect_to(&self, progress: Progress) {
        *self.0.to.lock() = progress;
        self.0.is_disconnected.store(false, Ordering::Release);
    }

    fn disconnect(&self) {
        *self.0.to.lock() = Progress::none();
        self.0.is_disconnected.store(true, Ordering::Release);
    }

    fn progress(&self) -> Progress {
        let line = self.clone();
        Progress::to(move |update: ToolProgress| {
            let to = line.0.to.lock().clone();
            to.send(update);
        })
    }
}

impl PendingCall {
    /// Begins a call for a client that can be asked. It runs until it ends or the handle is
    /// dropped; `progress` is that of the first request.
    pub(crate) fn begin(
        suspended: &SuspendedCalls,
        capabilities: ClientCapabilities,
        early_answers: InputResponses,
        progress: Progress,
        new: NewCall<impl FnOnce(ClientLinks) -> BoxFuture<'static, CallOutcome>>,
    ) -> Self {
        let NewCall { slot, begin } = new;
        let (sender, questions) = mpsc::channel(QUESTIONS_OPEN_MAX);
        let (tell, ended) = oneshot::channel();
        let (cancelled, line) = (CancellationToken::new(), ProgressSwitch::default());

        let is_heard = progress.is_wanted();
        line.redirect_to(progress);
        let call = begin(ClientLinks {
            cancelled: cancelled.clone(),
            progress: if is_heard { line.progress() } else { Progress::none() },
            asker: question_asker(suspended.clone(), sender)
                .with_kinds(question_kinds(&capabilities)),
        });

        let (room, waits) = (suspended.clone(), line.clone());
        let driven = async move {
            let ended = call.await;
            let ended = if waits.0.is_disconnected.load(Ordering::Acquire) {
                keep_within_room(&room, ended)
            } else {
                (ended, None)
            };
            // A client that has gone for good has no use for it.
            drop(tell.send(ended));
        };

        // The call is of the trace of its first request, whose span does not wait for its end.
        suspended.spawn_call(driven.with_current_context());

        Self {
            _cancel: cancelled.drop_guard(),
            ended,
            questions,
            round: BTreeMap::new(),
            questions_received: 0,
            questions_expected: 0,
            round_ends: Instant::now(),
            early_answers,
            capabilities,
            progress: line,
            slot,
        }
    }

    /// Waits for what the client has to know next.
    pub(crate) async fn next_event(&mut self) -> PendingCallEvent {
        loop {
            if self.questions_received >= self.questions_expected {
                let asked = self.take_round();
                if !asked.is_empty() {
                    return PendingCallEvent::NeedsInput(asked);
                }
            }

            // Every arm only waits. The end goes first: what is asked after it has no use.
            tokio::select! {
                biased;
                ended = &mut self.ended => {
                    let lost = || ErrorData::internal_error("the call has broken off", None);
                    return PendingCallEvent::Finished(ended.map_or_else(|_| Err(lost()), |(ended, _)| ended));
                }
                Some(open) = self.questions.recv() => self.take_question(open),
                () = sleep_until(self.round_ends), if !self.round.is_empty() => {
                    return PendingCallEvent::NeedsInput(self.take_round());
                }
            }
        }
    }

    /// Goes on with what the client answers. What it does not answer it is asked again.
    pub(crate) fn take_answers(
        &mut self,
        mut responses: InputResponses,
        client: ClientCapabilities,
    ) {
        self.capabilities = client;
        // Taken back, or out of time.
        self.round.retain(|_, waiting| !waiting.answer.is_closed());
        for (key, waiting) in std::mem::take(&mut self.round) {
            match responses.remove(&key).filter(Value::is_object) {
                // Whoever asked may have gone this moment.
                Some(answer) => drop(waiting.answer.send(Ok(answer))),
                None => drop(self.round.insert(key, waiting)),
            }
        }
    }

    /// Refuses what the client was to be asked.
    pub(crate) fn refuse_questions(&mut self, error: &AskError) {
        for waiting in std::mem::take(&mut self.round).into_values() {
            drop(waiting.answer.send(Err(error.clone())));
        }
    }

    /// The request that waited has an answer: what comes now has to wait.
    pub(crate) fn disconnect_progress(&self) {
        self.progress.disconnect();
    }

    /// What the client is asked in this round, which ends with that.
    fn take_round(&mut self) -> InputRequests {
        (self.questions_received, self.questions_expected) = (0, 0);
        if !self.round.is_empty() {
            self.early_answers.clear();
        }
        let asked = self.round.iter().map(|(key, waiting)| (key.clone(), waiting.request.clone()));
        asked.collect()
    }

    fn take_question(&mut self, open: OpenQuestion) {
        let OpenQuestion { question, answer, room } = open;
        let (key, size) = match &question.round {
            Some(round) => (round.key.clone(), round.size as usize),
            None => ("question".to_owned(), 1),
        };

        if self.questions_received == 0 {
            self.round_ends = Instant::now() + ROUND_TIMEOUT;
        }

        self.questions_received += 1;
        self.questions_expected = self.questions_expected.max(size.min(QUESTIONS_OPEN_MAX));

        if let Some(early_answers) = self.early_answers.remove(&key).filter(Value::is_object) {
            return drop(answer.send(Ok(early_answers)));
        }

        match input_request(question, &self.capabilities) {
            Ok(request) => {
                let waiting = AskedQuestion { request, answer, _room: room };
                self.round.insert(self.unused_key(key), waiting);
            }
            Err(error) => drop(answer.send(Err(error))),
        }
    }

    /// The key, or one like it where another question has it.
    fn unused_key(&self, key: String) -> String {
        let others = (2..).map(|number| format!("{key}-{number}"));
        let mut keys = std::iter::once(key.clone()).chain(others);
        keys.find(|key| !self.round.contains_key(key)).unwrap_or(key)
    }
}

/// Leads the questions of a call to the request that waits for it, within the room that there is.
fn question_asker(suspended: SuspendedCalls, sender: mpsc::Sender<OpenQuestion>) -> Asker {
    Asker::to(move |question| {
        let (suspended, sender) = (suspended.clone(), sender.clone());
        async move {
            let busy = || AskError::new(AskErrorCode::Busy, "too many questions are open");
            let room =
                suspended.reserve_bytes(question.params.to_string().len()).ok_or_else(busy)?;
            let (answer, answered) = oneshot::channel();
            sender.try_send(OpenQuestion { question, answer, room }).map_err(|_| busy())?;
            let ended = |_| AskError::new(AskErrorCode::Cancelled, "the call has ended");
            answered.await.map_err(ended)?
        }
    })
}

/// A question as the protocol has it.
fn input_request(
    question: Question,
    client: &ClientCapabilities,
) -> Result<InputRequest, AskError> {
    let request = client_request(question, client)?;
    let request = json!({"method": request.method, "params": request.params});
    serde_json::from_value(request).map_err(|error| {
        tracing::info!(%error, "a question that the protocol has no form for");
        AskError::new(AskErrorCode::Unsupported, "the client cannot be asked this")
    })
}

/// An outcome that has to wait for its client, where there is room for it.
fn keep_within_room(
    suspended: &SuspendedCalls,
    ended: CallOutcome,
) -> (CallOutcome, Option<OwnedSemaphorePermit>) {
    let bytes = match &ended {
        Ok(result) => result.text().len(),
        Err(error) => serde_json::to_string(error).map_or(usize::MAX, |text| text.len()),
    };
    match suspended.reserve_bytes(bytes) {
        Some(room) => (ended, Some(room)),
        None => {
            let text = format!(
                "outcome_unknown: the call has ended while its client was away, and there was no \
                 room to keep the {bytes} bytes of its outcome"
            );
            (Err(ErrorData::internal_error(text, None)), None)
        }
    }
}

#[cfg(test)]
mod tests;
