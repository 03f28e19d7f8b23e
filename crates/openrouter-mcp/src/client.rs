//! The HTTP client, and the only way out of this program: GET requests of the known endpoints, with
//! the key in a header.
//!
//! The HTTP client is private to this file and what is handed out cannot send anything, so no other
//! part of the program can write, follow a link, or send the key anywhere but to the base URL.

use std::time::{Duration, SystemTime};

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::redirect;
use url::Url;

use crate::endpoint::Endpoint;
use crate::key::ApiKey;

#[cfg(test)]
mod tests;

/// Time limit of connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Most idle connections that are kept for later calls.
const IDLE_CONNECTIONS_MAX: usize = 4;
/// Longest `Retry-After` that is passed on; a longer one is cut to this.
const RETRY_BACKOFF_MAX: Duration = Duration::from_secs(24 * 3600);
/// The referring application: RockBot, under whose name OpenRouter knows this program.
const REFERER: &str = "https://github.com/MarimerLLC/rockbot";

/// Sends GET requests to OpenRouter, and no others.
#[derive(Debug)]
pub(crate) struct ReadOnlyClient {
    http: reqwest::Client,
    base: Url,
}

/// The head of a response, whose body has yet to be read.
#[derive(Debug)]
pub(crate) struct ReplyHead {
    pub(crate) status: u16,
    /// How long to wait before asking again, where OpenRouter says so.
    pub(crate) retry_after: Option<Duration>,
    /// The kind of the body, as the answer names it: a few characters, or empty.
    pub(crate) content_type: String,
    response: reqwest::Response,
}

/// Why there is no response, or no complete one.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the time is up")]
    Timeout,
    #[error("no connection")]
    Connect(#[source] reqwest::Error),
    #[error("the answer ended too early")]
    Broken(#[source] reqwest::Error),
    #[error("the answer is too large")]
    TooLarge,
}

impl ReadOnlyClient {
    /// Creates a client for endpoints below `base`. `timeout` limits one request, from its start to
    /// the end of its response.
    ///
    /// # Errors
    /// When the machine's certificates cannot be read.
    pub(crate) fn new(base: Url, timeout: Duration) -> Result<Self, reqwest::Error> {
        let http = reqwest::Client::builder()
            .user_agent(concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION")))
            // OpenRouter's API has no redirects, and another host must not get the key.
            .redirect(redirect::Policy::none())
            .referer(false)
            .connect_timeout(CONNECT_TIMEOUT.min(timeout))
            .timeout(timeout)
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
            .build()?;
        Ok(Self { http, base })
    }

    /// Sends the request once.
    pub(crate) async fn get(&self, endpoint: &Endpoint, key: &ApiKey) -> Result<ReplyHead, Error> {
        let request = self
            .http
            .get(endpoint.url(&self.base))
            .header(ACCEPT, HeaderValue::from_static("application/json"))
            .header(AUTHORIZATION, key.bearer_header())
            .header("HTTP-Referer", HeaderValue::from_static(REFERER));

        let response = request.send().await.map_err(Error::from_reqwest)?;
        let headers = response.headers();

        Ok(ReplyHead {
            status: response.status().as_u16(),
            retry_after: parse_retry_after(headers, SystemTime::now()),
            content_type: content_type_of(headers),
            response,
        })
    }
}

impl ReplyHead {
    /// Reads the body, of `bytes_max` bytes at most.
    pub(crate) async fn read_body(mut self, bytes_max: usize) -> Result<Vec<u8>, Error> {
        let announced = self.response.content_length().unwrap_or(0);
        if usize::try_from(announced).map_or(true, |announced| announced > bytes_max) {
            return Err(Error::TooLarge);
        }

        let mut body = Vec::new();
        while let Some(chunk) = self.response.chunk().await.map_err(Error::from_reqwest)? {
            if body.len() + chunk.len() > bytes_max {
                return Err(Error::TooLarge);
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

impl Error {
    fn from_reqwest(error: reqwest::Error) -> Self {
        // The URL has the caller's text in it, which does not belong in a log.
        let error = error.without_url();
        if error.is_timeout() {
            Self::Timeout
        } else if error.is_connect() {
            Self::Connect(error)
        } else {
            Self::Broken(error)
        }
    }
}

/// Parses `Retry-After`, which is seconds or a date; `None` where it is neither.
fn parse_retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => httpdate::parse_http_date(text).ok()?.duration_since(now).unwrap_or_default(),
    };
    Some(wait.min(RETRY_BACKOFF_MAX))
}

/// The media type without parameters, cut to a few printable characters.
fn content_type_of(headers: &HeaderMap) -> String {
    let text = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = text.split(';').next().unwrap_or_default().trim();
    essence.chars().filter(|c| c.is_ascii_graphic()).take(60).collect()
}
