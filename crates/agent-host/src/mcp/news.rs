//! What a client hears of a call while it runs.
//!
//! Progress goes to clients that asked for it by a token, in order, and all of it before the
//! result. It may be lost where a client takes it too slowly; nothing waits for it.

use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};
use tokio::sync::mpsc;
use toolbus_bus::Progress;
use toolbus_wire::message::toolbus::ToolProgress;

/// Pieces of news of one call that wait to be sent; more are lost.
const WAITING_MAX: usize = 32;

/// The news of one call.
pub(super) struct News {
    peer: Peer<RoleServer>,
    token: Option<ProgressToken>,
    sender: mpsc::Sender<ToolProgress>,
    waiting: mpsc::Receiver<ToolProgress>,
}

impl News {
    pub(super) fn of(context: &RequestContext<RoleServer>) -> Self {
        let (sender, waiting) = mpsc::channel(WAITING_MAX);
        let token = context.meta.get_progress_token();
        Self { peer: context.peer.clone(), token, sender, waiting }
    }

    /// Where the call's progress goes. Nowhere when the client wants none.
    pub(super) fn progress(&self) -> Progress {
        if self.token.is_none() {
            return Progress::none();
        }
        let sender = self.sender.clone();
        // A piece that finds no room is lost.
        Progress::to(move |news| drop(sender.try_send(news)))
    }

    /// Waits for the call, and tells the client what there is to tell meanwhile.
    pub(super) async fn tell_during<T>(self, call: impl Future<Output = T>) -> T {
        let Self { peer, token, sender, mut waiting } = self;
        let Some(token) = token else { return call.await };
        let mut call = std::pin::pin!(call);
        let mut told = Told { peer, token, last: None };
        // Both arms only wait; what was received is sent outside.
        let outcome = loop {
            let news = tokio::select! {
                biased;
                Some(news) = waiting.recv() => news,
                outcome = &mut call => break outcome,
            };
            told.tell(news).await;
        };
        drop(sender);
        while let Ok(news) = waiting.try_recv() {
            told.tell(news).await;
        }
        outcome
    }
}

struct Told {
    peer: Peer<RoleServer>,
    token: ProgressToken,
    last: Option<f64>,
}

impl Told {
    async fn tell(&mut self, news: ToolProgress) {
        let progress = match (news.progress, self.last) {
            // The protocol wants a number that grows. News that bring none count.
            (None, last) => last.map_or(0.0, |last| last + 1.0),
            (Some(progress), Some(last)) if progress <= last => return,
            (Some(progress), _) => progress,
        };
        self.last = Some(progress);
        let mut params = ProgressNotificationParam::new(self.token.clone(), progress);
        params.total = news.total;
        params.message = news.message.or(news.text);
        // A client that has gone needs no progress.
        let _ = self.peer.notify_progress(params).await;
    }
}
