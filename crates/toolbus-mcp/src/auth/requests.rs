//! The HTTP requests to authorization servers: each goes to an address that a stranger may have
//! named.
//!
//! Only https, or this machine when the server or the configured issuer is on it: so no metadata
//! leads a request, or the secret in it, to what answers on the inside in the clear. Where an
//! issuer is configured, metadata is asked of the server and of that issuer only. Times, sizes and
//! redirects are bounded.

use std::time::Duration;

use oauth2::http;
use reqwest::header::{ACCEPT, HeaderValue, LOCATION};
use reqwest::{Method, StatusCode, Url};
use rmcp::transport::{
    OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRequest,
};
use tokio::time::timeout;

use crate::config::Issuer;
use crate::http::{HttpClients, is_local};

/// How long a request for a document may take.
const DOCUMENT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a token or a registration may take: what is lost with a late answer may be the only
/// refresh token that is good.
const GRANT_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest answer, in bytes.
pub(super) const RESPONSE_BYTES_MAX: usize = 256 << 10;
/// Longest chain of redirects of a document.
const REDIRECTS_MAX: usize = 5;

/// The HTTP client for the OAuth requests of one server.
pub(super) struct OAuthRequests {
    clients: HttpClients,
    server: Url,
    /// Whether addresses on this machine may be asked.
    allows_local: bool,
    /// The only issuer that is asked.
    issuer: Option<Issuer>,
}

#[derive(Debug, thiserror::Error)]
enum RequestError {
    #[error("its address begins with http:// and is not on this machine")]
    Address,
    #[error("it did not answer within {} ms", .0.as_millis())]
    Slow(Duration),
    #[error("its answer has more than {RESPONSE_BYTES_MAX} bytes")]
    TooLong,
    #[error("it answered with HTTP {}", .0.as_u16())]
    Status(StatusCode),
    #[error("it has more than {REDIRECTS_MAX} redirects")]
    Redirects,
}

impl OAuthRequests {
    pub(super) fn new(clients: &HttpClients, server: &Url, issuer: Option<&Issuer>) -> Self {
        Self {
            clients: clients.clone(),
            server: server.clone(),
            allows_local: is_local(server) || issuer.is_some_and(|issuer| is_local(issuer.url())),
            issuer: issuer.cloned(),
        }
    }

    /// Whether an address may be asked, or shown to a person.
    pub(super) fn is_allowed(&self, url: &Url) -> bool {
        is_allowed_address(url, self.allows_local)
    }

    /// Reads a document, at this address or where redirects within its origin lead. `None` where
    /// there is none.
    pub(super) async fn get_document(
        &self,
        mut url: Url,
    ) -> Result<Option<Vec<u8>>, OAuthHttpClientError> {
        for _ in 0..=REDIRECTS_MAX {
            let mut request = reqwest::Request::new(Method::GET, url.clone());
            request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
            let answer = self.send_in_time(request).await?;

            let status = answer.status();
            let location = answer.headers().get(LOCATION).and_then(|value| value.to_str().ok());
            let next = location.and_then(|location| url.join(location).ok());
            match next.filter(|next| status.is_redirection() && next.origin() == url.origin()) {
                Some(next) => url = next,
                None if status == StatusCode::OK => return Ok(Some(answer.into_body())),
                // It may be there another time.
                None if is_passing(status) => return Err(RequestError::Status(status).into()),
                None => return Ok(None),
            }
        }

        Err(RequestError::Redirects.into())
    }

    /// Whether metadata may be asked of this address. What is not asked counts as not there, so
    /// that a server may name other issuers before the configured one.
    fn may_be_asked(&self, request: &reqwest::Request) -> bool {
        let Some(issuer) = &self.issuer else { return true };
        let origin = request.url().origin();
        // All other requests go where the issuer's own metadata has it.
        request.method() != Method::GET
            || origin == self.server.origin()
            || origin == issuer.url().origin()
    }

    async fn send_in_time(
        &self,
        request: reqwest::Request,
    ) -> Result<OAuthResponse, OAuthHttpClientError> {
        let is_document = request.method() == Method::GET;
        let limit = if is_document { DOCUMENT_TIMEOUT } else { GRANT_TIMEOUT };
        timeout(limit, self.send(request)).await.map_err(|_| RequestError::Slow(limit))?
    }

    async fn send(&self, request: reqwest::Request) -> Result<OAuthResponse, OAuthHttpClientError> {
        if !self.may_be_asked(&request) {
            let mut answer = http::Response::new(Vec::new());
            *answer.status_mut() = StatusCode::NOT_FOUND;
            return Ok(answer);
        }

        if !self.is_allowed(request.url()) {
            return Err(RequestError::Address.into());
        }

        let client = self.clients.client_for(request.url())?;
        let mut response = client.execute(request).await.map_err(reqwest::Error::without_url)?;
        let mut body = Vec::new();

        while let Some(chunk) = response.chunk().await.map_err(reqwest::Error::without_url)? {
            if body.len() + chunk.len() > RESPONSE_BYTES_MAX {
                return Err(RequestError::TooLong.into());
            }
            body.extend_from_slice(&chunk);
        }

        let mut answer = http::Response::new(body);
        *answer.status_mut() = response.status();
        *answer.headers_mut() = std::mem::take(response.headers_mut());
        Ok(answer)
    }
}

type OAuthResponse = http::Response<Vec<u8>>;

/// Whether a status says that the answer may be another one soon.
fn is_passing(status: StatusCode) -> bool {
    status.is_server_error()
        || matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS)
}

fn is_allowed_address(url: &Url, allows_local: bool) -> bool {
    match url.scheme() {
        "https" => url.host().is_some() && (allows_local || !is_local(url)),
        "http" => allows_local && is_local(url),
        _ => false,
    }
}

impl OAuthHttpClient for OAuthRequests {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let request = reqwest::Request::try_from(request.request)?;
            self.send_in_time(request).await
        })
    }
}

#[cfg(test)]
mod tests;
