//! The envelope of every answer, and the one place that makes it: handlers give their data or
//! error, and this adds the id of the request, the time and the limits of the caller.

use std::sync::Arc;

use axum::Json;
use axum::body::HttpBody as _;
use axum::extract::{Request, State};
use axum::http::header::{ALLOW, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolbus_wire::clock::unix_now;
use toolbus_wire::envelope::new_id;
use utoipa::ToSchema;

use super::Shared;
use super::access::{self, Admission};
use super::api_error::{ApiError, ErrorBody};
use super::plans::Standing;

const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What is said of the answer itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Meta {
    /// The id of the request, for questions about it.
    pub request_id: String,
    /// When it was answered: UTC, ISO 8601.
    pub timestamp: String,
}

/// An answer with data.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub(crate) struct Success<T: ToSchema> {
    /// True.
    pub success: bool,
    /// What was asked for.
    pub data: T,
    /// Of the answer itself.
    pub meta: Meta,
}

/// An answer without.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub(crate) struct Failure {
    /// False.
    pub success: bool,
    /// Why.
    pub error: ErrorBody,
    /// Of the answer itself.
    pub meta: Meta,
}

/// What a handler answers, on its way to the envelope.
#[derive(Debug, Clone)]
pub(crate) enum Payload {
    Data(Value),
    Error(ErrorBody),
}

/// Data of a handler.
pub(crate) struct Data<T>(pub(crate) StatusCode, pub(crate) T);

impl<T> Data<T> {
    pub(crate) fn ok(data: T) -> Self {
        Self(StatusCode::OK, data)
    }
}

impl<T: Serialize> IntoResponse for Data<T> {
    fn into_response(self) -> Response {
        let mut response = self.0.into_response();
        // Only maps with other keys than texts, and failing implementations, cannot be written.
        let data = serde_json::to_value(self.1).unwrap_or_default();
        response.extensions_mut().insert(Payload::Data(data));
        response
    }
}

/// A moment as answers have it: UTC, ISO 8601 with milliseconds and `Z`.
pub(crate) fn iso_time(unix_ms: i64) -> String {
    let time = Timestamp::from_millisecond(unix_ms).unwrap_or_default();
    format!("{time:.3}")
}

pub(crate) fn now_ms() -> i64 {
    i64::try_from(unix_now().as_millis()).unwrap_or(i64::MAX)
}

/// Lets a request in, has it answered, and puts the answer into its envelope.
pub(crate) async fn wrap(
    State(shared): State<Arc<Shared>>,
    request: Request,
    next: Next,
) -> Response {
    let meta = Meta { request_id: new_id(), timestamp: iso_time(now_ms()) };
    let is_options = request.method() == Method::OPTIONS;

    let (mut parts, body) = request.into_parts();
    let (response, standing) = match access::admit(&shared, &parts).await {
        Ok(Admission { caller, standing }) => {
            if let Some(caller) = caller {
                parts.extensions.insert(caller);
            }
            (next.run(Request::from_parts(parts, body)).await, standing)
        }
        Err(refused) => (refused.error.into_response(), refused.standing),
    };

    let response = match response.status() {
        StatusCode::METHOD_NOT_ALLOWED if is_options => allowed_methods(response.headers()),
        StatusCode::METHOD_NOT_ALLOWED => wrong_method(response.headers()),
        _ => response,
    };
    finish(response, meta, standing)
}

/// The answer to `OPTIONS`: the methods that there are. Pages of other origins get no more.
fn allowed_methods(headers: &HeaderMap) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    if let Some(allow) = headers.get(ALLOW) {
        response.headers_mut().insert(ALLOW, allow.clone());
    }
    response
}

fn wrong_method(headers: &HeaderMap) -> Response {
    let error = ApiError::invalid("this address is not for requests of this method");
    let mut response = error.with_status(StatusCode::METHOD_NOT_ALLOWED).into_response();
    if let Some(allow) = headers.get(ALLOW) {
        response.headers_mut().insert(ALLOW, allow.clone());
    }
    response
}

fn finish(mut response: Response, meta: Meta, standing: Standing) -> Response {
    let id = HeaderValue::from_str(&meta.request_id);
    if let Some(payload) = response.extensions_mut().remove::<Payload>() {
        response = fill(response, payload, meta);
    }

    let headers = response.headers_mut();
    headers.insert(LIMIT, HeaderValue::from(standing.limit));
    headers.insert(REMAINING, HeaderValue::from(standing.remaining));
    headers.insert(RESET, HeaderValue::from(standing.reset_s));
    if let Ok(id) = id {
        headers.insert(REQUEST_ID, id);
    }
    if response.status() == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

/// Gives the payload as the body of the response, with its status and headers.
fn fill(response: Response, payload: Payload, meta: Meta) -> Response {
    let (parts, body) = response.into_parts();
    debug_assert!(body.is_end_stream(), "a payload is the whole body");

    let mut retry_after = None;
    let mut filled = match payload {
        Payload::Data(data) => {
            Json(serde_json::json!({"success": true, "data": data, "meta": meta})).into_response()
        }
        Payload::Error(error) => {
            retry_after = error.retry_after;
            Json(Failure { success: false, error, meta }).into_response()
        }
    };
    *filled.status_mut() = parts.status;
    let kept = parts.headers.into_iter().filter_map(|(name, value)| Some((name?, value)));
    let kept = kept.filter(|(name, _)| *name != CONTENT_TYPE && *name != CONTENT_LENGTH);
    filled.headers_mut().extend(kept);
    if let Some(seconds) = retry_after {
        filled.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    filled
}
