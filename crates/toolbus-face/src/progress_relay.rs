//! Relays the progress and log lines of a running call to its client.
//!
//! Progress goes to clients that asked for it by a token, in order, and all of it before the
//! result. Lines of a log are client as such to clients that hear them, and as progress to others.
//! Either may be lost where a client takes it too slowly; nothing waits for it.

use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};
use tokio::sync::mpsc;
use toolbus_bus::Progress;
use toolbus_wire::message::toolbus::ToolProgress;

use crate::log::Threshold;

/// Pieces of news of one call that wait to be client; more are lost.
const QUEUED_PROGRESS_MAX: usize = 32;

/// The news of one call.
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

    /// Where the call's progress goes. Nowhere when the client wants no news.
    pub(crate) fn progress(&self) -> Progress {
        let wants_progress = self.token.is_some();
        if !wants_progress && !self.threshold.is_enabled() {
            return Progress::none();
        }
        let sender = self.sender.clone();
        // A piece that finds no room is lost.
        Progress::to(move |news| {
            if wants_progress || news.level.is_some() {
                drop(sender.try_send(news));
            }
        })
    }

    /// Waits for the call, and tells the client what there is to tell meanwhile.
    pub(crate) async fn relay_during<T>(self, call: impl Future<Output = T>) -> T {
        let Self { peer, token, threshold, sender, mut waiting } = self;
        let mut call = std::pin::pin!(call);
        let mut client = ProgressSender { peer, token, threshold, last: None };
        // Both arms only wait; what was received is client outside.
        let outcome = loop {
            let news = tokio::select! {
                biased;
                Some(news) = waiting.recv() => news,
                outcome = &mut call => break outcome,
            };
            client.send(news).await;
        };
        drop(sender);
        while let Ok(news) = waiting.try_recv() {
            client.send(news).await;
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
    async fn send(&mut self, news: ToolProgress) {
        if self.threshold.notify(&self.peer, &news).await {
            return;
        }
        let Some(token) = self.token.clone() else { return };
        let progress = match (news.progress, self.last) {
            // The protocol wants a number that grows. ProgressRelay that bring none count.
            (None, last) => last.map_or(0.0, |last| last + 1.0),
            (Some(progress), Some(last)) if progress <= last => return,
            (Some(progress), _) => progress,
        };
        self.last = Some(progress);
        let mut params = ProgressNotificationParam::new(token, progress);
        params.total = news.total;
        params.message = news.message.or(news.text);
        // A client that has gone needs no progress.
        let _ = self.peer.notify_progress(params).await;
    }
}
