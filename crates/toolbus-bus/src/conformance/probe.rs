//! A handler that writes down what it sees and answers as it is told.

use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::{Semaphore, SemaphorePermit, watch};

use crate::{Delivery, Disposition, Handler};

/// What a probe does with a message once it has written it down.
pub(super) enum Act {
    /// Answers at once.
    Answer(Disposition),
    /// Waits until the probe is opened, and then acks.
    Hold,
}

/// A message as a probe saw it.
#[derive(Clone)]
pub(super) struct Seen {
    pub(super) delivery: Delivery,
}

impl Seen {
    /// The body as text.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.delivery.envelope.body).into_owned()
    }
}

/// What a probe has seen and done so far.
#[derive(Default)]
pub(super) struct State {
    pub(super) seen: Vec<Seen>,
    /// Handlers that run now, and the most that ever did.
    pub(super) running: usize,
    pub(super) most_running: usize,
    /// Handlers that came to their end.
    pub(super) answered: usize,
    /// Handlers that were dropped before it.
    pub(super) dropped: usize,
}

/// A handler under observation.
pub(super) struct Probe {
    script: Box<dyn Fn(&Delivery) -> Act + Send + Sync>,
    patience: Duration,
    state: watch::Sender<State>,
    /// One permit for each handler that may end; closed, all may.
    gate: Semaphore,
}

impl Probe {
    pub(super) fn new(
        script: impl Fn(&Delivery) -> Act + Send + Sync + 'static,
        patience: Duration,
    ) -> Self {
        Self {
            script: Box::new(script),
            patience,
            state: watch::Sender::default(),
            gate: Semaphore::new(0),
        }
    }

    /// Lets every message go that is held, and those that come.
    pub(super) fn open(&self) {
        self.gate.close();
    }

    /// Lets one message go.
    pub(super) fn open_for_one(&self) {
        self.gate.add_permits(1);
    }

    /// Waits until the condition holds, now or later.
    pub(super) async fn until(&self, what: &str, mut condition: impl FnMut(&State) -> bool) {
        let mut states = self.state.subscribe();
        let wait = states.wait_for(|state| condition(state));
        if tokio::time::timeout(self.patience, wait).await.is_err() {
            panic!("{what}: not within {:?}; {}", self.patience, self.summary());
        }
    }

    /// Waits until at least so many messages have come, and gives all that have.
    pub(super) async fn received(&self, at_least: usize) -> Vec<Seen> {
        let what = format!("{at_least} messages should have come");
        self.until(&what, |state| state.seen.len() >= at_least).await;
        self.state.borrow().seen.clone()
    }

    /// Waits until at least so many handlers have ended.
    pub(super) async fn answered(&self, at_least: usize) {
        let what = format!("{at_least} handlers should have ended");
        self.until(&what, |state| state.answered >= at_least).await;
    }

    /// Forgets what has come so far, but not how many handlers there were.
    pub(super) fn forget(&self) {
        self.state.send_modify(|state| state.seen.clear());
    }

    /// Looks at what has happened so far.
    pub(super) fn look<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.state.borrow())
    }

    /// The texts of the messages that have come so far.
    pub(super) fn texts(&self) -> Vec<String> {
        self.look(|state| texts(&state.seen))
    }

    fn summary(&self) -> String {
        self.look(|state| {
            let State { seen, running, most_running, answered, dropped } = state;
            format!(
                "{} came, {running} run, {most_running} ran at once, {answered} ended, \
                 {dropped} were dropped; the last that came: {:?}",
                seen.len(),
                seen.last().map(|last| last.text().chars().take(40).collect::<String>()),
            )
        })
    }
}

impl Handler for Probe {
    fn handle(&self, delivery: Delivery) -> BoxFuture<'_, Disposition> {
        Box::pin(async move {
            let act = (self.script)(&delivery);
            let mut run = Run::begin(&self.state, delivery);
            let disposition = match act {
                Act::Answer(disposition) => {
                    // A chance for another handler to begin, where that is not forbidden.
                    tokio::task::yield_now().await;
                    disposition
                }
                Act::Hold => {
                    // An error says that the gate is open for good.
                    let _ = self.gate.acquire().await.map(SemaphorePermit::forget);
                    Disposition::Ack
                }
            };

            run.ended = true;
            disposition
        })
    }
}

/// One handler that runs.
struct Run<'a> {
    state: &'a watch::Sender<State>,
    ended: bool,
}

impl<'a> Run<'a> {
    fn begin(state: &'a watch::Sender<State>, delivery: Delivery) -> Self {
        state.send_modify(|state| {
            state.seen.push(Seen { delivery });
            state.running += 1;
            state.most_running = state.most_running.max(state.running);
        });
        Self { state, ended: false }
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        self.state.send_modify(|state| {
            state.running -= 1;
            if self.ended {
                state.answered += 1;
            } else {
                state.dropped += 1;
            }
        });
    }
}

/// The texts of messages, in their order.
pub(super) fn texts(seen: &[Seen]) -> Vec<String> {
    seen.iter().map(Seen::text).collect()
}

/// The same texts in an order of their own, for where the order does not matter.
pub(super) fn sorted(mut texts: Vec<String>) -> Vec<String> {
    texts.sort();
    texts
}
