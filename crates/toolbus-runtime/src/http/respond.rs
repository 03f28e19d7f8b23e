//! The response to one request.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;

use super::request_body::{BodyProgress, BodyTimeouts, RequestBody};

/// Answers a request, with 408 when its body did not come in time, whatever the handler makes of
/// that. Where some of the request is unread by then, its rest is in the way of another one, so the
/// connection has to end; a client that was not told would send the next one in vain.
pub(super) async fn respond(
    router: Router,
    request: Request<Incoming>,
    timeouts: BodyTimeouts,
    progress: Arc<BodyProgress>,
) -> Result<Response, Infallible> {
    let request = request.map(|body| RequestBody::new(body, timeouts, Arc::clone(&progress)));
    let mut response = TowerToHyperService::new(router).call(request).await?;

    if progress.is_timed_out() {
        response = StatusCode::REQUEST_TIMEOUT.into_response();
    }
    if progress.is_unread() {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }

    Ok(response)
}
