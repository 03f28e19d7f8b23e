//! Requests to Google's APIs: with a token that is refreshed once where Google refuses it, within
//! limits, and with errors that hold no secret.

use bytes::Bytes;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, StatusCode, Url};
use serde_json::Value;
use toolbus_fetch::{BodyLimit, FetchRequest, Oversize};
use toolbus_json::Limits;
use zeroize::Zeroizing;

use super::Inner;
use super::product::Product;
use super::text::{erase, one_line};
use super::tokens::{CallToken, TokenError};

/// Largest answer, in bytes. A mail comes with its texts, and without what is attached.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// An answer: a mail, or a list of mails or events.
const ANSWER_LIMITS: Limits = Limits::of_bytes(ANSWER_BYTES_MAX);
/// How much of Google's own text an error repeats, in characters.
const TEXT_CHARS_MAX: usize = 500;
/// Longest id, in bytes.
const ID_BYTES_MAX: usize = 1_024;

/// A request to an API.
pub(super) struct ApiRequest<'a> {
    pub(super) product: Product,
    pub(super) method: Method,
    /// Segments of the path, below the product's own address. They are escaped.
    pub(super) path: &'a [&'a str],
    pub(super) query: Vec<(&'static str, String)>,
    pub(super) body: Option<Value>,
}

/// Why there is no answer, in words that models may read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ApiError {
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error("{0}")]
    Arguments(String),
    #[error(transparent)]
    Fetch(#[from] toolbus_fetch::Error),
    #[error("HTTP {status} from Google: {text}")]
    Refused { status: u16, text: String },
    #[error("the answer of Google is no JSON that can be read")]
    Unreadable,
}

impl<'a> ApiRequest<'a> {
    pub(super) fn get(
        product: Product,
        path: &'a [&'a str],
        query: Vec<(&'static str, String)>,
    ) -> Self {
        Self { product, method: Method::GET, path, query, body: None }
    }

    pub(super) fn post(product: Product, path: &'a [&'a str], body: Value) -> Self {
        Self { product, method: Method::POST, path, query: Vec::new(), body: Some(body) }
    }
}

impl Inner {
    /// Makes a request, and reads its answer.
    pub(super) async fn call(&self, request: ApiRequest<'_>) -> Result<Value, ApiError> {
        for segment in request.path {
            check_segment(segment)?;
        }
        let token = self.tokens.find(request.product, &self.client, None).await?;
        let (status, body) = self.send(&request, &token).await?;
        if status != StatusCode::UNAUTHORIZED {
            return self.read(status, &body, &token);
        }

        // Refused before anything was done: it is safe to repeat.
        let token = self.tokens.find(request.product, &self.client, Some(&token)).await?;
        let (status, body) = self.send(&request, &token).await?;
        if status == StatusCode::UNAUTHORIZED {
            return Err(TokenError::Over(request.product.title()).into());
        }
        self.read(status, &body, &token)
    }

    async fn send(
        &self,
        request: &ApiRequest<'_>,
        token: &CallToken,
    ) -> Result<(StatusCode, Vec<u8>), ApiError> {
        let endpoint = match request.product {
            Product::Gmail => &self.endpoints.gmail,
            Product::Calendar => &self.endpoints.calendar,
        };
        let mut url = endpoint.url.clone();
        set_path_and_query(&mut url, request);
        let json = HeaderValue::from_static("application/json");
        let mut headers = HeaderMap::from_iter([(ACCEPT, json.clone())]);
        let body = request.body.as_ref().map(|body| Bytes::from(body.to_string()));
        if body.is_some() {
            headers.insert(CONTENT_TYPE, json);
        }

        let _permit = self.permits.acquire().await;
        let sent = FetchRequest {
            method: request.method.clone(),
            headers,
            credentials: bearer(token),
            body,
            is_internal: endpoint.is_internal,
            redirects_max: 0,
            timeout: self.timeout,
            ..FetchRequest::get(url)
        };
        let response = self.client.fetcher.send(sent).await?;
        let status = response.status();
        let oversize = if status.is_success() { Oversize::Refuse } else { Oversize::Cut };
        let body = response.read(BodyLimit { bytes_max: ANSWER_BYTES_MAX, oversize }).await?;
        Ok((status, body.bytes))
    }

    fn read(&self, status: StatusCode, body: &[u8], token: &CallToken) -> Result<Value, ApiError> {
        let read = toolbus_json::from_slice::<Value>(body, &ANSWER_LIMITS);
        if status.is_success() {
            let read = read.ok().filter(Value::is_object);
            return read.ok_or(ApiError::Unreadable);
        }

        let read = read.unwrap_or_default();
        let said = read.pointer("/error/message").and_then(Value::as_str);
        let said = said.or_else(|| status.canonical_reason()).unwrap_or("no reason");
        let secret = self.client.known_secret();
        let secret = secret.as_ref().map_or("", |secret| secret.as_str());
        let text = erase(said, &[&token.access_token, &token.refresh_token, secret]);
        let mut text = one_line(&text, TEXT_CHARS_MAX);
        if status == StatusCode::FORBIDDEN && text.contains("insufficient authentication scopes") {
            text += " Run `agent-host login google`, and allow what is asked for there.";
        }
        Err(ApiError::Refused { status: status.as_u16(), text })
    }
}

/// An id goes into a path as one segment. What a path means by itself is none.
fn check_segment(segment: &str) -> Result<(), ApiError> {
    let is_dots = matches!(segment, "." | "..");
    let is_id = (1..=ID_BYTES_MAX).contains(&segment.len())
        && !is_dots
        && !segment.contains(char::is_control);
    if is_id {
        return Ok(());
    }
    let shown = one_line(segment, 100);
    Err(ApiError::Arguments(format!("'{shown}' is not an id of Google's")))
}

fn set_path_and_query(url: &mut Url, request: &ApiRequest<'_>) {
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty().extend(request.path);
    }
    if !request.query.is_empty() {
        url.query_pairs_mut().extend_pairs(&request.query);
    }
}

fn bearer(token: &CallToken) -> HeaderMap {
    let text = Zeroizing::new(format!("Bearer {}", token.access_token.as_str()));
    let mut value = HeaderValue::from_str(&text).expect("a token has only characters of a header");
    value.set_sensitive(true);
    HeaderMap::from_iter([(AUTHORIZATION, value)])
}
