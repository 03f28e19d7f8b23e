//! The body of a request, with a clock: a client that stalls or trickles loses its connection.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

use super::Timeouts;

/// How far the body of a connection's latest request is read.
#[derive(Debug, Default)]
pub(super) struct BodyProgress {
    unread: AtomicBool,
    timed_out: AtomicBool,
}

impl BodyProgress {
    /// Whether some of it is not read.
    pub(super) fn is_unread(&self) -> bool {
        self.unread.load(Ordering::Relaxed)
    }

    /// Whether the client took too long to send it.
    pub(super) fn is_timed_out(&self) -> bool {
        self.timed_out.load(Ordering::Relaxed)
    }
}

/// Why a body could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The connection broke, or what came is not HTTP.
    #[error(transparent)]
    Connection(#[from] hyper::Error),
    /// The client stalled or trickled.
    #[error("the client took too long to send the body of its request")]
    TimedOut,
}

/// A request's body. Its clock starts when it is first read, so a handler may take its time before;
/// what is never read is the connection's affair.
pub(super) struct RequestBody {
    body: Incoming,
    progress: Arc<BodyProgress>,
    timeouts: Timeouts,
    /// When all of it has to be there.
    end: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
    is_waiting: bool,
}

impl RequestBody {
    pub(super) fn new(body: Incoming, timeouts: Timeouts, progress: Arc<BodyProgress>) -> Self {
        progress.unread.store(!body.is_end_stream(), Ordering::Relaxed);
        progress.timed_out.store(false, Ordering::Relaxed);

        Self { body, progress, timeouts, end: None, timer: None, is_waiting: false }
    }

    /// Ready when the client has had time enough for the next part.
    fn poll_timeout(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let now = Instant::now();
        let end = *self.end.get_or_insert(now + self.timeouts.body_total);
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(end)));

        if !self.is_waiting {
            self.is_waiting = true;
            timer.as_mut().reset(end.min(now + self.timeouts.body_idle));
        }

        timer.as_mut().poll(context)
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            self.is_waiting = false;
            if frame.is_none() || self.body.is_end_stream() {
                self.progress.unread.store(false, Ordering::Relaxed);
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(Error::from)));
        }

        ready!(self.poll_timeout(context));
        self.progress.timed_out.store(true, Ordering::Relaxed);
        Poll::Ready(Some(Err(Error::TimedOut)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
