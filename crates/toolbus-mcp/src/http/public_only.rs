//! Which addresses are public, and a resolver that knows no others.
//!
//! It filters what a name resolves to at the moment of the connection, so that a name which meant
//! something else when it was checked leads nowhere else.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::net::lookup_host;

/// An address that is not public was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("its address is not a public one (mcp.allow_private_registration)")]
pub struct PrivateAddress;

/// Resolves names to their public addresses only.
pub(super) struct PublicOnlyResolver;

impl Resolve for PublicOnlyResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = lookup_host((name.as_str(), 0)).await?;
            let public: Vec<SocketAddr> = found.filter(|found| is_public(found.ip())).collect();
            if public.is_empty() {
                return Err(PrivateAddress.into());
            }
            Ok(Box::new(public.into_iter()) as Addrs)
        })
    }
}

/// Refuses a URL whose host is written as an address that is not public. reqwest resolves names
/// only.
pub(crate) fn check_literal(url: &Url) -> Result<(), PrivateAddress> {
    let address = match url.host() {
        Some(url::Host::Ipv4(address)) => IpAddr::V4(address),
        Some(url::Host::Ipv6(address)) => IpAddr::V6(address),
        Some(url::Host::Domain(_)) | None => return Ok(()),
    };
    if is_public(address) { Ok(()) } else { Err(PrivateAddress) }
}

/// Refuses a URL whose host has no public address now, for an early word on it. A name that cannot
/// be resolved is for the connection to report.
pub(crate) async fn check_resolved(url: &Url) -> Result<(), PrivateAddress> {
    let Some(url::Host::Domain(name)) = url.host() else { return check_literal(url) };
    let Ok(mut found) = lookup_host((name, 0)).await else { return Ok(()) };
    if found.any(|found| is_public(found.ip())) { Ok(()) } else { Err(PrivateAddress) }
}

/// Whether an address is one of the public Internet (the registries of special-purpose addresses,
/// RFC 6890), and not where a cloud answers its own machines.
pub(crate) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    /// Azure's platform service, which answers virtual machines at an address of the public range.
    const AZURE_PLATFORM: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);

    let is_special = match address.octets() {
        // This network, private, loopback, multicast and reserved.
        [0 | 10 | 127 | 224..=255, ..] => true,
        // Shared by carriers; Alibaba's metadata is here.
        [100, 64..=127, ..] => true,
        // Link-local, with the metadata of most clouds.
        [169, 254, ..] | [172, 16..=31, ..] | [192, 168, ..] => true,
        // Protocols, with Oracle's metadata; documentation; 6to4 relays; benchmarks.
        [192, 0, 0 | 2, _] | [192, 88, 99, _] | [198, 18 | 19, ..] => true,
        [198, 51, 100, _] | [203, 0, 113, _] => true,
        _ => false,
    };
    !is_special && address != AZURE_PLATFORM
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    if let Some(address) = address.to_ipv4_mapped() {
        return is_public_v4(address);
    }

    match address.segments() {
        // A translator's prefix: what counts is the address behind it.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => is_public_v4(join_v4(high, low)),
        // 6to4, likewise.
        [0x2002, high, low, ..] => is_public_v4(join_v4(high, low)),
        // Protocols, with Teredo; documentation.
        [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => false,
        // Global unicast. Beside it are loopback, local, multicast and what is not given out.
        [0x2000..=0x3fff, ..] => true,
        _ => false,
    }
}

fn join_v4(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low))
}

#[cfg(test)]
mod tests;
