//! `POST /v1/execute_tool`.

use std::sync::Arc;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use toolbus_bus::Progress;
use utoipa::ToSchema;

use super::super::Shared;
use super::super::access::{Caller, Role};
use super::super::answer::{Data, Failure, Success};
use super::super::api_error::{ApiError, ApiErrorCode};
use super::super::execution::{ExecuteData, Execution};
use super::super::fields::Fields;
use super::jobs::{JobRef, read_webhook_url};

/// A call of a tool.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct ExecuteBody {
    /// The tool, by its name or by SERVER/NAME. `tool` is the same.
    pub tool_name: String,
    /// The arguments. `arguments` is the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub params: Option<Value>,
    /// How long it may take, in milliseconds: 1,000 to 300,000, 30,000 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
    /// Whether a job is made of it that is asked for later.
    #[serde(rename = "async", skip_serializing_if = "Option::is_none")]
    pub is_async: Option<bool>,
    /// Where the end of the job is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook_url: Option<String>,
}

/// Calls a tool, and answers with its result, or with the job that was made of it.
#[utoipa::path(
    post,
    path = "/v1/execute_tool",
    operation_id = "execute_tool",
    tag = "tools",
    request_body = ExecuteBody,
    responses(
        (status = 200, body = Success<ExecuteData>),
        (status = 202, body = Success<JobRef>),
        (status = "default", body = Failure),
    ),
)]
pub(crate) async fn post(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, ApiError> {
    let mut fields = Fields::of_body(&headers, body)?;
    let execution = Execution::read(&mut fields);
    let is_async = fields.flag("async").unwrap_or_default();
    let webhook_url = read_webhook_url(&mut fields);
    if webhook_url.is_some() && !is_async {
        fields.wrong("webhook_url", "is for jobs: set async");
    }
    fields.finish()?;
    caller.need(Role::Executor)?;
    // Without a mistake there is one.
    let Some(execution) = execution else { return Err(ApiError::invalid("nothing to call")) };

    if is_async {
        let queued = super::jobs::queue(&shared, &caller, execution, webhook_url).await?;
        return Ok(queued.into_response());
    }
    run(&shared, caller, execution).await.map(|data| Data::ok(data).into_response())
}

/// Runs the call in a task of its own: it comes to its end, and is recorded, also where its client
/// goes away, which cancels it.
async fn run(
    shared: &Arc<Shared>,
    caller: Caller,
    execution: Execution,
) -> Result<ExecuteData, ApiError> {
    let stopping = || ApiError::new(ApiErrorCode::ServiceUnavailable, "the agent is about to stop");
    if shared.calls.is_closed() {
        return Err(stopping());
    }
    let cancelled = CancellationToken::new();
    let _cancel = cancelled.clone().drop_guard();
    let (done, outcome) = oneshot::channel();

    let this = Arc::clone(shared);
    shared.calls.spawn(async move {
        let scope = Arc::new(this.scope_of(caller.principal));
        let calling = this.execute(&scope, execution, Progress::none(), cancelled);
        let called = this.stop.run_until_cancelled(calling).await;
        // The client may be gone.
        let _ = done.send(called);
    });
    match outcome.await {
        Ok(Some(called)) => called,
        _ => Err(stopping()),
    }
}
