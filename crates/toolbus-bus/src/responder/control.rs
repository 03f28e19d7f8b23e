//! What a worker hears beside its requests: cancel messages, queries, and answers to its own.
//!
//! Two private queues lead here: one of what every worker hears, and one of what is meant for this
//! worker alone.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use toolbus_wire::message::Message;
use toolbus_wire::message::toolbus::{
    CallQuery, CallState, CallStatus, ReplyRequest, ToolAnswer, ToolCancel,
};
use toolbus_wire::name::InstanceId;
use toolbus_wire::{Envelope, json, message, topic};

use super::cancel::Cancels;
use super::outbox::Outbox;
use super::outcome_memory::{KnownCall, OutcomeMemory};
use super::queries::CallQueries;
use super::questions::OpenQuestions;
use crate::TopicPattern;
use crate::port::{
    Bus, Consumer, Delivery, Disposition, Flow, Handler, SubscribeError, Subscription,
};

/// How each queue is read. What comes here is small and read in microseconds; a stranger's message
/// may be large.
pub(crate) const FLOW: Flow = Flow::Ordered { prefetch: PREFETCH };
const PREFETCH: NonZeroU16 = NonZeroU16::new(2).expect("2 is not zero");
/// Most replies that are sent again for one request.
const REPLIES_MAX: usize = 1_024;

/// Takes the control messages of one responder.
pub(super) struct ControlReader {
    pub(super) cancels: Arc<Cancels>,
    pub(super) queries: Arc<CallQueries>,
    pub(super) questions: Arc<OpenQuestions>,
    pub(super) memory: OutcomeMemory,
    pub(super) outbox: Outbox,
}

/// The two queues, while they are consumed.
pub(super) struct ControlConsumers {
    shared: Consumer,
    own: Consumer,
}

impl ControlReader {
    /// Starts to listen.
    pub(super) async fn subscribe(
        self,
        bus: &dyn Bus,
        subscription: &str,
        instance: &InstanceId,
    ) -> Result<ControlConsumers, SubscribeError> {
        let reader = Arc::new(self);
        let shared = Subscription::private(
            format!("{subscription}.cancel.{instance}"),
            TopicPattern::from(topic::TOOL_CANCEL),
            FLOW,
        );
        let own = Subscription::private(
            format!("{subscription}.worker.{instance}"),
            TopicPattern::from(topic::tool_worker(instance)),
            FLOW,
        );

        let shared = bus.subscribe(shared, Arc::clone(&reader) as Arc<dyn Handler>).await?;
        let own = bus.subscribe(own, Arc::clone(&reader) as Arc<dyn Handler>).await?;
        reader.queries.note_listening();
        Ok(ControlConsumers { shared, own })
    }

    fn read(&self, envelope: &Envelope) {
        if message::is::<ToolCancel>(envelope) {
            take_parsed(envelope, |cancel: ToolCancel| {
                self.cancels.cancel(&cancel.source, &cancel.tool_call_id);
            });
        } else if message::is::<CallQuery>(envelope) {
            take_parsed(envelope, |query| self.answer_query(&query, envelope));
        } else if message::is::<CallStatus>(envelope) {
            take_parsed(envelope, |status| self.queries.take_status(status));
        } else if message::is::<ReplyRequest>(envelope) {
            take_parsed(envelope, |request| self.send_again(&request));
        } else if message::is::<ToolAnswer>(envelope) {
            self.questions.take_answer(envelope);
        } else {
            tracing::debug!(message_type = envelope.message_type, "dropped a control message");
        }
    }

    /// Answers another worker. One that knows nothing of the call says nothing.
    fn answer_query(&self, query: &CallQuery, envelope: &Envelope) {
        let Some(reply_to) = envelope.reply_to.as_ref().filter(|_| !self.queries.is_own(query))
        else {
            return;
        };
        let state = match self.memory.find(&query.source, &query.correlation_id) {
            Some(KnownCall::Running) => CallState::Running,
            Some(KnownCall::Answered(_)) => CallState::Ended,
            None => return,
        };
        let correlation_id = query.correlation_id.clone();
        self.outbox.post_notification(reply_to, &CallStatus { correlation_id, state });
    }

    /// Sends replies once more that their caller may have missed.
    fn send_again(&self, request: &ReplyRequest) {
        for correlation_id in request.correlation_ids.iter().take(REPLIES_MAX) {
            if let Some(KnownCall::Answered(answer)) =
                self.memory.find(&request.source, correlation_id)
            {
                self.outbox.send_again(answer);
            }
        }
    }
}

impl Handler for ControlReader {
    fn handle(&self, delivery: Delivery) -> BoxFuture<'_, Disposition> {
        self.read(&delivery.envelope);
        Box::pin(std::future::ready(Disposition::Ack))
    }

    fn on_resubscribed(&self) {
        self.queries.note_listening();
    }
}

impl ControlConsumers {
    pub(super) async fn stop(self) {
        tokio::join!(self.shared.stop(Duration::ZERO), self.own.stop(Duration::ZERO));
    }
}

/// Reads a message and takes it; one that cannot be read is dropped.
fn take_parsed<M: Message>(envelope: &Envelope, take: impl FnOnce(M)) {
    match json::read(&envelope.body) {
        Ok(message) => take(message),
        Err(error) => tracing::warn!(%error, "dropped a malformed {}", M::TYPE),
    }
}
