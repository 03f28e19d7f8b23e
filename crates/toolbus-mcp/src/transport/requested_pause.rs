//! The pause that a server asks for: HTTP 429 or 503 with `Retry-After`. Until it is over, the
//! bridge sends that server no request, over none of its connections.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

use crate::http::{self, Error};

/// The longest pause that is kept. One that is longer is for the callers, who are told of it: a
/// server that names a day may be back in a minute.
const PAUSE_BACKOFF_MAX: Duration = Duration::from_secs(60);

/// A request was not sent, for the server has asked for a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it has asked for a pause, of which {} ms are left", left.as_millis())]
pub(crate) struct PauseRequested {
    /// What is left of the pause.
    pub(crate) left: Duration,
}

/// The pause of one server. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestedPause(Arc<Mutex<Option<Instant>>>);

impl RequestedPause {
    /// Refuses a request while a pause lasts.
    pub(super) fn check(&self) -> Result<(), Error> {
        match self.end() {
            Some(end) => {
                let left = end.saturating_duration_since(Instant::now());
                Err(std::io::Error::other(PauseRequested { left }).into())
            }
            None => Ok(()),
        }
    }

    /// Waits until no pause lasts, at most [`PAUSE_BACKOFF_MAX`] for each that is asked for.
    pub(super) async fn wait_over(&self) {
        while let Some(end) = self.end() {
            sleep_until(end).await;
        }
    }

    /// Begins a pause if the server asks for one with this error.
    pub(super) fn begin_if_asked(&self, error: &Error) {
        let Error::HttpStatus(status) = error else { return };
        if !matches!(status.status, 429 | 503) {
            return;
        }

        if let Some(wait) = http::retry_after(status, SystemTime::now()) {
            let end = Instant::now() + wait.min(PAUSE_BACKOFF_MAX);
            let mut current = self.0.lock();
            *current = (*current).max(Some(end));
        }
    }

    fn end(&self) -> Option<Instant> {
        (*self.0.lock()).filter(|end| *end > Instant::now())
    }
}

/// The pause inside an error of the transport, if it is that.
pub(crate) fn requested_pause(error: &Error) -> Option<PauseRequested> {
    match error {
        Error::Io(error) => error.get_ref()?.downcast_ref().copied(),
        _ => None,
    }
}
