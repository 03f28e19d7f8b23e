//! Progress of a call, on its way back to whoever waits for it.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;
use toolbus_wire::message::toolbus::ToolProgress;

/// Where progress goes. It may be lost, and sending it never blocks. Clones are the same, and
/// remember when the call last got further.
#[derive(Clone, Default)]
pub struct Progress {
    sink: Option<Arc<Sink>>,
}

struct Sink {
    last_step: Mutex<Option<Instant>>,
    send: Box<dyn Fn(ToolProgress) + Send + Sync>,
}

impl Progress {
    /// Progress that nobody hears.
    #[must_use]
    pub const fn none() -> Self {
        Self { sink: None }
    }

    /// Progress that `sink` hears. It is called on the task that has the news, so it must not
    /// block.
    #[must_use]
    pub fn to(sink: impl Fn(ToolProgress) + Send + Sync + 'static) -> Self {
        let sink = Sink { last_step: Mutex::default(), send: Box::new(sink) };
        Self { sink: Some(Arc::new(sink)) }
    }

    /// Whether anybody listens.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.sink.is_some()
    }

    /// Sends progress. The call's id and the sequence number are filled in on the way.
    pub fn send(&self, progress: ToolProgress) {
        if let Some(sink) = &self.sink {
            // A line of a log, or word that a call is held, is no step of its work.
            if progress.progress.is_some() {
                *sink.last_step.lock() = Some(Instant::now());
            }
            (sink.send)(progress);
        }
    }

    /// When the call last reported that it got further.
    pub(crate) fn last_step(&self) -> Option<Instant> {
        *self.sink.as_ref()?.last_step.lock()
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_wanted() { "Progress(wanted)" } else { "Progress(none)" })
    }
}
