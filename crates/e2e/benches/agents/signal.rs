//! Moments that a part notes and the benchmark waits for, one operation at a time.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::sync::mpsc;

/// Moments that are kept until somebody looks.
const MOMENTS_MAX: usize = 64;
/// How long something may take that has to come.
const SIGNAL_TIMEOUT: Duration = Duration::from_secs(60);

/// Notes moments. Clones are the same.
#[derive(Clone)]
pub(crate) struct Signal(mpsc::Sender<Instant>);

/// Waits for them.
pub(crate) struct Moments(mpsc::Receiver<Instant>);

/// A signal, and where its moments come.
pub(crate) fn signal() -> (Signal, Moments) {
    let (sender, receiver) = mpsc::channel(MOMENTS_MAX);
    (Signal(sender), Moments(receiver))
}

impl Signal {
    /// Notes this moment.
    pub(crate) fn note(&self) {
        // Nobody may wait for it any more.
        let _ = self.0.try_send(Instant::now());
    }
}

impl Moments {
    /// The next moment that is noted.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Instant> {
        let moment = tokio::time::timeout(SIGNAL_TIMEOUT, self.0.recv()).await;
        moment.context("it did not come in time")?.context("nobody notes it any more")
    }
}
