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
    tasks: Mutex<HashMap<TaskKey, Said>>,
}

/// What one task says.
struct Said {
    sender: broadcast::Sender<Arc<str>>,
    /// What it said last, while it is done.
    last: Option<Arc<str>>,
}

impl Default for Said {
    fn default() -> Self {
        Self { sender: broadcast::channel(PROGRESS_MAX).0, last: None }
    }
}

/// Hears the progress of one task.
pub(crate) struct Listening {
    hub: Arc<ProgressHub>,
    key: TaskKey,
    /// What was said last before it was listened.
    before: Option<Arc<str>>,
    progress: broadcast::Receiver<Arc<str>>,
}

impl ProgressHub {
    pub(crate) fn listen(self: &Arc<Self>, key: &TaskKey) -> Listening {
        let mut tasks = self.tasks.lock();
        let said = tasks.entry(key.clone()).or_default();
        let (progress, before) = (said.sender.subscribe(), said.last.clone());
        Listening { hub: Arc::clone(self), key: key.clone(), before, progress }
    }

    /// What a task said last that is done here.
    pub(crate) fn last(&self, key: &TaskKey) -> Option<Arc<str>> {
        self.tasks.lock().get(key)?.last.clone()
    }

    fn say(&self, key: &TaskKey, text: &str) {
        let text: Arc<str> = cut(text.to_owned(), PROGRESS_BYTES_MAX).into();
        let mut tasks = self.tasks.lock();
        let said = tasks.entry(key.clone()).or_default();
        said.last = Some(Arc::clone(&text));
        // Nobody may listen.
        let _ = said.sender.send(text);
    }

    /// Forgets what a task has said that is not done here any more.
    fn forget(&self, key: &TaskKey) {
        let mut tasks = self.tasks.lock();
        let Some(said) = tasks.get_mut(key) else { return };
        said.last = None;
        if said.sender.receiver_count() == 0 {
            tasks.remove(key);
        }
    }
}

impl Listening {
    /// The next progress. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Arc<str> {
        if let Some(text) = self.before.take() {
            return text;
        }
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
        if self.before.is_some() {
            return self.before.take();
        }
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
        let mut tasks = self.hub.tasks.lock();
        let is_last = |said: &Said| said.sender.receiver_count() <= 1 && said.last.is_none();
        if tasks.get(&self.key).is_some_and(is_last) {
            tasks.remove(&self.key);
        }
    }
}

/// Tells how a task is going to those who listen.
pub(crate) struct HttpProgress<'a> {
    pub(crate) hub: &'a ProgressHub,
    pub(crate) key: &'a TaskKey,
}

impl Drop for HttpProgress<'_> {
    fn drop(&mut self) {
        self.hub.forget(self.key);
    }
}

impl TaskProgress for HttpProgress<'_> {
    fn say<'a>(&'a self, text: &'a str) -> BoxFuture<'a, ()> {
        self.hub.say(self.key, text);
        Box::pin(std::future::ready(()))
    }
}
