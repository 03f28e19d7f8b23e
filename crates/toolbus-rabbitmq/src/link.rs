//! One connection to the broker: how it is opened, within a limit, and how it is ended for sure.
//!
//! The AMQP library gives a connection a thread of its own, which reads and writes the socket, and
//! runs the rest on the runtime that opened it. Its own recovery stays off: the
//! [supervisor](crate::supervisor) makes a new connection instead, so that what was in flight on
//! the old one has a definite end.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use lapin::tcp::{AsyncTcpStream, OwnedTLSConfig};
use lapin::uri::AMQPScheme;
use lapin::{Connection, ConnectionProperties};
use parking_lot::Mutex;

use crate::{Config, ConnectError};

/// How long a goodbye may take before the socket is shut.
const GOODBYE: Duration = Duration::from_secs(2);

/// An open connection. Dropped, it is closed; only [`Link::close`] waits for that.
pub(crate) struct Link {
    pub(crate) connection: Connection,
    socket: Socket,
}

impl Link {
    /// Connects and shakes hands, once.
    pub(crate) async fn open(config: &Config) -> Result<Self, ConnectError> {
        let address = &config.address;
        let socket = Socket::default();
        let properties = ConnectionProperties::default()
            .with_connection_name(config.connection_name.as_str().into());
        let opening = Connection::connector(
            address.uri(config.heartbeat),
            lapin::runtime::default_runtime().map_err(|error| ConnectError::of(&error, address))?,
            {
                let (socket, limit) = (socket.clone(), config.attempt);
                async move |uri, runtime| {
                    silence_this_thread();
                    let host = (uri.authority.host.clone(), uri.authority.port);
                    let stream = async {
                        let host = runtime.to_socket_addrs(host);
                        let stream = AsyncTcpStream::connect(&runtime, host).await?;
                        if let AsyncTcpStream::Plain(stream) = &stream {
                            socket.keep(TcpStream::from(
                                stream.get_ref().as_fd().try_clone_to_owned()?,
                            ));
                        }
                        match uri.scheme {
                            AMQPScheme::AMQP => Ok(stream),
                            AMQPScheme::AMQPS => {
                                let tls = OwnedTLSConfig::default();
                                stream.into_tls(&uri.authority.host, tls.as_ref()).await
                            }
                        }
                    };
                    // On the library's thread, which nothing else would stop.
                    let stream = tokio::time::timeout(limit, stream);
                    Ok(stream.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?)
                }
            },
            properties,
        );
        match tokio::time::timeout(config.attempt, opening).await {
            Ok(Ok(connection)) => Ok(Self { connection, socket }),
            Ok(Err(error)) => Err(ConnectError::of(&error, address)),
            Err(_) => {
                // The library's thread waits for an answer that does not come; this ends it.
                socket.shut();
                Err(ConnectError::TimedOut { address: address.to_string(), limit: config.attempt })
            }
        }
    }

    /// Most bytes that the properties and headers of a message may take: one frame carries them.
    pub(crate) fn frame_bytes_max(&self) -> usize {
        usize::try_from(self.connection.configuration().frame_max()).unwrap_or(usize::MAX)
    }

    /// Whether messages can flow, as far as the library knows.
    pub(crate) fn is_connected(&self) -> bool {
        self.connection.status().connected()
    }

    /// Says goodbye, and shuts the socket when that takes too long: a broker that is blocked or
    /// half dead does not answer.
    pub(crate) async fn close(&self) {
        if self.is_connected() {
            let goodbye = self.connection.close(200, "closed".into());
            let _ = tokio::time::timeout(GOODBYE, goodbye).await;
        }
        self.socket.shut();
    }
}

/// A second handle on the connection's socket. The library lends its own to nobody.
#[derive(Clone, Default)]
struct Socket(Arc<Mutex<Option<TcpStream>>>);

impl Socket {
    fn keep(&self, stream: TcpStream) {
        *self.0.lock() = Some(stream);
    }

    fn shut(&self) {
        if let Some(stream) = self.0.lock().take() {
            // It fails only when the socket is shut already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// Keeps the library's thread out of the log. It would write every message that no queue takes,
/// with headers and body, and what it says of errors is reported by whoever meets them.
fn silence_this_thread() {
    let nobody = tracing::Dispatch::none();
    // The guard would give the thread its voice back.
    std::mem::forget(tracing::dispatcher::set_default(&nobody));
}
