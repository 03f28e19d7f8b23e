//! Finds out whether a server that lets calls time out is still there.
//!
//! A server that is merely slow is left alone: what it sends, whatever it is, shows that it is
//! there, and so does its answer to a probe. Servers that do one thing after the other answer the
//! probe only after the calls before it, so the probe waits for as long as any of those may take.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::model::{ClientRequest, ListToolsRequest, PingRequest};
use rmcp::service::ServiceError;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::request_sender::RequestSender;
use crate::failure::Failure;
use crate::http;

/// Calls in a row that time out or whose answer is lost, without a message of the server in
/// between, before it is probed.
const UNANSWERED_BEFORE_PROBE: u32 = 3;
/// How long a probe waits for an answer at least. Where calls are running it waits until the last
/// of them has to be answered, which their own limits bound.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// The calls of one connection, as far as they show whether the server is there.
#[derive(Default)]
pub(super) struct HangWatch {
    state: Mutex<WatchState>,
    /// Notified when the server has to be probed.
    probe_due: Notify,
}

#[derive(Default)]
struct WatchState {
    next_call: u64,
    /// When each running call has to be answered.
    deadlines: BTreeMap<u64, Instant>,
    /// Calls in a row without an answer.
    unanswered: u32,
    /// How many messages the server had sent at the last of those.
    messages: u64,
}

/// A call that is running. Dropped, it is over.
pub(super) struct RunningCall<'a> {
    watch: &'a HangWatch,
    number: u64,
}

impl HangWatch {
    /// Counts a call as running.
    pub(super) fn begin_call(&self, until: Instant) -> RunningCall<'_> {
        let mut state = self.state.lock();
        let number = state.next_call;
        state.next_call += 1;
        state.deadlines.insert(number, until);
        RunningCall { watch: self, number }
    }

    /// Counts a call that got no answer, when the server had sent this many messages.
    pub(super) fn record_unanswered(&self, messages: u64) {
        let mut state = self.state.lock();
        let has_sent_more = state.messages != messages;
        state.messages = messages;
        state.unanswered = if has_sent_more { 1 } else { state.unanswered + 1 };

        if state.unanswered >= UNANSWERED_BEFORE_PROBE {
            state.unanswered = 0;
            self.probe_due.notify_one();
        }
    }

    /// Waits until the server turns out to hang.
    pub(super) async fn wait_hung(&self, sender: &RequestSender) -> Failure {
        loop {
            self.probe_due.notified().await;
            tracing::debug!(server = sender.server, "probing MCP server: calls had no answer");

            if !self.probe(sender).await {
                return Failure::new("it answers neither calls nor a probe");
            }
        }
    }

    /// Asks the server for a sign of life, and says whether there was one.
    async fn probe(&self, sender: &RequestSender) -> bool {
        let messages = sender.wire.messages_received();
        let last_deadline = self.state.lock().deadlines.values().max().copied();
        let at_least = Instant::now() + PROBE_TIMEOUT;
        let until = last_deadline.map_or(at_least, |last| last.max(at_least));

        // Boxed: it is large, and part of the future that keeps a server connected.
        let probing = Box::pin(sender.send(probe_request(sender)));
        let is_answered = match timeout_at(until, probing).await {
            Ok(Ok(_) | Err(ServiceError::McpError(_))) => true,
            // An HTTP server that refuses a probe is there.
            Ok(Err(ServiceError::TransportSend(error))) => {
                !matches!(error.error.downcast_ref(), None | Some(http::Error::Client(_)))
            }
            Ok(Err(_)) | Err(_) => false,
        };
        is_answered || sender.wire.messages_received() != messages
    }
}

/// The cheapest request that every server of its era has to answer: the newer one has no ping.
fn probe_request(sender: &RequestSender) -> ClientRequest {
    if sender.is_stateless_protocol {
        ClientRequest::ListToolsRequest(ListToolsRequest {
            method: Default::default(),
            params: None,
            extensions: Default::default(),
        })
    } else {
        ClientRequest::PingRequest(PingRequest {
            method: Default::default(),
            extensions: Default::default(),
        })
    }
}

impl Drop for RunningCall<'_> {
    fn drop(&mut self) {
        self.watch.state.lock().deadlines.remove(&self.number);
    }
}

#[cfg(test)]
mod tests;
