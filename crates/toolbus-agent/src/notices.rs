//! Notices: what a session is told that no user says, such as the result of a task beside it.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{Notify, oneshot};
use toolbus_models::outside::OutsideText;

use crate::agent::TurnReport;
use crate::sessions::SessionRef;

/// Notices that wait for one turn to write them down. More wait for those.
const WAITING_MAX: usize = 4;

/// Something that happened beside a session, which its model is to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Its id. It is told once in a session, however often it comes.
    pub id: String,
    /// Text and source of the notice.
    pub text: OutsideText,
}

impl Notice {
    /// Creates a notice with this text, which is cleaned.
    #[must_use]
    pub fn new(id: impl Into<String>, from: &str, text: &str) -> Self {
        Self { id: id.into(), text: OutsideText::new(from, text) }
    }
}

/// How a session was told.
#[derive(Debug, Clone, PartialEq)]
pub enum Noticed {
    /// In the turn that was under way, or it had been told before.
    InTurn,
    /// It began a turn, which ended so.
    Turn(TurnReport),
}

/// The turns that are under way in this process. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct TurnsUnderWay(Arc<Inner>);

#[derive(Default)]
struct Inner {
    turns: Mutex<HashMap<SessionRef, Sender<Posted>>>,
    /// Told of each turn that begins.
    begun: Notify,
}

/// A notice on its way into a turn.
pub(crate) struct Posted {
    pub(crate) notice: Notice,
    /// Is told whether it was written down.
    pub(crate) taken: oneshot::Sender<bool>,
}

/// The notices for a turn. While it lives, the turn is under way.
pub(crate) struct Inbox {
    turns: TurnsUnderWay,
    at: SessionRef,
    post: Sender<Posted>,
    posted: Receiver<Posted>,
}

impl TurnsUnderWay {
    /// Begins a turn in a session.
    pub(crate) fn begin(&self, at: SessionRef) -> Inbox {
        let (post, posted) = channel(WAITING_MAX);
        self.0.turns.lock().insert(at.clone(), post.clone());
        self.0.begun.notify_waiters();
        Inbox { turns: self.clone(), at, post, posted }
    }

    /// Hands a notice to the turn of a session. `false`: there is none, or it takes no more.
    pub(crate) async fn post(&self, at: &SessionRef, notice: Notice) -> bool {
        let Some(post) = self.0.turns.lock().get(at).cloned() else { return false };
        let (taken, is_taken) = oneshot::channel();
        if post.send(Posted { notice, taken }).await.is_err() {
            return false;
        }
        // A turn that ends meanwhile says nothing.
        is_taken.await.unwrap_or(false)
    }

    /// Waits until a turn of the session is under way.
    pub(crate) async fn until_begun(&self, at: &SessionRef) {
        loop {
            let begun = self.0.begun.notified();
            if self.0.turns.lock().contains_key(at) {
                return;
            }
            begun.await;
        }
    }
}

impl Inbox {
    /// The next notice.
    pub(crate) async fn next(&mut self) -> Option<Posted> {
        self.posted.recv().await
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        let mut turns = self.turns.0.turns.lock();
        // The next turn may have begun before this one was put away.
        if turns.get(&self.at).is_some_and(|post| post.same_channel(&self.post)) {
            turns.remove(&self.at);
        }
    }
}
