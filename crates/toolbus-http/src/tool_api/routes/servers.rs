//! `GET /v1/servers`.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::super::Shared;
use super::super::access::{Caller, Role};
use super::super::answer::{Data, Failure, Success, iso_time, now_ms};
use super::super::api_error::{ApiError, ApiErrorCode};
use super::super::catalogue::ServerEntry;

/// The servers.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct ServersData {
    /// By name.
    pub servers: Vec<ServerData>,
}

/// A server whose tools the caller may use.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct ServerData {
    /// What it is called.
    pub name: String,
    /// `connected`, `disconnected` or `error`.
    pub status: String,
    /// How many tools it has for the caller.
    pub tool_count: u64,
    /// When that was looked at: UTC, ISO 8601.
    pub last_checked: String,
}

impl ServerData {
    fn of(entry: ServerEntry) -> Self {
        let status = if entry.is_connected { "connected" } else { "disconnected" };
        Self {
            name: entry.name,
            status: status.to_owned(),
            tool_count: entry.tools,
            last_checked: iso_time(now_ms()),
        }
    }
}

/// Lists the servers.
#[utoipa::path(
    get,
    path = "/v1/servers",
    operation_id = "list_servers",
    tag = "servers",
    responses((status = 200, body = Success<ServersData>), (status = "default", body = Failure)),
)]
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
) -> Result<Data<ServersData>, ApiError> {
    caller.need(Role::Reader)?;
    let scope = shared.scope_of(caller.principal);
    let servers = shared.catalogue.servers(&scope).into_iter().map(ServerData::of).collect();
    Ok(Data::ok(ServersData { servers }))
}

/// Describes a server.
#[utoipa::path(
    get,
    path = "/v1/servers/{name}",
    operation_id = "describe_server",
    tag = "servers",
    params(("name" = String, Path, description = "What it is called")),
    responses((status = 200, body = Success<ServerData>), (status = "default", body = Failure)),
)]
pub(crate) async fn describe(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
) -> Result<Data<ServerData>, ApiError> {
    caller.need(Role::Reader)?;
    let scope = shared.scope_of(caller.principal);
    let found = shared.catalogue.servers(&scope).into_iter().find(|entry| entry.name == name);
    let found = found.ok_or_else(|| {
        ApiError::new(ApiErrorCode::ServerNotFound, format!("there is no server '{name}'"))
    })?;
    Ok(Data::ok(ServerData::of(found)))
}
