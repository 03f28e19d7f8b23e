//! Hosts that the operator allows though their addresses are not public.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use url::{Host, Url};

use crate::address::{is_metadata, literal_of};

/// Longest entry, in bytes.
const ENTRY_BYTES_MAX: usize = 300;

/// A host that may be reached though its address is not public: `host`, `*.domain`, an address or a
/// network, each but the last with a port if only that is meant.
///
/// A name that is allowed reaches whatever it resolves to, but for the metadata services of clouds:
/// those must be allowed by their addresses. A network that has others beside them, such as
/// `fd00::/8`, does not allow them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedHost {
    text: String,
    what: Allowed,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Allowed {
    Name(String),
    /// Every name that ends in this, which begins with a dot.
    Below(String),
    Network {
        address: IpAddr,
        bits: u32,
    },
}

impl AllowedHost {
    /// Whether a URL names it.
    pub(crate) fn matches(&self, url: &Url) -> bool {
        if self.port.is_some() && self.port != url.port_or_known_default() {
            return false;
        }
        match (&self.what, url.host()) {
            (Allowed::Name(name), Some(Host::Domain(host))) => name == trim_dot(host),
            (Allowed::Below(suffix), Some(Host::Domain(host))) => {
                trim_dot(host).ends_with(suffix.as_str())
            }
            (Allowed::Network { .. }, _) => {
                literal_of(url).is_some_and(|literal| self.contains(literal))
            }
            _ => false,
        }
    }

    /// Whether names may lead to this address: it is in a network that is allowed with all ports.
    pub(crate) fn allows_address(&self, address: IpAddr) -> bool {
        self.port.is_none() && self.contains(address)
    }

    fn contains(&self, candidate: IpAddr) -> bool {
        let Allowed::Network { address, bits } = self.what else { return false };
        if is_metadata(candidate) && !is_metadata(address) {
            return false;
        }
        // One address of IPv4 may be written as one of IPv6.
        match (address, candidate.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(candidate)) => {
                let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
                network.to_bits() & mask == candidate.to_bits() & mask
            }
            (IpAddr::V6(network), IpAddr::V6(candidate)) => {
                let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
                network.to_bits() & mask == candidate.to_bits() & mask
            }
            _ => false,
        }
    }
}

fn trim_dot(host: &str) -> &str {
    host.strip_suffix('.').unwrap_or(host)
}

impl FromStr for AllowedHost {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() || text.len() > ENTRY_BYTES_MAX {
            return Err("a host, *.domain, an address or a network such as 10.0.0.0/8".to_owned());
        }
        let (what, port) = match text.split_once('/') {
            Some((address, bits)) => (parse_network(text, address, bits)?, None),
            None => parse_host(text)?,
        };
        Ok(Self { text: text.to_owned(), what, port })
    }
}

fn parse_network(text: &str, address: &str, bits: &str) -> Result<Allowed, String> {
    let wrong = || format!("{text} is no network, such as 10.0.0.0/8");
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let bits: u32 = bits.parse().map_err(|_| wrong())?;
    let max = if address.is_ipv4() { 32 } else { 128 };
    if bits > max || bits == 0 {
        return Err(wrong());
    }
    Ok(Allowed::Network { address, bits })
}

fn parse_host(text: &str) -> Result<(Allowed, Option<u16>), String> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok((whole(address), None));
    }
    let wrong = || format!("{text} is no host");
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, Some(port.parse::<u16>().map_err(|_| wrong())?)),
        None => (text, None),
    };

    let (is_below, name) = match host.strip_prefix("*.") {
        Some(domain) => (true, domain),
        None => (false, host),
    };
    match Host::parse(name).map_err(|_| wrong())? {
        Host::Domain(domain) if is_below => {
            Ok((Allowed::Below(format!(".{}", trim_dot(&domain))), port))
        }
        Host::Domain(domain) => Ok((Allowed::Name(trim_dot(&domain).to_owned()), port)),
        Host::Ipv4(_) | Host::Ipv6(_) if is_below => Err(wrong()),
        Host::Ipv4(address) => Ok((whole(IpAddr::V4(address)), port)),
        Host::Ipv6(address) => Ok((whole(IpAddr::V6(address)), port)),
    }
}

fn whole(address: IpAddr) -> Allowed {
    let address = address.to_canonical();
    Allowed::Network { address, bits: if address.is_ipv4() { 32 } else { 128 } }
}

impl fmt::Display for AllowedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for AllowedHost {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for AllowedHost {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for AllowedHost {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "AllowedHost".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "examples": ["intranet.example", "10.0.0.0/8"] })
    }
}

#[cfg(test)]
mod tests;
