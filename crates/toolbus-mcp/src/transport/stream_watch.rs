//! Watches the event stream of a connection over streamable HTTP, on which a server reports what
//! nobody has asked for.
//!
//! rmcp opens it again when it breaks off, a few times; after that requests go on without it, and
//! what the server reports is lost without a word. So a stream that was open and is given up counts
//! as the end of the connection. A server that refuses it from the beginning has none to offer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use rmcp::transport::common::client_side_sse::SseRetryPolicy;
use rmcp::transport::streamable_http_client::SseError;
use sse_stream::Sse;
use tokio_util::sync::CancellationToken;

use crate::http::Error;

/// How often a broken event stream is opened again before it counts as lost.
const STREAM_RETRIES_MAX: usize = 4;
/// The first pause before that; each pause after is twice as long.
const STREAM_RETRY_BACKOFF: Duration = Duration::from_millis(250);
/// How rmcp begins the text of its error for an event that is too long, after which it does not
/// open the stream again.
const TOO_LONG_TEXT: &str = "SSE event exceeded";

pub(super) type EventStream = BoxStream<'static, Result<Sse, SseError>>;

/// The event streams of one connection. Clones are the same.
#[derive(Debug, Clone)]
pub(super) struct StreamWatch {
    /// Fires when a stream that was open is given up.
    lost: CancellationToken,
    has_opened: Arc<AtomicBool>,
}

impl StreamWatch {
    pub(super) fn new(lost: CancellationToken) -> Self {
        Self { lost, has_opened: Arc::default() }
    }

    /// The pause after which to open the stream again that could not be opened at first. rmcp gives
    /// up at the first failure of the first attempt, which may be one of the network.
    pub(super) fn first_retry(
        &self,
        opened: &Result<EventStream, Error>,
        failed: usize,
    ) -> Option<Duration> {
        let is_transient = match opened {
            Err(Error::HttpStatus(_)) => true,
            Err(Error::Client(error)) => !error.is_status(),
            _ => false,
        };
        let is_first = !self.has_opened.load(Ordering::Acquire);
        if is_transient && is_first { retry_backoff(failed) } else { None }
    }

    /// Notes how an attempt to open a stream has ended, and watches the stream.
    pub(super) fn watch(&self, opened: Result<EventStream, Error>) -> Result<EventStream, Error> {
        match opened {
            Ok(stream) => {
                self.has_opened.store(true, Ordering::Release);
                let watch = self.clone();
                Ok(stream.inspect(move |event| watch.note_event(event)).boxed())
            }
            Err(error) => {
                // rmcp tries no more after these.
                if matches!(
                    error,
                    Error::ServerDoesNotSupportSse
                        | Error::AuthRequired(_)
                        | Error::InsufficientScope(_)
                ) {
                    self.give_up();
                }
                Err(error)
            }
        }
    }

    fn note_event(&self, event: &Result<Sse, SseError>) {
        if let Err(SseError::Body(error)) = event
            && error.to_string().starts_with(TOO_LONG_TEXT)
        {
            self.give_up();
        }
    }

    fn give_up(&self) {
        if self.has_opened.load(Ordering::Acquire) {
            self.lost.cancel();
        }
    }
}

impl SseRetryPolicy for StreamWatch {
    fn retry(&self, failed: usize) -> Option<Duration> {
        let backoff = retry_backoff(failed);
        if backoff.is_none() {
            self.give_up();
        }
        backoff
    }
}

fn retry_backoff(failed: usize) -> Option<Duration> {
    let doubled = 1 << failed.min(STREAM_RETRIES_MAX);
    (failed < STREAM_RETRIES_MAX).then(|| STREAM_RETRY_BACKOFF * doubled)
}
