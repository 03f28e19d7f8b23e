//! Which addresses are public, and lookups that know no others.
//!
//! What a name resolves to is filtered at the moment of the connection, so that a name which meant
//! something else when it was checked leads nowhere else.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::lookup_host;
use url::Url;

/// An address that is not public was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("its address is not a public one")]
pub struct NotPublic;

/// Azure's platform service, which answers virtual machines at an address of the public range.
const AZURE_PLATFORM: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);

/// Single addresses of metadata in IPv6: Google's, Oracle's, Scaleway's and Akamai's.
const METADATA_V6: [Ipv6Addr; 4] = [
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe),
    Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42),
    Ipv6Addr::new(0xfd00, 0xa9fe, 0xa9fe, 0, 0, 0, 0, 1),
];

/// Names by which clouds tell their machines of themselves. Some of them have public addresses.
const METADATA_NAMES: [&str; 8] = [
    "metadata.google.internal",
    "metadata.goog",
    "instance-data.ec2.internal",
    "metadata.azure.internal",
    "metadata.tencentyun.com",
    "metadata.cloud.ibm.com",
    "metadata.platformequinix.com",
    "metadata.packet.net",
];

/// The public addresses of a name. `Ok(None)`: it has others only, or is one of
/// [`is_metadata_name`].
///
/// # Errors
/// When it cannot be resolved.
pub async fn lookup_public(name: &str) -> io::Result<Option<Vec<SocketAddr>>> {
    if is_metadata_name(name) {
        return Ok(None);
    }
    let found = lookup_host((name, 0)).await?;
    let public: Vec<SocketAddr> = found.filter(|found| is_public(found.ip())).collect();
    Ok((!public.is_empty()).then_some(public))
}

/// Refuses a URL whose host is written as an address that is not public.
///
/// # Errors
/// When it is one.
pub fn check_literal(url: &Url) -> Result<(), NotPublic> {
    match literal_of(url) {
        Some(address) if !is_public(address) => Err(NotPublic),
        _ => Ok(()),
    }
}

/// Refuses a URL whose host has no public address now, for an early word on it. A name that cannot
/// be resolved is for the connection to report.
///
/// # Errors
/// When it has none.
pub async fn check_resolved(url: &Url) -> Result<(), NotPublic> {
    let Some(url::Host::Domain(name)) = url.host() else { return check_literal(url) };
    match lookup_public(name).await {
        Ok(None) => Err(NotPublic),
        Ok(Some(_)) | Err(_) => Ok(()),
    }
}

/// The address that a URL's host is written as.
pub(crate) fn literal_of(url: &Url) -> Option<IpAddr> {
    match url.host()? {
        url::Host::Ipv4(address) => Some(IpAddr::V4(address)),
        url::Host::Ipv6(address) => Some(IpAddr::V6(address)),
        url::Host::Domain(_) => None,
    }
}

/// Whether an address is one of the public Internet (the registries of special-purpose addresses,
/// RFC 6890), and not where a cloud answers its own machines.
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// Whether a cloud answers its own machines there, with their credentials.
#[must_use]
pub fn is_metadata(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_metadata_v4(address),
        IpAddr::V6(address) => is_metadata_v6(address),
    }
}

/// Whether a cloud tells its own machines of themselves by this name, or one below it.
#[must_use]
pub fn is_metadata_name(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    METADATA_NAMES.iter().any(|known| {
        let rest = name.strip_suffix(*known);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}

fn is_metadata_v4(address: Ipv4Addr) -> bool {
    // Most clouds'; Alibaba's; Oracle's.
    matches!(address.octets(), [169, 254, ..] | [100, 100, 100, 200] | [192, 0, 0, 192])
        || address == AZURE_PLATFORM
}

fn is_metadata_v6(address: Ipv6Addr) -> bool {
    match address.segments() {
        // Link-local; Amazon's, with those for containers.
        [0xfe80..=0xfebf, ..] | [0xfd00, 0xec2, 0, 0, 0, 0, 0, _] => true,
        // What a network's own translator makes of an address (NAT64, SIIT), and the form that
        // came before the mapped one.
        [0x64, 0xff9b, 1, _, _, _, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0, 0, 0, 0, 0, 0, high, low] => is_metadata_v4(join_v4(high, low)),
        _ => METADATA_V6.contains(&address) || embedded_v4(address).is_some_and(is_metadata_v4),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
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
    if let Some(address) = embedded_v4(address) {
        return is_public_v4(address);
    }

    match address.segments() {
        // Protocols, with Teredo; documentation.
        [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => false,
        // Global unicast. Beside it are loopback, local, multicast and what is not given out.
        [0x2000..=0x3fff, ..] => true,
        _ => false,
    }
}

/// The address of IPv4 that stands behind one of IPv6, and counts in its place.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    match address.segments() {
        // A translator's prefix (NAT64).
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(join_v4(high, low)),
        // 6to4.
        [0x2002, high, low, ..] => Some(join_v4(high, low)),
        _ => address.to_ipv4_mapped(),
    }
}

fn join_v4(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low))
}

#[cfg(test)]
mod tests;
