//! A TCP connection to a broker, with TLS or without.
//!
//! The AMQP library gets every connection as a plain stream. Its own TLS would bring the readers of
//! key stores in PKCS #12, which no setting names.

use std::io;
use std::io::{IoSlice, IoSliceMut};
use std::pin::Pin;
use std::task::{Context, Poll};

use async_rs::Tokio;
use async_rs::traits::Reactor;
use futures_util::io::{AsyncRead, AsyncWrite};
use rustls_connector::{AsyncTlsStream, RustlsConnector, RustlsConnectorConfig};

/// A connection without TLS.
pub(crate) type PlainStream = <Tokio as Reactor>::TcpStream;

/// A connection to a broker.
pub(crate) enum Transport {
    /// A connection of `amqp://`.
    Plain(PlainStream),
    /// A connection of `amqps://`.
    Tls(Box<AsyncTlsStream<PlainStream>>),
}

/// Makes a connector that trusts the certificates of the system.
///
/// # Errors
/// When none of them can be read.
pub(crate) fn system_connector() -> io::Result<RustlsConnector> {
    RustlsConnectorConfig::new_with_native_certs()?.connector_with_no_client_auth()
}

impl Transport {
    /// Shakes hands with the host over a connection.
    ///
    /// # Errors
    /// When the host has no certificate that the connector trusts, or the connection ends.
    pub(crate) async fn encrypt(
        stream: PlainStream,
        connector: &RustlsConnector,
        host: &str,
    ) -> io::Result<Self> {
        let stream = connector.connect_async(host, stream).await?;
        Ok(Self::Tls(Box::new(stream)))
    }
}

impl AsyncRead for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        target: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, target),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, target),
        }
    }

    fn poll_read_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        targets: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read_vectored(context, targets),
            Self::Tls(stream) => Pin::new(stream).poll_read_vectored(context, targets),
        }
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_close(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_close(context),
            Self::Tls(stream) => Pin::new(stream).poll_close(context),
        }
    }
}

#[cfg(test)]
mod tests;
