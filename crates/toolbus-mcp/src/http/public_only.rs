//! A resolver that knows public addresses only. Which those are is `toolbus_fetch`'s to say.

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// An address that is not public was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("its address is not a public one (mcp.allow_private_registration)")]
pub struct PrivateAddress;

/// Resolves names to their public addresses only.
pub(super) struct PublicOnlyResolver;

impl Resolve for PublicOnlyResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            match toolbus_fetch::lookup_public(name.as_str()).await? {
                Some(public) => Ok(Box::new(public.into_iter()) as Addrs),
                None => Err(PrivateAddress.into()),
            }
        })
    }
}

/// Refuses a URL whose host is written as an address that is not public. reqwest resolves names
/// only.
pub(crate) fn check_literal(url: &Url) -> Result<(), PrivateAddress> {
    toolbus_fetch::check_literal(url).map_err(|_| PrivateAddress)
}

/// Refuses a URL whose host has no public address now, for an early word on it. A name that cannot
/// be resolved is for the connection to report.
pub(crate) async fn check_resolved(url: &Url) -> Result<(), PrivateAddress> {
    toolbus_fetch::check_resolved(url).await.map_err(|_| PrivateAddress)
}

#[cfg(test)]
mod tests;
