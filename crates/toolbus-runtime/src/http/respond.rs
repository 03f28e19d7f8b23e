//! The response to one request.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue, SERVER};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;

use super::request_body::{BodyProgress, RequestBody};
use super::waiting::Place;
use super::{SERVER_NAME, Timeouts};

/// What answers the requests of one connection.
#[derive(Clone)]
pub(super) struct Answering {
    pub(super) router: Router,
    /// Where the requests come from.
    pub(super) peer: SocketAddr,
    pub(super) timeouts: Timeouts,
    pub(super) progress: Arc<BodyProgress>,
    /// The connection's place among those that wait.
    pub(super) place: Arc<Place>,
}

impl Answering {
    /// Answers a request, with 408 when its body did not come in time, whatever the handler makes
    /// of that: it may say more about it, but nothing else. Where some of the request is unread by
    /// then, its rest is in the way of another one, so the connection has to end; a client that was
    /// not told would send the next one in vain.
    pub(super) async fn respond(self, request: Request<Incoming>) -> Result<Response, Infallible> {
        let Self { router, peer, timeouts, progress, place } = self;
        place.leave();
        let mut request =
            request.map(|body| RequestBody::new(body, timeouts, Arc::clone(&progress)));
        request.extensions_mut().insert(peer);
        let mut response = TowerToHyperService::new(router).call(request).await?;

        if progress.is_timed_out() && response.status() != StatusCode::REQUEST_TIMEOUT {
            response = StatusCode::REQUEST_TIMEOUT.into_response();
        }
        if progress.is_unread() {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }

        response.headers_mut().insert(SERVER, HeaderValue::from_static(SERVER_NAME));
        Ok(place.wait_after(response))
    }
}
