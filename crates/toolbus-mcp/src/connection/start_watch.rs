//! Watches the start of a server, so that a person who waits for it sees what it is doing.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::transport::process::ChildMonitor;

/// How far the start of a server has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartStep {
    /// The program is being started, or the address connected to.
    Connect,
    /// The program runs and has not answered yet. It may be downloading.
    FirstAnswer,
    /// Its tools are being listed.
    ListTools,
}

/// The start of a server, as an operator sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartProgress {
    /// How far it has got.
    pub step: StartStep,
    /// For how long it has been starting.
    pub elapsed: Duration,
    /// How long it may take.
    pub limit: Duration,
    /// The last line that the program wrote to its stderr, without credentials. For the operator
    /// and not for models.
    pub last_words: Option<String>,
}

/// Follows one attempt to start a server.
pub(crate) struct StartWatch {
    began: Instant,
    limit: Duration,
    state: Mutex<WatchState>,
}

struct WatchState {
    step: StartStep,
    child: Option<Arc<ChildMonitor>>,
}

impl StartStep {
    /// Its name in the status.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::FirstAnswer => "first_answer",
            Self::ListTools => "list_tools",
        }
    }
}

impl StartWatch {
    /// Follows an attempt that begins now and may take as long as `limit`.
    pub(crate) fn begin(limit: Duration) -> Self {
        let state = WatchState { step: StartStep::Connect, child: None };
        Self { began: Instant::now(), limit, state: Mutex::new(state) }
    }

    /// When the attempt began.
    pub(crate) fn began(&self) -> Instant {
        self.began
    }

    /// How long the attempt may take.
    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    /// Notes that the program runs.
    pub(crate) fn set_child(&self, child: &Arc<ChildMonitor>) {
        let child = Some(Arc::clone(child));
        *self.state.lock() = WatchState { step: StartStep::FirstAnswer, child };
    }

    /// Notes that the server has answered, and is asked for its tools.
    pub(crate) fn set_listing(&self) {
        self.state.lock().step = StartStep::ListTools;
    }

    /// How the start is getting on.
    pub(crate) fn progress(&self) -> StartProgress {
        let state = self.state.lock();
        StartProgress {
            step: state.step,
            elapsed: self.began.elapsed(),
            limit: self.limit,
            last_words: state.child.as_ref().and_then(|child| child.last_words()),
        }
    }
}
