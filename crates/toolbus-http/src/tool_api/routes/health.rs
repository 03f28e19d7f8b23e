//! `GET /v1/health`, for everybody.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::super::Shared;
use super::super::answer::{Data, Success};

/// How it is.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct HealthData {
    /// `healthy`; `degraded`: some tools cannot be reached; `unhealthy`: no request can be
    /// answered.
    pub status: String,
}

/// Says how it is.
#[utoipa::path(
    get,
    path = "/v1/health",
    operation_id = "health",
    tag = "health",
    security(()),
    responses(
        (status = 200, body = Success<HealthData>),
        (status = 503, body = Success<HealthData>),
    ),
)]
pub(crate) async fn get(State(shared): State<Arc<Shared>>) -> Data<HealthData> {
    let (status, text) = if shared.calls.is_closed() || shared.store.open().await.is_err() {
        (StatusCode::SERVICE_UNAVAILABLE, "unhealthy")
    } else if shared.catalogue.is_something_away() {
        (StatusCode::OK, "degraded")
    } else {
        (StatusCode::OK, "healthy")
    };
    Data(status, HealthData { status: text.to_owned() })
}
