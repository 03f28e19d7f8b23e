//! Sends the webhooks of jobs, to public addresses and to what the operator allows.

use futures_util::future::BoxFuture;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Error as ClientError, Method};
use toolbus_fetch::{Error, FetchConfig, FetchRequest, Fetcher};
use toolbus_http::tool_api::{SendWebhook, WebhookError, WebhookRequest};

/// Sends webhooks by the guarded client for addresses that strangers name.
pub(crate) struct WebhookSender {
    fetcher: Fetcher,
}

impl WebhookSender {
    /// Makes what sends them.
    pub(crate) fn new(config: FetchConfig) -> Result<Self, ClientError> {
        Ok(Self { fetcher: Fetcher::new(config)? })
    }
}

impl SendWebhook for WebhookSender {
    fn send(&self, request: WebhookRequest) -> BoxFuture<'_, Result<u16, WebhookError>> {
        Box::pin(async move {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            for (name, value) in request.headers {
                if let Ok(value) = HeaderValue::from_str(&value) {
                    headers.insert(HeaderName::from_static(name), value);
                }
            }

            let fetch = FetchRequest {
                method: Method::POST,
                headers,
                body: Some(request.body.as_bytes().to_vec().into()),
                redirects_max: 0,
                timeout: request.timeout,
                ..FetchRequest::get(request.url)
            };
            // What it answers beside the status is nobody's affair.
            let response = self.fetcher.send(fetch).await;
            response.map(|response| response.status().as_u16()).map_err(to_webhook_error)
        })
    }
}

fn to_webhook_error(error: Error) -> WebhookError {
    match error {
        Error::NotPublic(_) | Error::Scheme(_) | Error::UserInfo => {
            WebhookError::Refused(error.to_string())
        }
        _ => WebhookError::Unreachable(error.to_string()),
    }
}

#[cfg(test)]
mod tests;
