//! Requests that go where they may, and follow redirects there.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{ACCEPT_ENCODING, HeaderMap, HeaderValue, LOCATION};
use reqwest::{Method, Response, StatusCode, redirect};
use tokio::time::{Instant, timeout_at};
use url::Url;

use crate::address::literal_of;
use crate::allowed::AllowedHost;
use crate::error::Error;
use crate::resolver::{GuardedResolver, Reach, ResolveHost, SystemResolver};
use crate::response::FetchResponse;

/// How long a connection may take to open.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an idle connection is kept for the next request.
const IDLE_TIMEOUT: Duration = Duration::from_secs(3);
/// Largest headers of a response, in bytes.
const HEADERS_BYTES_MAX: usize = 64 << 10;
/// Longest chain of redirects where nobody says.
const REDIRECTS_MAX: usize = 5;
/// Longest address that is gone to, in bytes.
const URL_BYTES_MAX: usize = 8 << 10;
/// How long a fetch may take where nobody says.
const FETCH_TIMEOUT: Duration = Duration::from_secs(30);

/// What is fetched with.
#[derive(Clone)]
pub struct FetchConfig {
    /// What may be reached though it is not public.
    pub allowed_hosts: Vec<AllowedHost>,
    /// Finds the addresses of names.
    pub resolver: Arc<dyn ResolveHost>,
}

/// Makes requests to addresses that others name. Clones are the same.
#[derive(Clone)]
pub struct Fetcher {
    inner: Arc<FetcherInner>,
}

/// One client for each reach: connections are kept, and must not be used by a request that may not
/// go there.
struct FetcherInner {
    public: reqwest::Client,
    named: reqwest::Client,
    allowed: Arc<[AllowedHost]>,
}

/// A request.
#[derive(Debug, Clone)]
pub struct FetchRequest {
    /// The method. Only `GET` and `HEAD` follow redirects.
    pub method: Method,
    /// The address.
    pub url: Url,
    /// Headers for every hop.
    pub headers: HeaderMap,
    /// Headers for the origin of the address alone.
    pub credentials: HeaderMap,
    /// The body.
    pub body: Option<Bytes>,
    /// The operator named this address, which is then reached though it may not be public. What it
    /// redirects to is checked all the same.
    pub is_internal: bool,
    /// Most redirects that are followed.
    pub redirects_max: usize,
    /// How long all of it may take, to the last byte of the body.
    pub timeout: Duration,
}

impl Default for FetchConfig {
    fn default() -> Self {
        Self { allowed_hosts: Vec::new(), resolver: Arc::new(SystemResolver) }
    }
}

impl fmt::Debug for FetchConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FetchConfig").field("allowed_hosts", &self.allowed_hosts).finish()
    }
}

impl fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetcher").field("allowed", &self.inner.allowed).finish()
    }
}

impl FetchRequest {
    /// A `GET` of this address.
    #[must_use]
    pub fn get(url: Url) -> Self {
        Self {
            method: Method::GET,
            url,
            headers: HeaderMap::new(),
            credentials: HeaderMap::new(),
            body: None,
            is_internal: false,
            redirects_max: REDIRECTS_MAX,
            timeout: FETCH_TIMEOUT,
        }
    }
}

impl Fetcher {
    /// Makes what requests are made with.
    ///
    /// # Errors
    /// When the machine's certificates cannot be read.
    pub fn new(config: FetchConfig) -> Result<Self, reqwest::Error> {
        // reqwest panics without a process-wide provider. One that is installed already stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let allowed: Arc<[AllowedHost]> = config.allowed_hosts.into();
        let client = |reach| {
            let resolver = GuardedResolver {
                resolver: Arc::clone(&config.resolver),
                reach,
                allowed: Arc::clone(&allowed),
            };
            client_builder().dns_resolver(Arc::new(resolver)).build()
        };
        let inner = FetcherInner {
            public: client(Reach::Public)?,
            named: client(Reach::Named)?,
            allowed: Arc::clone(&allowed),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Sends a request, follows where it is sent on to, and returns the headers of the answer,
    /// whatever its status is. The body is still to be read.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn send(&self, request: FetchRequest) -> Result<FetchResponse, Error> {
        let timeout = request.timeout;
        let deadline = Instant::now() + timeout;
        let sent = timeout_at(deadline, self.inner.follow(request)).await;
        let (url, response) = sent.map_err(|_| Error::TimedOut(timeout))??;
        Ok(FetchResponse::new(url, response, deadline, timeout))
    }
}

fn client_builder() -> reqwest::ClientBuilder {
    let headers_max = u32::try_from(HEADERS_BYTES_MAX).unwrap_or(u32::MAX);
    reqwest::Client::builder()
        // A proxy would resolve names by itself.
        .no_proxy()
        // Each hop is checked here.
        .redirect(redirect::Policy::none())
        .referer(false)
        // Unpacked here, within a limit.
        .no_gzip()
        .no_brotli()
        .no_deflate()
        .no_zstd()
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .http2_max_header_list_size(headers_max)
}

impl FetcherInner {
    async fn follow(&self, request: FetchRequest) -> Result<(Url, Response), Error> {
        let origin = request.url.origin();
        let is_followed = matches!(request.method, Method::GET | Method::HEAD);
        let mut url = request.url.clone();
        let mut redirects = 0;
        // Whoever it was sent to in between does not choose what is asked there with credentials,
        // or within a network.
        let mut is_origin = true;

        loop {
            is_origin = is_origin && url.origin() == origin;
            let client = self.client_for(&url, request.is_internal && is_origin)?;
            let response = send_hop(client, &request, &url, is_origin).await?;
            let location = match is_redirect(response.status()) && is_followed {
                true => response.headers().get(LOCATION),
                false => None,
            };
            let Some(location) = location else { return Ok((url, response)) };

            redirects += 1;
            if redirects > request.redirects_max {
                return Err(Error::Redirects(request.redirects_max));
            }
            url = next_url(&url, location, !request.credentials.is_empty())?;
        }
    }

    /// The client for an address.
    fn client_for(&self, url: &Url, is_named: bool) -> Result<&reqwest::Client, Error> {
        check_form(url)?;
        let is_listed = self.allowed.iter().any(|entry| entry.matches(url));
        let reach = if is_named || is_listed { Reach::Named } else { Reach::Public };

        // reqwest resolves names only.
        if let Some(literal) = literal_of(url)
            && !reach.allows(literal, &self.allowed)
            // An address that is listed with its port.
            && !is_listed
        {
            return Err(Error::NotPublic(host_of(url)));
        }
        Ok(match reach {
            Reach::Public => &self.public,
            Reach::Named => &self.named,
        })
    }
}

async fn send_hop(
    client: &reqwest::Client,
    request: &FetchRequest,
    url: &Url,
    is_origin: bool,
) -> Result<Response, Error> {
    let mut headers = request.headers.clone();
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip, br"));
    if is_origin {
        headers.extend(request.credentials.clone());
    }

    let mut hop = client.request(request.method.clone(), url.clone()).headers(headers);
    if let Some(body) = &request.body {
        hop = hop.body(body.clone());
    }
    let sent = hop.send().await;
    let response = sent.map_err(|error| Error::of_request(&error, &host_of(url)))?;

    let headers = response.headers().iter();
    let bytes: usize = headers.map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    if bytes > HEADERS_BYTES_MAX {
        return Err(Error::Headers(HEADERS_BYTES_MAX));
    }
    Ok(response)
}

/// Refuses addresses that are no requests of HTTP, or would send what nobody means to.
fn check_form(url: &Url) -> Result<(), Error> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Error::Scheme(url.scheme().chars().take(32).collect()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Error::UserInfo);
    }
    if url.as_str().len() > URL_BYTES_MAX {
        return Err(Error::Request(format!("the URL has more than {URL_BYTES_MAX} bytes")));
    }
    Ok(())
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// Where a redirect leads.
fn next_url(url: &Url, location: &HeaderValue, has_credentials: bool) -> Result<Url, Error> {
    let text = std::str::from_utf8(location.as_bytes());
    let text = text.map_err(|_| Error::Redirect("its address is not UTF-8"))?;
    let next = url.join(text).map_err(|_| Error::Redirect("its address is none"))?;

    let is_downgrade = url.scheme() == "https" && next.scheme() == "http";
    if is_downgrade && has_credentials {
        return Err(Error::Redirect("it leads from https to http, with credentials"));
    }
    Ok(next)
}

/// The host and the port of an address, as they are shown.
fn host_of(url: &Url) -> String {
    let host: String = url.host_str().unwrap_or_default().chars().take(256).collect();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host,
    }
}

#[cfg(test)]
mod tests;
