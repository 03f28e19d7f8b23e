//! The HTTP clients that everything here goes out by, to servers and to those who give tokens for
//! them: their times, their proxies, and where they follow a redirect.

use std::time::Duration;

use reqwest::{Url, redirect};
use rmcp::transport::streamable_http_client::StreamableHttpError;

/// How long a TCP and TLS connection may take to open.
const CONNECT_WAIT: Duration = Duration::from_secs(10);
/// How long an idle TCP connection is kept. Shorter than what servers keep theirs for (Node.js and
/// uvicorn 5 s), for a request that meets the server's closing has an unknown outcome.
const IDLE_WAIT: Duration = Duration::from_secs(3);
/// Longest chain of redirects.
const REDIRECTS_MAX: usize = 5;

/// Why a request has no answer that can be used.
pub(crate) type Error = StreamableHttpError<reqwest::Error>;

/// The HTTP clients of all servers: one through the proxies of the environment, one without for
/// servers on this machine. They share nothing but their pools of connections. Clones are the same.
#[derive(Clone)]
pub(crate) struct Clients {
    proxied: reqwest::Client,
    direct: reqwest::Client,
}

impl Clients {
    /// Builds both.
    pub(crate) fn new() -> Result<Self, reqwest::Error> {
        // reqwest panics without a process-wide provider. Another's stays if there is one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = || {
            reqwest::Client::builder()
                .connect_timeout(CONNECT_WAIT)
                .pool_idle_timeout(IDLE_WAIT)
                .redirect(redirect::Policy::custom(follow))
        };
        Ok(Self { proxied: builder().build()?, direct: builder().no_proxy().build()? })
    }

    /// The client for an address.
    pub(crate) fn to(&self, url: &Url) -> &reqwest::Client {
        if is_local(url) { &self.direct } else { &self.proxied }
    }
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

/// Follows a redirect only where the message goes along and to whom it was meant for: the same
/// origin, since headers with credentials go along too.
fn follow(attempt: redirect::Attempt<'_>) -> redirect::Action {
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

/// The cause at the bottom of an error: what reqwest's errors themselves say is less.
pub(crate) fn root(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
