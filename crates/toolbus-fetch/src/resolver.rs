//! Names and their addresses: the port, and the guard in front of a connection.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::net::lookup_host;

use crate::address::{NotPublic, is_metadata, is_metadata_name, is_public};
use crate::allowed::AllowedHost;

/// Most addresses of one name that are tried.
const ADDRESSES_MAX: usize = 16;

/// Finds the addresses of names.
pub trait ResolveHost: Send + Sync + 'static {
    /// The addresses of a name, in the order in which they are to be tried.
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// Resolves names as the system does.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

/// Which addresses are connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Public ones, and networks that the operator allows.
    Public,
    /// All but those of clouds: the operator named the host.
    Named,
}

/// Resolves names to the addresses that may be connected to.
pub(crate) struct GuardedResolver {
    pub(crate) resolver: Arc<dyn ResolveHost>,
    pub(crate) reach: Reach,
    pub(crate) allowed: Arc<[AllowedHost]>,
}

impl ResolveHost for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move { Ok(lookup_host((name, 0)).await?.map(|found| found.ip()).collect()) })
    }
}

impl Reach {
    /// Whether this address may be connected to.
    pub(crate) fn allows(self, address: IpAddr, allowed: &[AllowedHost]) -> bool {
        let is_allowed = match self {
            Self::Public => is_public(address),
            Self::Named => !is_metadata(address),
        };
        is_allowed || is_listed(address, allowed)
    }
}

/// Whether the operator allows this address itself.
fn is_listed(address: IpAddr, allowed: &[AllowedHost]) -> bool {
    allowed.iter().any(|entry| entry.allows_address(address))
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (resolver, reach) = (Arc::clone(&self.resolver), self.reach);
        let allowed = Arc::clone(&self.allowed);
        Box::pin(async move {
            let found = resolver.resolve(name.as_str()).await?;
            let is_metadata = is_metadata_name(name.as_str());
            let usable = found.into_iter().filter(|address| match is_metadata {
                true => is_listed(*address, &allowed),
                false => reach.allows(*address, &allowed),
            });
            let usable: Vec<_> =
                usable.take(ADDRESSES_MAX).map(|ip| SocketAddr::new(ip, 0)).collect();
            if usable.is_empty() {
                return Err(NotPublic.into());
            }
            Ok(Box::new(usable.into_iter()) as Addrs)
        })
    }
}
