//! The way into a worker from another door than the bus, and what is heard there of tasks that are
//! under way in this process.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::broadcast;

use crate::TaskProgress;
use crate::event::cut;
use crate::received::{ReceivedTasks, TaskKey};
use crate::worker::Inner;

/// Longest progress that is told, in bytes.
const PROGRESS_BYTES_MAX: usize = 4 << 10;
/// Most progress that waits for one who listens. What is over that is left out, the oldest first.
const PROGRESS_MAX: usize = 32;

/// Has a [`Worker`](crate::Worker) do tasks that did not come over the bus. Clones are the same.
#[derive(Clone)]
pub struct TaskIntake(Arc<Inner>);

impl TaskIntake {
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        Self(inner)
    }

    pub(crate) fn received(&self) -> &ReceivedTasks {
        self.0.received()
    }

    pub(crate) fn worker(&self) -> &Inner {
        &self.0
    }

    /// Waits up to `grace` for the tasks of clients over HTTP that this process does, and takes up
    /// no more.
    pub(crate) async fn drain(&self, grace: Duration) {
        self.0.drain_http(grace).await;
    }
}

/// What tasks of clients over HTTP say while this process does them.
#[derive(Default)]
pub(crate) struct ProgressHub {
    heard: Mutex<HashMap<TaskKey, broadcast::Sender<Arc<str>>>>,
}

/// Hears the progress of one task.
pub(crate) struct Listening {
    hub: Arc<ProgressHub>,
    key: TaskKey,
    progress: broadcast::Receiver<Arc<str>>,
}

impl ProgressHub {
    pub(crate) fn listen(self: &Arc<Self>, key: &TaskKey) -> Listening {
        let mut heard = self.heard.lock();
        let sender = heard.entry(key.clone());
        let sender = sender.or_insert_with(|| broadcast::channel(PROGRESS_MAX).0);
        let progress = sender.subscribe();
        Listening { hub: Arc::clone(self), key: key.clone(), progress }
    }

    fn say(&self, key: &TaskKey, text: &str) {
        if let Some(sender) = self.heard.lock().get(key) {
            // Nobody may listen any more.
            let _ = sender.send(cut(text.to_owned(), PROGRESS_BYTES_MAX).into());
        }
    }
}

impl Listening {
    /// The next progress. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Arc<str> {
        loop {
            match self.progress.recv().await {
                Ok(text) => return text,
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            }
        }
    }

    /// What is there already.
    pub(crate) fn try_next(&mut self) -> Option<Arc<str>> {
        loop {
            match self.progress.try_recv() {
                Ok(text) => return Some(text),
                Err(broadcast::error::TryRecvError::Lagged(_)) => {}
                Err(_) => return None,
            }
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut heard = self.hub.heard.lock();
        if heard.get(&self.key).is_some_and(|sender| sender.receiver_count() <= 1) {
            heard.remove(&self.key);
        }
    }
}

/// Tells how a task is going to those who listen.
pub(crate) struct HttpProgress<'a> {
    pub(crate) hub: &'a ProgressHub,
    pub(crate) key: &'a TaskKey,
}

impl TaskProgress for HttpProgress<'_> {
    fn say<'a>(&'a self, text: &'a str) -> BoxFuture<'a, ()> {
        self.hub.say(self.key, text);
        Box::pin(std::future::ready(()))
    }
}
