//! The client of the health port: asks whether the process that serves it is ready.
//!
//! For health checks of containers whose images hold nothing but the program itself. It asks once,
//! reads no more than it needs, and waits no longer than a moment.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use toolbus_config::ListenAddress;

use crate::http::SERVER_NAME;

/// How long each step may take: connecting, sending, and waiting for a part of the response.
const STEP_TIMEOUT: Duration = Duration::from_secs(2);
/// Most of an answer that is read, in bytes.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// Why the process does not count as ready.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// It did not answer.
    #[error("the health port {address} does not answer")]
    Silent {
        /// The port's address, as it is configured.
        address: ListenAddress,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It answered that it is not ready.
    #[error("not ready: {0}")]
    NotReady(String),
}

/// Asks the health port at `address` of this machine whether its process is ready. It blocks, for
/// some seconds at most.
///
/// # Errors
/// When it is not ready, or there is no answer.
pub fn probe(address: &ListenAddress) -> Result<(), ProbeError> {
    let Readiness { is_ready, report, .. } = ask_readiness(address)?;
    if is_ready { Ok(()) } else { Err(ProbeError::NotReady(report)) }
}

/// What a health port says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readiness {
    /// Whether the process is ready.
    pub is_ready: bool,
    /// Whether the answer is of a server of ours.
    pub is_of_toolbus: bool,
    /// What `/readyz` answered, which is JSON where it is one of ours; 64 KiB at most.
    pub report: String,
}

/// Asks the health port at `address` of this machine how its process is. It blocks, for some
/// seconds at most.
///
/// # Errors
/// When there is no answer.
pub fn ask_readiness(address: &ListenAddress) -> Result<Readiness, ProbeError> {
    request_readiness(address)
        .map_err(|source| ProbeError::Silent { address: address.clone(), source })
}

fn request_readiness(address: &ListenAddress) -> io::Result<Readiness> {
    let mut stream = connect_local(address)?;
    stream.set_read_timeout(Some(STEP_TIMEOUT))?;
    stream.set_write_timeout(Some(STEP_TIMEOUT))?;
    stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;

    let mut answer = BufReader::new(stream.take(ANSWER_BYTES_MAX));
    let no_http = || io::Error::new(io::ErrorKind::InvalidData, "what it says is not HTTP");

    let mut line = String::new();
    answer.read_line(&mut line)?;
    let status = line.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
    let status: u16 = status.and_then(|status| status.parse().ok()).ok_or_else(no_http)?;

    let mut rest = Vec::new();
    answer.read_to_end(&mut rest)?;
    let rest = String::from_utf8_lossy(&rest);
    let (head, body) = rest.split_once("\r\n\r\n").unwrap_or((&rest, ""));
    let is_of_toolbus = |line: &str| {
        let header = line.split_once(':');
        header.is_some_and(|(name, value)| {
            name.eq_ignore_ascii_case("server") && value.trim() == SERVER_NAME
        })
    };

    Ok(Readiness {
        is_ready: status == 200,
        is_of_toolbus: head.lines().any(is_of_toolbus),
        report: body.trim().to_owned(),
    })
}

/// A port of every address of the machine is asked at the one that is always there.
fn connect_local(address: &ListenAddress) -> io::Result<TcpStream> {
    let port = address.port();
    let mut addresses: Vec<SocketAddr> = match address.host() {
        "" => Vec::new(),
        host => (host, port).to_socket_addrs()?.collect(),
    };

    if addresses.iter().all(|address| address.ip().is_unspecified()) {
        let loopback: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        addresses = loopback.map(|host| SocketAddr::new(host, port)).to_vec();
    }

    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match TcpStream::connect_timeout(&address, STEP_TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}
