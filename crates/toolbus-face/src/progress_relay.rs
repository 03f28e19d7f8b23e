//! Relays the progress and log lines of a running call to its client.
//!
//! Progress goes to clients that asked for it by a token, in order, and all of it before the
//! result. Log lines are sent as such to clients that hear them, and as progress to others. Either
//! may be lost where a client takes it too slowly; nothing waits for it.

use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};
use tokio::sync::mpsc;
use toolbus_bus::Progress;
use toolbus_wire::message::toolbus::ToolProgress;

use crate::log::Threshold;

/// Progress and log lines of one call that wait to be sent; more are lost.
const QUEUED_PROGRESS_MAX: usize = 32;

/// The progress of one call, on its way to the client.
pub(crate) struct ProgressRelay {
    peer: Peer<RoleServer>,
    token: Option<ProgressToken>,
    threshold: Threshold,
    sender: mpsc::Sender<ToolProgress>,
    waiting: mpsc::Receiver<ToolProgress>,
}

impl ProgressRelay {
    pub(crate) fn of(context: &RequestContext<RoleServer>, threshold: Threshold) -> Self {
        let (sender, waiting) = mpsc::channel(QUEUED_PROGRESS_MAX);
        let token = context.meta.get_progress_token();
        Self { peer: context.peer.clone(), token, threshold, sender, waiting }
    }

    /// Where the call's progress goes. Nowhere when the client wants none.
    pub(crate) fn progress(&self) -> Progress {
        let wants_progress = self.token.is_some();
        if !wants_progress && !self.threshold.is_enabled() {
            return Progress::none();
        }

        let sender = self.sender.clone();
        // What finds no room is lost.
        Progress::to(move |progress| {
            if wants_progress || progress.level.is_some() {
                drop(sender.try_send(progress));
            }
        })
    }

    /// Waits for the call, and sends its progress to the client meanwhile.
    pub(crate) async fn relay_during<T>(self, call: impl Future<Output = T>) -> T {
        let Self { peer, token, threshold, sender, mut waiting } = self;
        let mut call = std::pin::pin!(call);
        let mut client = ProgressSender { peer, token, threshold, last: None };

        // Both arms only wait; what was received is sent outside the `select!`.
        let outcome = loop {
            let progress = tokio::select! {
                biased;
                Some(progress) = waiting.recv() => progress,
                outcome = &mut call => break outcome,
            };
            client.send(progress).await;
        };

        drop(sender);
        while let Ok(progress) = waiting.try_recv() {
            client.send(progress).await;
        }

        outcome
    }
}

struct ProgressSender {
    peer: Peer<RoleServer>,
    token: Option<ProgressToken>,
    threshold: Threshold,
    last: Option<f64>,
}

impl ProgressSender {
    async fn send(&mut self, progress: ToolProgress) {
        if self.threshold.notify(&self.peer, &progress).await {
            return;
        }
        let Some(token) = self.token.clone() else { return };

        let number = match (progress.progress, self.last) {
            // The protocol wants a number that grows. Progress without a number is counted.
            (None, last) => last.map_or(0.0, |last| last + 1.0),
            (Some(number), Some(last)) if number <= last => return,
            (Some(number), _) => number,
        };
        self.last = Some(number);

        let mut params = ProgressNotificationParam::new(token, number);
        params.total = progress.total;
        params.message = progress.message.or(progress.text);
        // A client that has gone needs no progress.
        let _ = self.peer.notify_progress(params).await;
    }
}
