//! The HTTP clients for servers and for their authorization servers: timeouts, proxies, which
//! redirects are followed, and which addresses are connected to.
//!
//! There are two kinds: those for servers of the operator go anywhere, and those for servers of
//! agents to public addresses only, whatever a name resolves to, a redirect or some metadata says.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use reqwest::{Url, redirect};
use rmcp::transport::streamable_http_client::{HttpStatusError, StreamableHttpError};

mod public_only;

pub use public_only::PrivateAddress;
use public_only::PublicOnlyResolver;
pub(crate) use public_only::{check_literal, check_resolved};

/// How long a TCP and TLS connection may take to open.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an idle TCP connection is kept open. Shorter than what servers keep theirs for (Node.js
/// and uvicorn 5 s), for a request that meets the server's closing has an unknown outcome.
const IDLE_TIMEOUT: Duration = Duration::from_secs(3);
/// Longest chain of redirects.
const REDIRECTS_MAX: usize = 5;

/// Longest wait that a server is believed to mean; a longer one is cut to this.
const RETRY_AFTER_BACKOFF_MAX: Duration = Duration::from_hours(24);

/// Why a request has no answer that can be used.
pub(crate) type Error = StreamableHttpError<reqwest::Error>;

/// The HTTP clients of servers: one through the proxies of the environment, one without for
/// servers on this machine. They share nothing but their pools of connections. Clones are the same.
#[derive(Clone)]
pub struct HttpClients {
    proxied: reqwest::Client,
    direct: reqwest::Client,
    reach: Reach,
}

/// Which addresses are connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    Everywhere,
    PublicOnly,
}

impl HttpClients {
    /// Builds both clients, which connect to any address.
    ///
    /// # Errors
    /// When a client cannot be built.
    pub fn new() -> Result<Self, reqwest::Error> {
        Ok(Self {
            proxied: client_builder().build()?,
            direct: client_builder().no_proxy().build()?,
            reach: Reach::Everywhere,
        })
    }

    /// Builds a client that connects to public addresses only. It uses no proxy: a proxy resolves
    /// names by itself.
    ///
    /// # Errors
    /// When the client cannot be built.
    pub fn public_only() -> Result<Self, reqwest::Error> {
        let builder = client_builder().no_proxy().dns_resolver(Arc::new(PublicOnlyResolver));
        let client = builder.build()?;
        Ok(Self { proxied: client.clone(), direct: client, reach: Reach::PublicOnly })
    }

    /// The client for an address.
    ///
    /// # Errors
    /// When it is an address that may not be connected to.
    pub fn client_for(&self, url: &Url) -> Result<&reqwest::Client, PrivateAddress> {
        if self.reach == Reach::PublicOnly {
            check_literal(url)?;
        }
        Ok(if is_local(url) { &self.direct } else { &self.proxied })
    }

    /// Refuses an address that would not be connected to as its name resolves now, for an early
    /// word on it.
    ///
    /// # Errors
    /// When it is one.
    pub async fn check_address(&self, url: &Url) -> Result<(), PrivateAddress> {
        match self.reach {
            Reach::PublicOnly => check_resolved(url).await,
            Reach::Everywhere => Ok(()),
        }
    }
}

fn client_builder() -> reqwest::ClientBuilder {
    // reqwest panics without a process-wide provider. One that is installed already stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .redirect(redirect::Policy::custom(follow_redirect))
}

/// Whether an address is on this machine, by its name.
pub(crate) fn is_local(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Follows a redirect only where the body is sent again, and to the same origin: headers with
/// credentials are sent along.
fn follow_redirect(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let keeps_the_body = matches!(attempt.status().as_u16(), 307 | 308);
    let origin = attempt.previous().first().map(reqwest::Url::origin);

    if attempt.previous().len() > REDIRECTS_MAX {
        attempt.error("too many redirects")
    } else if keeps_the_body && origin == Some(attempt.url().origin()) {
        attempt.follow()
    } else {
        attempt.stop()
    }
}

/// The text of the root cause of an error: reqwest's own errors say less.
pub(crate) fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

/// How long a server that refuses a request says to wait (`Retry-After`, in seconds or as a date);
/// `None` where it does not, or says something else.
pub(crate) fn retry_after(refusal: &HttpStatusError, now: SystemTime) -> Option<Duration> {
    let text = refusal.retry_after.as_deref()?.trim();
    let wait = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => httpdate::parse_http_date(text).ok()?.duration_since(now).unwrap_or_default(),
    };
    Some(wait.min(RETRY_AFTER_BACKOFF_MAX))
}

#[cfg(test)]
mod tests;
