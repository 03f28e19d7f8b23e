//! Places for the requests of one router, where several share a port: none of them takes the room
//! of another.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use tokio::sync::Semaphore;

use super::guarded_body::GuardedBody;

/// In how many seconds a client may try again that found no place.
const RETRY_AFTER_SECONDS: &str = "1";

/// The router with so many requests at once, from their heads to the ends of their answers; more
/// are refused with 503. It is for the routes that are there already.
pub fn with_places(router: Router, places: usize) -> Router {
    router.route_layer(from_fn_with_state(Arc::new(Semaphore::new(places)), take_place))
}

async fn take_place(
    State(places): State<Arc<Semaphore>>,
    request: Request,
    next: Next,
) -> Response {
    let Ok(place) = places.try_acquire_owned() else {
        let headers = [(RETRY_AFTER, RETRY_AFTER_SECONDS)];
        return (StatusCode::SERVICE_UNAVAILABLE, headers, "too many requests at once\n")
            .into_response();
    };
    GuardedBody::guard(next.run(request).await, place)
}
