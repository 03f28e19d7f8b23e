//! The description of the interface for programs, made from the types and handlers themselves.

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};

use super::answer::Failure;
use super::routes::{execute, health, jobs, keys, retrieve, servers, tools};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Toolbus tools",
        description = "Finding tools, calling them, jobs, and keys.",
        license(name = "MIT OR Apache-2.0"),
    ),
    paths(
        retrieve::post,
        retrieve::get,
        tools::list,
        tools::describe,
        execute::post,
        servers::list,
        servers::describe,
        health::get,
        jobs::create,
        jobs::read,
        jobs::delete,
        jobs::cancel,
        jobs::events,
        keys::create,
        keys::list,
        keys::revoke,
    ),
    components(schemas(Failure)),
    security(("key" = [])),
    modifiers(&BearerKey),
)]
struct Description;

struct BearerKey;

impl Modify for BearerKey {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        let components = openapi.components.get_or_insert_default();
        components.add_security_scheme("key", SecurityScheme::Http(scheme));
    }
}

/// The description, by OpenAPI 3.1.
#[must_use]
pub fn document() -> utoipa::openapi::OpenApi {
    Description::openapi()
}

/// `GET /v1/openapi.json`.
pub(crate) async fn serve() -> Response {
    Json(document()).into_response()
}
