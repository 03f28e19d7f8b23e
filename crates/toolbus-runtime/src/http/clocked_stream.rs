//! The stream of a connection, with a clock for writing: a client that takes nothing of its answer
//! loses its connection.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

use super::waiting::Connection;

/// A stream whose writes fail once the client has taken nothing for a while.
pub(super) struct ClockedStream {
    stream: TcpStream,
    timeout: Duration,
    connection: Arc<Connection>,
    /// Runs while the client takes nothing.
    clock: Option<Pin<Box<Sleep>>>,
}

impl ClockedStream {
    pub(super) fn new(stream: TcpStream, timeout: Duration, connection: Arc<Connection>) -> Self {
        Self { stream, timeout, connection, clock: None }
    }

    pub(super) fn into_inner(self) -> TcpStream {
        self.stream
    }

    fn clock<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        self.connection.is_writing.store(written.is_pending(), Ordering::Relaxed);
        if written.is_ready() {
            self.clock = None;
            return written;
        }
        let timeout = self.timeout;
        let clock = self.clock.get_or_insert_with(|| Box::pin(sleep(timeout)));
        clock.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for ClockedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for ClockedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.clock(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.clock(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
