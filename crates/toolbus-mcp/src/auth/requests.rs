//! The HTTP requests to authorization servers: each goes to an address that a stranger may have
//! named.
//!
//! Only https, or this machine when the server itself is on it: so no metadata leads a request, or
//! the secret in it, to what answers on the inside in the clear. Times, sizes and redirects are
//! bounded.

use std::time::Duration;

use oauth2::http;
use reqwest::Url;
use rmcp::transport::{
    OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRequest,
};
use tokio::time::timeout;

use crate::http::{HttpClients, is_local};

/// How long one request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest answer, in bytes.
const RESPONSE_BYTES_MAX: usize = 256 << 10;

/// The HTTP client for the OAuth requests of one server.
pub(super) struct OAuthRequests {
    clients: HttpClients,
    server_is_local: bool,
}

#[derive(Debug, thiserror::Error)]
enum RequestError {
    #[error("its address begins with http:// and is not on this machine")]
    Address,
    #[error("it did not answer within {} ms", REQUEST_TIMEOUT.as_millis())]
    Slow,
    #[error("its answer has more than {RESPONSE_BYTES_MAX} bytes")]
    TooLong,
}

impl OAuthRequests {
    pub(super) fn new(clients: &HttpClients, server: &Url) -> Self {
        Self { clients: clients.clone(), server_is_local: is_local(server) }
    }

    async fn send(&self, request: reqwest::Request) -> Result<OAuthResponse, OAuthHttpClientError> {
        if !is_allowed_address(request.url(), self.server_is_local) {
            return Err(RequestError::Address.into());
        }

        let client = self.clients.client_for(request.url());
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

/// Whether an address may be asked, or shown to a person, for a server.
pub(super) fn is_allowed_address(url: &Url, server_is_local: bool) -> bool {
    match url.scheme() {
        "https" => url.host().is_some() && (server_is_local || !is_local(url)),
        "http" => server_is_local && is_local(url),
        _ => false,
    }
}

impl OAuthHttpClient for OAuthRequests {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let request = reqwest::Request::try_from(request.request)?;
            timeout(REQUEST_TIMEOUT, self.send(request)).await.map_err(|_| RequestError::Slow)?
        })
    }
}

#[cfg(test)]
mod tests;
