//! A stream that makes harmless what a foreign client wrote around a message, before the AMQP
//! library reads it.
//!
//! The library gives up the connection over a text that is not UTF-8, and its stack over a table
//! that is nested deep enough; the broker carries both. Such a message goes back to its queue as
//! the connection ends and is there again on the next one, so it would keep every process that
//! consumes the queue from ever working again. Here its frame is [repaired](repair) on the way in.
//!
//! The same holds for properties in a frame that is longer than was agreed, which the broker sends
//! all the same: they are left out, and the message is [marked](OVERSIZED). Nothing else is
//! changed.

#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod greeting;
mod repair;

use std::io;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use async_rs::traits::Reactor;
use async_rs::util::RuntimeParts;
use async_rs::{Runtime, Tokio};
use futures_util::io::{AsyncRead, AsyncWrite};

use crate::transport::Transport;
pub(crate) use greeting::Greeting;
pub(crate) use repair::OVERSIZED;

/// What the library runs on: tokio, with guarded streams.
pub(crate) type FilteringRuntime = Runtime<RuntimeParts<Tokio, FilteringReactor>>;

/// Bytes that are read at once.
const CHUNK_BYTES: usize = 64 << 10;
/// Largest frame that is looked into, where more was agreed; a larger one passes as it is.
const INSPECTED_BYTES_MAX: usize = 1 << 20;
/// Type, channel and size before the payload of a frame; and the octet after it.
const HEAD_BYTES: usize = 7;
const END_BYTES: usize = 1;

/// The current tokio runtime, with guarded streams.
pub(crate) fn runtime() -> FilteringRuntime {
    RuntimeParts::new(Tokio::current(), FilteringReactor(Tokio::current())).into()
}

/// A stream from the broker whose frames are repaired as they come.
pub(crate) struct FilteredStream<S> {
    inner: S,
    buffer: Box<[u8]>,
    /// What the reader has not had yet: `taken..passed` may be handed out, `passed..filled` not
    /// yet, because its frame is not complete.
    taken: usize,
    passed: usize,
    filled: usize,
    /// How much of what comes next belongs to a frame that passes as it is.
    passing: usize,
    /// How much of what comes next is left out.
    leaving_out: usize,
    /// Longest frame that was agreed on.
    frame_bytes_max: usize,
    /// Where the broker's greeting goes, until it has come.
    greeting: Option<Greeting>,
}

impl<S> FilteredStream<S> {
    pub(crate) fn new(inner: S, frame_bytes_max: usize) -> Self {
        let buffer = vec![0; CHUNK_BYTES].into_boxed_slice();

        Self {
            inner,
            buffer,
            taken: 0,
            passed: 0,
            filled: 0,
            passing: 0,
            leaving_out: 0,
            frame_bytes_max,
            greeting: None,
        }
    }

    /// The same stream, which notes how the broker introduces itself.
    pub(crate) fn noting_greeting(mut self, greeting: Greeting) -> Self {
        self.greeting = Some(greeting);
        self
    }

    /// Looks at what has come in, frame by frame.
    fn filter_frames(&mut self) {
        while self.passed < self.filled {
            if self.passing > 0 {
                let length = self.passing.min(self.filled - self.passed);
                self.passing -= length;
                self.passed += length;
                continue;
            }

            if self.leaving_out > 0 {
                let end = self.filled.min(self.passed.saturating_add(self.leaving_out));
                self.leaving_out -= end - self.passed;
                self.buffer.copy_within(end..self.filled, self.passed);
                self.filled -= end - self.passed;
                continue;
            }

            let unread = &mut self.buffer[self.passed..self.filled];
            let Some(head) = unread.first_chunk::<HEAD_BYTES>() else { return };
            let [kind, _, _, size @ ..] = *head;
            let size = usize::try_from(u32::from_be_bytes(size)).unwrap_or(usize::MAX);
            let length = size.saturating_add(HEAD_BYTES + END_BYTES);
            let of_texts = repair::Kind::of(kind);

            if of_texts == Some(repair::Kind::Header) && length > self.frame_bytes_max {
                let Some(beginning) = unread.first_chunk_mut() else { return };
                *beginning = repair::without_properties(*beginning);
                self.passed += beginning.len();
                self.leaving_out = length - beginning.len();
                continue;
            }

            let Some(kind) = of_texts.filter(|_| length <= INSPECTED_BYTES_MAX) else {
                self.passing = if repair::is_frame(kind) { length } else { usize::MAX };
                continue;
            };

            let Some(frame) = unread.get_mut(..length) else { return };
            if let Some(greeting) = self.greeting.take() {
                greeting.read(&mut frame[HEAD_BYTES..HEAD_BYTES + size]);
            }
            repair::repair_frame(kind, &mut frame[HEAD_BYTES..HEAD_BYTES + size]);
            self.passed += length;
        }
    }

    /// Makes room behind what has come in: a whole frame at the most, and some more.
    fn make_room(&mut self) {
        self.buffer.copy_within(self.taken..self.filled, 0);
        self.filled -= self.taken;
        self.passed -= self.taken;
        self.taken = 0;
        if self.filled == self.buffer.len() {
            // Only a frame that is not complete fills the buffer, and it is not larger than that.
            let mut larger = vec![0; INSPECTED_BYTES_MAX + CHUNK_BYTES].into_boxed_slice();
            larger[..self.filled].copy_from_slice(&self.buffer);
            self.buffer = larger;
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for FilteredStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        target: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        while this.taken == this.passed {
            this.make_room();
            let room = &mut this.buffer[this.filled..];
            let length = ready!(Pin::new(&mut this.inner).poll_read(context, room))?;

            if length == 0 {
                // The rest is no whole frame, and the reader is to say so.
                this.passed = this.filled;
                break;
            }

            this.filled += length;
            this.filter_frames();
        }

        let length = target.len().min(this.passed - this.taken);
        target[..length].copy_from_slice(&this.buffer[this.taken..this.taken + length]);
        this.taken += length;

        Poll::Ready(Ok(length))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for FilteredStream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write_vectored(context, slices)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(context)
    }

    fn poll_close(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_close(context)
    }
}

/// Tokio's reactor, whose TCP streams are guarded.
#[derive(Debug, Clone)]
pub(crate) struct FilteringReactor(Tokio);

impl Reactor for FilteringReactor {
    type TcpStream = FilteredStream<Transport>;
    type Sleep = <Tokio as Reactor>::Sleep;

    fn register<H>(
        &self,
        socket: H,
    ) -> io::Result<impl AsyncRead + AsyncWrite + Send + Unpin + 'static>
    where
        H: io::Read + io::Write + AsFd + AsRawFd + Send + 'static,
    {
        self.0.register(socket)
    }

    fn sleep(&self, duration: Duration) -> Self::Sleep {
        self.0.sleep(duration)
    }

    fn interval(
        &self,
        duration: Duration,
    ) -> impl futures_util::Stream<Item = Instant> + Send + 'static {
        self.0.interval(duration)
    }

    fn tcp_connect_addr(
        &self,
        address: SocketAddr,
    ) -> impl Future<Output = io::Result<Self::TcpStream>> + Send + 'static {
        let connecting = self.0.tcp_connect_addr(address);
        async move { Ok(FilteredStream::new(Transport::Plain(connecting.await?), usize::MAX)) }
    }
}

#[cfg(test)]
mod tests;
