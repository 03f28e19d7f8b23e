//! Queries of a worker: what its caller, or the other workers, know of a call that it was handed.
//!
//! A request may have waited in its queue while nothing of its cancel message could be heard here,
//! or may have been held up together with it. Such a request is started only once its caller says
//! that it still waits. And a request that was handed out before may be running at a worker that
//! lives; where the caller cannot find that out, the workers are asked.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::Instant;
use toolbus_wire::clock::unix_now;
use toolbus_wire::message::toolbus::{CallQuery, CallState, CallStatus};
use toolbus_wire::name::InstanceId;
use toolbus_wire::{Envelope, Topic, topic};

use crate::Deadline;
use crate::clock::PeerClocks;
use crate::port::{Bus, PublishError};

/// How long to wait for one answer, and between two questions about a call that runs elsewhere.
const QUERY_INTERVAL: Duration = Duration::from_secs(1);
/// Queries in a row without an answer until a caller counts as gone: as many as heartbeats that
/// its queue may be missing for.
const CALLER_SILENT_MAX: u32 = 10;
/// Queries in a row without an answer until no worker counts as having the call: as long as a
/// caller waits for a sign of life.
const WORKERS_SILENT_MAX: u32 = 15;

/// Asks for one responder.
pub(super) struct CallQueries {
    bus: Arc<dyn Bus>,
    source: String,
    instance: InstanceId,
    /// Where answers go.
    reply_to: Topic,
    /// Those that wait for an answer, by the correlation ids of their calls.
    waiting: Mutex<HashMap<String, oneshot::Sender<CallState>>>,
    clocks: Arc<PeerClocks>,
    /// Since when every cancel message is heard here, in Unix milliseconds.
    listening_since_ms: AtomicU64,
}

/// The names of a call that is asked about.
pub(super) struct QueriedCall<'a> {
    pub(super) source: &'a str,
    pub(super) call_id: &'a str,
    pub(super) correlation_id: &'a str,
}

/// How one question ended.
enum Answer {
    State(CallState),
    /// The question arrived, and no answer came; or there is nobody to ask.
    Silence,
    /// The broker is away.
    NotAsked,
}

impl CallQueries {
    pub(super) fn new(
        bus: Arc<dyn Bus>,
        source: &str,
        instance: &InstanceId,
        reply_to: Topic,
        clocks: Arc<PeerClocks>,
    ) -> Self {
        Self {
            bus,
            source: source.to_owned(),
            instance: instance.clone(),
            reply_to,
            waiting: Mutex::default(),
            clocks,
            listening_since_ms: AtomicU64::new(u64::MAX),
        }
    }

    /// Notes that every cancel message from now on is heard.
    pub(super) fn note_listening(&self) {
        let now = u64::try_from(unix_now().as_millis()).unwrap_or(u64::MAX);
        self.listening_since_ms.store(now, Ordering::Relaxed);
    }

    /// Whether the caller may have given up this request without our having heard of it: before
    /// we could hear, or because its cancel message is held up as the request was. A broker that
    /// was blocked reads both when it is free again, and a short call is over before its cancel.
    pub(super) fn may_be_cancelled_unheard(&self, request: &Envelope) -> bool {
        let since = Duration::from_millis(self.listening_since_ms.load(Ordering::Relaxed));
        let is_from_before = self.clocks.sent_at(request).is_some_and(|sent_at| sent_at < since);
        is_from_before || self.clocks.is_late(request)
    }

    /// Whether a caller still waits for its call. `None` when it cannot be asked, or does not
    /// answer in time.
    pub(super) async fn ask_caller(
        &self,
        caller: &Topic,
        call: &QueriedCall<'_>,
        deadline: Deadline,
    ) -> Option<CallState> {
        let mut silent_in_a_row = 0;
        while silent_in_a_row < CALLER_SILENT_MAX && !deadline.is_past() {
            match self.ask(caller, call).await {
                Answer::State(state) => return Some(state),
                Answer::Silence => silent_in_a_row += 1,
                Answer::NotAsked => {}
            }
        }
        None
    }

    /// Waits while another worker says that it runs the call. True when the call has been answered
    /// there; false when no worker has it, or its time is over.
    pub(super) async fn wait_for_other_worker(
        &self,
        call: &QueriedCall<'_>,
        deadline: Deadline,
    ) -> bool {
        let mut silent_in_a_row = 0;
        while silent_in_a_row < WORKERS_SILENT_MAX && !deadline.is_past() {
            match self.ask(&topic::TOOL_CANCEL, call).await {
                Answer::State(CallState::Running) => {
                    silent_in_a_row = 0;
                    tokio::time::sleep(QUERY_INTERVAL).await;
                }
                Answer::State(CallState::Ended) => return true,
                Answer::State(_) | Answer::Silence => silent_in_a_row += 1,
                Answer::NotAsked => {}
            }
        }
        false
    }

    /// Hands an answer to the call that waits for it.
    pub(super) fn take_status(&self, status: CallStatus) {
        if let Some(waiting) = self.waiting.lock().remove(&status.correlation_id) {
            // The question may have been given up in this very moment.
            let _ = waiting.send(status.state);
        }
    }

    /// Whether the query is our own, which we hear with all others.
    pub(super) fn is_own(&self, query: &CallQuery) -> bool {
        query.instance == self.instance.as_str()
    }

    /// Asks once, which takes [`QUERY_INTERVAL`] unless an answer comes.
    async fn ask(&self, to: &Topic, call: &QueriedCall<'_>) -> Answer {
        let query = CallQuery {
            instance: self.instance.to_string(),
            source: call.source.to_owned(),
            tool_call_id: call.call_id.to_owned(),
            correlation_id: call.correlation_id.to_owned(),
        };
        let mut envelope = Envelope::of(&query, &self.source).with_expiry(QUERY_INTERVAL);
        envelope.reply_to = Some(self.reply_to.clone());

        let (sender, answer) = oneshot::channel();
        self.waiting.lock().insert(call.correlation_id.to_owned(), sender);
        let end = Instant::now() + QUERY_INTERVAL;

        let asking = async {
            let sent = self.bus.publish(to, envelope).await;
            match sent {
                Ok(()) => std::future::pending().await,
                Err(PublishError::Unroutable(_) | PublishError::Refused(_)) => Answer::Silence,
                Err(_) => Answer::NotAsked,
            }
        };

        // The answer often overtakes the confirm.
        let answer = tokio::select! {
            biased;
            state = answer => state.map_or(Answer::Silence, Answer::State),
            failed = asking => {
                tokio::time::sleep_until(end).await;
                failed
            }
            () = tokio::time::sleep_until(end) => {
                if self.bus.health().is_up() { Answer::Silence } else { Answer::NotAsked }
            }
        };
        self.waiting.lock().remove(call.correlation_id);
        answer
    }
}
