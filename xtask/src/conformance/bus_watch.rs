//! A TCP proxy in front of the broker that remembers when the broker delivered what to a client.
//!
//! It is how a run knows which scenarios cross the bus: the bridge connects through it. Only the
//! frames of AMQP 0-9-1 that deliver are looked at, and every byte goes on as it came.

use std::fmt;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use anyhow::Context as _;

/// A method, as the first byte of a frame says.
const METHOD_FRAME: u8 = 1;
/// `basic.deliver`: its class and its number.
const DELIVER: [u8; 4] = [0, 60, 0, 60];
/// The type, the channel and the length of what follows.
const FRAME_HEAD_BYTES: usize = 7;
/// Longest frame: what RabbitMQ agrees to unless it is told otherwise.
const FRAME_BYTES_MAX: usize = 128 << 10;

/// The proxy. Its threads end with the connections, which end with the programs.
pub(super) struct BusWatch {
    url: String,
    delivered: Deliveries,
}

/// A message that was delivered.
#[derive(Debug, Clone)]
pub(super) struct Delivery {
    pub(super) at: SystemTime,
    pub(super) routing_key: String,
}

impl fmt::Display for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = self.at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        write!(f, "{}.{:03} {}", since.as_secs(), since.subsec_millis(), self.routing_key)
    }
}

type Deliveries = Arc<Mutex<Vec<Delivery>>>;

impl BusWatch {
    /// Starts it in front of the broker of a URL (`amqp://USER:PASSWORD@HOST:PORT/VHOST`).
    pub(super) fn start(amqp: &str) -> anyhow::Result<Self> {
        let (before, rest) = amqp.rsplit_once('@').context("the broker's URL has no user")?;
        // A slash, and what follows it, is a virtual host; without it there is the default one.
        let (broker, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let url = format!("{before}@{}{path}", listener.local_addr()?);
        let delivered = Deliveries::default();

        let broker = broker.to_owned();
        let record = Arc::clone(&delivered);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // Whoever is not connected tries again.
                let _ = join(client, &broker, &record);
            }
        });

        Ok(Self { url, delivered })
    }

    /// Where the broker is reached through it.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// What has been delivered so far.
    pub(super) fn delivered(&self) -> Vec<Delivery> {
        self.delivered.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Connects a client to the broker.
fn join(mut client: TcpStream, broker: &str, delivered: &Deliveries) -> anyhow::Result<()> {
    let mut up = TcpStream::connect(broker)?;
    let mut down = up.try_clone()?;
    let mut to_client = client.try_clone()?;
    let delivered = Arc::clone(delivered);

    std::thread::spawn(move || {
        // Either end may go at any time; the other is told by the end of its stream.
        let _ = std::io::copy(&mut client, &mut up);
        let _ = up.shutdown(std::net::Shutdown::Both);
    });

    std::thread::spawn(move || {
        let _ = copy_frames(&mut down, &mut to_client, &delivered);
        let _ = to_client.shutdown(std::net::Shutdown::Both);
    });

    Ok(())
}

fn copy_frames(
    from: &mut TcpStream,
    to: &mut TcpStream,
    delivered: &Deliveries,
) -> anyhow::Result<()> {
    loop {
        let mut head = [0; FRAME_HEAD_BYTES];
        from.read_exact(&mut head)?;
        let [kind, _, _, length @ ..] = head;
        let length = usize::try_from(u32::from_be_bytes(length))?;
        anyhow::ensure!(length < FRAME_BYTES_MAX, "a frame of {length} bytes");

        // One byte more, which ends the frame.
        let mut rest = vec![0; length + 1];
        from.read_exact(&mut rest)?;
        if kind == METHOD_FRAME
            && let Some(routing_key) = routing_key(&rest)
        {
            let delivery = Delivery { at: SystemTime::now(), routing_key };
            delivered.lock().unwrap_or_else(PoisonError::into_inner).push(delivery);
        }
        to.write_all(&[&head[..], &rest].concat())?;
    }
}

/// The routing key of a delivery. `None` for another method.
pub(super) fn routing_key(method: &[u8]) -> Option<String> {
    let rest = method.strip_prefix(&DELIVER)?;
    let (_consumer, rest) = short_text(rest)?;
    // The delivery tag, and whether it is a redelivery.
    let (_exchange, rest) = short_text(rest.get(9..)?)?;
    let (key, _) = short_text(rest)?;
    Some(String::from_utf8_lossy(key).into_owned())
}

fn short_text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(*length))
}
