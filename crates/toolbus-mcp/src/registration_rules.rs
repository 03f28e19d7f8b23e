//! What agents may register: nothing, unless the operator says so.
//!
//! A model registers what somebody talked it into. So servers at addresses and servers that are
//! programs are each off at first. What was registered when more was allowed is not started, and
//! its registration is kept. Where an allowed name leads, the HTTP client decides at each
//! connection; see [`crate::http`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{Endpoint, Entry, Target};
use crate::http;

/// Whether agents may register servers at addresses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AddressRegistration {
    /// They may not.
    #[default]
    Off,
    /// At the hosts of a list, over https.
    AllowList,
    /// At any host.
    Any,
}

/// Whether agents may register servers that are programs to start on the bridge's machine. That is
/// running code of the agent's choice, so the operator decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StdioRegistration {
    /// They may not.
    #[default]
    Denied,
    /// They may.
    Allowed,
}

/// Whether servers that agents register may be at addresses that are not public: of this machine,
/// this network, this cluster or this cloud.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PrivateAddresses {
    /// They may not.
    #[default]
    Denied,
    /// They may.
    Allowed,
}

/// What agents may register.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegistrationRules {
    /// Servers at addresses.
    pub addresses: AddressRegistration,
    /// The hosts of [`AddressRegistration::AllowList`]: names, and `*.NAME` for those below a name.
    pub hosts: Vec<String>,
    /// Servers at addresses that are not public.
    pub private_addresses: PrivateAddresses,
    /// Servers that are programs.
    pub programs: StdioRegistration,
}

/// Why a server may not be registered, with the setting that would allow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RegistrationRefusal {
    #[error("servers that are programs are the operator's to add (mcp.allow_stdio_registration)")]
    Program,
    #[error("registering servers is turned off (mcp.registration)")]
    Off,
    #[error("its host is not one that servers may be registered at (mcp.registration_hosts)")]
    Host,
    #[error("only https:// addresses may be registered (mcp.registration)")]
    Insecure,
    #[error(transparent)]
    Private(#[from] http::PrivateAddress),
}

impl RegistrationRules {
    /// The rules of an operator who allows everything.
    #[must_use]
    pub fn allow_all() -> Self {
        Self {
            addresses: AddressRegistration::Any,
            hosts: Vec::new(),
            private_addresses: PrivateAddresses::Allowed,
            programs: StdioRegistration::Allowed,
        }
    }

    /// Whether nothing may be registered at all, and nothing be removed.
    pub(crate) fn is_off(&self) -> bool {
        self.addresses == AddressRegistration::Off && self.programs == StdioRegistration::Denied
    }

    /// Whether an agent may have the server of this entry, as far as the entry itself tells.
    pub(crate) fn check(&self, entry: &Entry) -> Result<(), RegistrationRefusal> {
        match &entry.target {
            Target::Launch(_) if self.programs == StdioRegistration::Denied => {
                Err(RegistrationRefusal::Program)
            }
            Target::Launch(_) | Target::Disabled => Ok(()),
            Target::Endpoint(endpoint) => self.check_endpoint(endpoint),
        }
    }

    /// The same, and whether its host is at public addresses now.
    pub(crate) async fn check_resolved(&self, entry: &Entry) -> Result<(), RegistrationRefusal> {
        self.check(entry)?;
        match &entry.target {
            Target::Endpoint(endpoint) if self.private_addresses == PrivateAddresses::Denied => {
                Ok(http::check_resolved(&endpoint.url).await?)
            }
            _ => Ok(()),
        }
    }

    fn check_endpoint(&self, endpoint: &Endpoint) -> Result<(), RegistrationRefusal> {
        let url = &endpoint.url;
        match self.addresses {
            AddressRegistration::Off => return Err(RegistrationRefusal::Off),
            AddressRegistration::AllowList => {
                if url.scheme() != "https" {
                    return Err(RegistrationRefusal::Insecure);
                }
                let host = url.host_str().unwrap_or_default();
                if !self.hosts.iter().any(|pattern| is_host_of(host, pattern)) {
                    return Err(RegistrationRefusal::Host);
                }
            }
            AddressRegistration::Any => {}
        }

        if self.private_addresses == PrivateAddresses::Denied {
            http::check_literal(url)?;
        }
        Ok(())
    }
}

/// Whether a host is the one that a pattern names, or below it for `*.NAME`.
fn is_host_of(host: &str, pattern: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let pattern = pattern.to_ascii_lowercase();
    match pattern.strip_prefix('*') {
        Some(suffix) => {
            suffix.starts_with('.') && host.len() > suffix.len() && host.ends_with(suffix)
        }
        None => host == pattern,
    }
}

#[cfg(test)]
mod tests;
