//! Free ports on the loopback interface.

use std::net::{Ipv4Addr, TcpListener};

use anyhow::bail;

/// Below the range that the kernel draws from for outgoing connections (32768 and up), so that no
/// connection of another test takes a port between the look and its use.
const PORT_RANGE: std::ops::Range<u16> = 20_000..32_000;

/// `N` different ports of 127.0.0.1 that nobody listens on now. Another process may still take one
/// first, so whoever starts a server with them tries again with others.
pub(crate) fn free<const N: usize>() -> anyhow::Result<[u16; N]> {
    let mut ports = [0; N];
    let mut held = Vec::with_capacity(N);
    // Each attempt draws another port; where 500 of them are taken, something else is wrong.
    for _ in 0..500 {
        if held.len() == N {
            return Ok(ports);
        }
        let port = PORT_RANGE.start + random_u16() % (PORT_RANGE.end - PORT_RANGE.start);
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            ports[held.len()] = port;
            held.push(listener);
        }
    }

    bail!("no {N} free ports on 127.0.0.1 in {PORT_RANGE:?}")
}

fn random_u16() -> u16 {
    let [first, second, ..] = *uuid::Uuid::new_v4().as_bytes();
    u16::from_be_bytes([first, second])
}
