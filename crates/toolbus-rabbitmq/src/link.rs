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

use async_rs::traits::Reactor as _;
use lapin::tcp::AsyncTcpStream;
use lapin::uri::{AMQPScheme, AMQPUri};
use lapin::{Connection, ConnectionProperties};
use parking_lot::Mutex;

use crate::config::Address;
use crate::frame_filter::{self, FilteredStream, Greeting};
use crate::transport::{Transport, system_connector};
use crate::{Config, ConnectError, password};

/// How long a goodbye may take before the socket is shut.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// An open connection. Dropped, it is closed; only [`Link::close`] waits for that.
pub(crate) struct Link {
    pub(crate) connection: Connection,
    greeting: Greeting,
    socket: Socket,
}

impl Link {
    /// Connects to a node and shakes hands, once and within `limit`.
    pub(crate) async fn open(
        config: &Config,
        address: &Address,
        limit: Duration,
    ) -> Result<Self, ConnectError> {
        let mut uri = address.uri(config.heartbeat);

        if let Some(file) = &config.password_file {
            uri.authority.userinfo.password = password::read(file).await?;
        }

        let frame_bytes_max = match uri.query.frame_max {
            // As the protocol has it: no limit.
            None | Some(0) => usize::MAX,
            Some(bytes) => usize::try_from(bytes).unwrap_or(usize::MAX),
        };

        // Shuts the socket when this is dropped halfway: the library's thread would wait for ever
        // for an answer that does not come.
        let attempt = Attempt(Socket::default());
        let socket = attempt.0.clone();
        let greeting = Greeting::default();
        let noted = greeting.clone();
        let properties = ConnectionProperties::default()
            .with_connection_name(config.connection_name.as_str().into());
        let opening = Connection::connector(
            uri,
            frame_filter::runtime(),
            async move |uri, _| {
                silence_this_thread();
                // On the library's thread, which nothing else would stop.
                let stream = tokio::time::timeout(limit, connect_socket(&uri, &socket)).await;
                let stream = stream.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
                let stream = FilteredStream::new(stream, frame_bytes_max);
                Ok(AsyncTcpStream::Plain(stream.noting_greeting(noted.clone())))
            },
            properties,
        );

        match tokio::time::timeout(limit, opening).await {
            Ok(Ok(connection)) => {
                Ok(Self { connection, greeting, socket: attempt.record_success() })
            }
            Ok(Err(error)) => Err(ConnectError::of(&error, address)),
            Err(_) => Err(ConnectError::TimedOut { address: address.to_string(), limit }),
        }
    }

    /// Name and version of the broker, as it says them.
    pub(crate) fn broker(&self) -> Option<String> {
        self.greeting.broker()
    }

    /// Most bytes that the properties and headers of a message may take: one frame carries them.
    pub(crate) fn frame_bytes_max(&self) -> usize {
        usize::try_from(self.connection.configuration().frame_max()).unwrap_or(usize::MAX)
    }

    /// Whether messages can flow, as far as the library knows.
    pub(crate) fn is_connected(&self) -> bool {
        self.connection.status().connected()
    }

    /// Says goodbye, and shuts the socket when that takes too long: a broker that is half dead does
    /// not answer. On a connection that is blocked, nothing is sent.
    pub(crate) async fn close(&self) {
        if self.is_connected() && !self.connection.status().blocked() {
            let goodbye = self.connection.close(200, "closed".into());
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, goodbye).await;
        }
        self.socket.shut_down();
    }
}

/// A second handle on the connection's socket. The library lends its own to nobody.
#[derive(Clone, Default)]
struct Socket(Arc<Mutex<Option<TcpStream>>>);

impl Socket {
    fn keep(&self, stream: TcpStream) {
        *self.0.lock() = Some(stream);
    }

    fn shut_down(&self) {
        if let Some(stream) = self.0.lock().take() {
            // It fails only when the socket is shut already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

async fn connect_socket(uri: &AMQPUri, socket: &Socket) -> io::Result<Transport> {
    let runtime = async_rs::Runtime::tokio_current();
    let address = (uri.authority.host.clone(), uri.authority.port);
    let stream = runtime.tcp_connect(runtime.to_socket_addrs(address)).await?;
    socket.keep(stream.get_ref().as_fd().try_clone_to_owned()?.into());

    match uri.scheme {
        AMQPScheme::AMQP => Ok(Transport::Plain(stream)),
        AMQPScheme::AMQPS => {
            let host = &uri.authority.host;
            Transport::encrypt(stream, &system_connector()?, host).await
        }
    }
}

/// A connection that is being opened. Dropped, it ends.
struct Attempt(Socket);

impl Attempt {
    /// What is open now is not ended with the attempt.
    fn record_success(mut self) -> Socket {
        std::mem::take(&mut self.0)
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.0.shut_down();
    }
}

/// Keeps the library's thread out of the log. It would write every message that no queue takes,
/// with headers and body, and what it says of errors is reported where they are handled.
fn silence_this_thread() {
    let nobody = tracing::Dispatch::none();
    // The guard would give the thread its voice back.
    std::mem::forget(tracing::dispatcher::set_default(&nobody));
}
