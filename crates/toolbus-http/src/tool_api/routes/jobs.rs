//! `POST /v1/jobs`, `GET` and `DELETE /v1/jobs/{id}`, `POST /v1/jobs/{id}/cancel`, and
//! `GET /v1/jobs/{id}/events`.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, watch};
use toolbus_policy::owner_text;
use toolbus_store::until_changed;
use toolbus_tools::scope::Proof;
use url::Url;
use utoipa::ToSchema;

use super::super::access::{Caller, Role};
use super::super::answer::{Data, Failure, Success, iso_time};
use super::super::api_error::{ApiError, ApiErrorCode, ErrorBody};
use super::super::execution::{ExecuteData, Execution};
use super::super::fields::Fields;
use super::super::job_runner::JobProgress;
use super::super::jobs::{CHANGES, Cancelled, Job, JobStatus, NewJob};
use super::super::keys::KEY_ISSUER;
use super::super::{STREAMS_MAX, Shared};
use super::execute::ExecuteBody;

/// Longest address of a webhook, in characters.
const URL_CHARS_MAX: usize = 2_048;
/// How often a client that reads events is told that they go on, where nothing else is said.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// How often a job is looked at that nobody has told of.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// A job that was queued.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct JobRef {
    /// Its id.
    pub job_id: String,
    /// How far it is.
    pub status: JobStatus,
}

/// A job.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct JobData {
    /// Its id.
    pub job_id: String,
    /// How far it is.
    pub status: JobStatus,
    /// What it calls.
    pub tool_name: String,
    /// When it was queued: UTC, ISO 8601.
    pub created_at: String,
    /// When it began to run.
    pub started_at: Option<String>,
    /// When it ended.
    pub ended_at: Option<String>,
    /// How its call came out, where it is completed.
    pub result: Option<ExecuteData>,
    /// Why it has none, where it failed or took too long.
    pub error: Option<ErrorBody>,
    /// What became of its webhook: `delivered` or `failed`.
    pub webhook: Option<String>,
}

impl JobData {
    pub(crate) fn of(job: &Job) -> Self {
        let outcome = job.outcome.as_deref();
        let outcome = outcome.and_then(|text| toolbus_json::from_trusted(text).ok());
        let mut outcome: Value = outcome.unwrap_or_default();
        let mut take = |name: &str| outcome.get_mut(name).map(Value::take);
        let result = take("data").and_then(|data| serde_json::from_value(data).ok());
        let error = take("error").and_then(|error| serde_json::from_value(error).ok());
        Self {
            job_id: job.id.clone(),
            status: job.status,
            tool_name: job.tool.clone(),
            created_at: iso_time(job.created_ms),
            started_at: job.started_ms.map(iso_time),
            ended_at: job.ended_ms.map(iso_time),
            result,
            error,
            webhook: job.webhook_state.clone(),
        }
    }
}

/// Has a tool called in the background.
#[utoipa::path(
    post,
    path = "/v1/jobs",
    operation_id = "create_job",
    tag = "jobs",
    request_body = ExecuteBody,
    responses((status = 202, body = Success<JobRef>), (status = "default", body = Failure)),
)]
pub(crate) async fn create(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Data<JobRef>, ApiError> {
    let mut fields = Fields::of_body(&headers, body)?;
    let execution = Execution::read(&mut fields);
    if fields.flag("async") == Some(false) {
        fields.wrong("async", "is true of every job");
    }
    let webhook_url = read_webhook_url(&mut fields);
    fields.finish()?;
    caller.need(Role::Executor)?;
    let Some(execution) = execution else { return Err(ApiError::invalid("nothing to call")) };
    queue(&shared, &caller, execution, webhook_url).await
}

/// The address of a webhook, checked as far as its text goes.
pub(crate) fn read_webhook_url(fields: &mut Fields) -> Option<Url> {
    let text = fields.text(&["webhook_url"], 1..=URL_CHARS_MAX)?;
    let url = Url::parse(&text).ok();
    let url = url.filter(|url| matches!(url.scheme(), "https" | "http") && url.has_host());
    let url = url.filter(|url| url.username().is_empty() && url.password().is_none());
    if url.is_none() {
        fields.wrong("webhook_url", "must be an address of https or http, without a password");
    }
    url
}

/// Queues a call as a job of the caller.
pub(crate) async fn queue(
    shared: &Shared,
    caller: &Caller,
    execution: Execution,
    webhook_url: Option<Url>,
) -> Result<Data<JobRef>, ApiError> {
    if webhook_url.is_some() {
        check_webhooks(shared, caller)?;
    }
    // What does not exist is told at once; the rest is checked when it is called.
    let scope = shared.scope_of(caller.principal.clone());
    shared.find_tool(&scope, &execution.tool_name)?;

    let new = NewJob {
        owner: owner_text(&caller.principal),
        tool: execution.tool_name,
        arguments: Value::Object(execution.arguments).to_string(),
        timeout_ms: i64::try_from(execution.timeout.as_millis()).unwrap_or(i64::MAX),
        webhook_url: webhook_url.map(String::from),
    };
    let open_max = shared.jobs.config.open_max;
    let queued = shared.jobs.rows.queue(new, i64::from(open_max)).await?;
    let job = queued.ok_or_else(|| {
        let what = format!("you have {open_max} jobs that have not ended, and that is the limit");
        ApiError::new(ApiErrorCode::RateLimited, what)
    })?;
    shared.jobs.wake();
    Ok(Data(StatusCode::ACCEPTED, JobRef { job_id: job.id, status: job.status }))
}

fn check_webhooks(shared: &Shared, caller: &Caller) -> Result<(), ApiError> {
    if !shared.jobs.sends_webhooks() {
        return Err(ApiError::invalid("webhook_url: webhooks are not sent here"));
    }
    if !shared.keys.have_secrets() {
        let what = "webhook_url: webhooks are not sent here, since there is no vault for what they \
                    are signed with";
        return Err(ApiError::invalid(what));
    }
    let has_key =
        matches!(&caller.principal.proof, Proof::Token { issuer, .. } if **issuer == *KEY_ISSUER);
    match has_key {
        true => Ok(()),
        false => Err(ApiError::invalid("webhook_url: webhooks are signed for keys alone")),
    }
}

/// Says how far a job is.
#[utoipa::path(
    get,
    path = "/v1/jobs/{id}",
    operation_id = "read_job",
    tag = "jobs",
    params(("id" = String, Path, description = "Its id")),
    responses((status = 200, body = Success<JobData>), (status = "default", body = Failure)),
)]
pub(crate) async fn read(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Data<JobData>, ApiError> {
    caller.need(Role::Reader)?;
    let job = find(&shared, &caller, &id).await?;
    Ok(Data::ok(JobData::of(&job)))
}

async fn find(shared: &Shared, caller: &Caller, id: &str) -> Result<Job, ApiError> {
    let found = shared.jobs.rows.find(&owner_text(&caller.principal), id).await?;
    found.ok_or_else(|| no_job(id))
}

fn no_job(id: &str) -> ApiError {
    ApiError::new(ApiErrorCode::JobNotFound, format!("you have no job '{id}'"))
}

/// Cancels a job that is queued.
#[utoipa::path(
    delete,
    path = "/v1/jobs/{id}",
    operation_id = "delete_job",
    tag = "jobs",
    params(("id" = String, Path, description = "Its id")),
    responses((status = 200, body = Success<JobData>), (status = "default", body = Failure)),
)]
pub(crate) async fn delete(
    shared: State<Arc<Shared>>,
    caller: Extension<Caller>,
    id: Path<String>,
) -> Result<Data<JobData>, ApiError> {
    cancel(shared, caller, id).await
}

/// Cancels a job that is queued.
#[utoipa::path(
    post,
    path = "/v1/jobs/{id}/cancel",
    operation_id = "cancel_job",
    tag = "jobs",
    params(("id" = String, Path, description = "Its id")),
    responses((status = 200, body = Success<JobData>), (status = "default", body = Failure)),
)]
pub(crate) async fn cancel(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Data<JobData>, ApiError> {
    caller.need(Role::Executor)?;
    let owner = owner_text(&caller.principal);
    match shared.jobs.rows.cancel(&owner, &id).await? {
        Cancelled::Yes(job) => {
            // Its webhook is due.
            shared.jobs.wake();
            Ok(Data::ok(JobData::of(&job)))
        }
        Cancelled::TooLate(job) => {
            let status = job.status.as_str();
            let what = format!("only a queued job can be cancelled, and this one is {status}");
            Err(ApiError::invalid(what).with_details(json!({"status": status})))
        }
        Cancelled::NoJob => Err(no_job(&id)),
    }
}

/// Tells what happens to a job by server-sent events: `status` with the job, and `progress`.
#[utoipa::path(
    get,
    path = "/v1/jobs/{id}/events",
    operation_id = "follow_job",
    tag = "jobs",
    params(("id" = String, Path, description = "Its id")),
    responses(
        (status = 200, content_type = "text/event-stream", body = String),
        (status = "default", body = Failure),
    ),
)]
pub(crate) async fn events(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    caller.need(Role::Reader)?;
    find(&shared, &caller, &id).await?;
    let place = Arc::clone(&shared.streams).try_acquire_owned().map_err(|_| {
        let what = format!("{STREAMS_MAX} clients follow jobs, and that is the limit");
        ApiError::new(ApiErrorCode::ServiceUnavailable, what)
    })?;

    let changes = shared.jobs.rows.store.opened().map(|store| store.changes(CHANGES));
    let following = Following {
        shared,
        caller,
        id,
        changes,
        live: None,
        told: None,
        is_over: false,
        _place: place,
    };
    let events = stream::unfold(following, |mut following| async move {
        let event = following.next().await?;
        Some((Ok::<_, Infallible>(event), following))
    });
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE_INTERVAL);
    Ok(Sse::new(events).keep_alive(keep_alive).into_response())
}

/// A client that is told what happens to a job.
struct Following {
    shared: Arc<Shared>,
    caller: Caller,
    id: String,
    changes: Option<watch::Receiver<u64>>,
    /// How far it is, where it runs in this process.
    live: Option<watch::Receiver<JobProgress>>,
    /// The status that was told last.
    told: Option<JobStatus>,
    is_over: bool,
    _place: OwnedSemaphorePermit,
}

impl Following {
    async fn next(&mut self) -> Option<Event> {
        while !self.is_over && !self.shared.stop.is_cancelled() {
            let job = find(&self.shared, &self.caller, &self.id).await.ok()?;
            if self.told != Some(job.status) {
                self.told = Some(job.status);
                self.is_over = job.status.is_end();
                return Some(event_of("status", &JobData::of(&job)));
            }

            if self.live.is_none() {
                self.live = self.shared.jobs.progress_of(&self.id);
                // Steps from before are told too.
                self.live.iter_mut().for_each(watch::Receiver::mark_changed);
            }
            if let Some(progress) = self.wait().await {
                return Some(event_of("progress", &progress));
            }
        }
        None
    }

    /// Waits until something may have happened, and gives the progress where that is what has.
    async fn wait(&mut self) -> Option<JobProgress> {
        let Self { live, changes, .. } = self;
        // Nothing is lost whichever of them comes first: each is looked at again.
        tokio::select! {
            biased;
            stepped = stepped(live.as_mut()) => {
                if !stepped {
                    *live = None;
                    return None;
                }
                let step = live.as_mut().map(|live| live.borrow_and_update().clone());
                step.filter(|step| *step != JobProgress::default())
            }
            () = until_changed(changes.as_mut()) => None,
            () = tokio::time::sleep(LOOK_INTERVAL) => None,
            () = self.shared.stop.cancelled() => None,
        }
    }
}

/// Waits for a step of a job in this process; `false` when it has ended.
async fn stepped(live: Option<&mut watch::Receiver<JobProgress>>) -> bool {
    match live {
        Some(live) => live.changed().await.is_ok(),
        None => std::future::pending().await,
    }
}

fn event_of(name: &str, data: &impl Serialize) -> Event {
    let data = serde_json::to_string(data).unwrap_or_default();
    Event::default().event(name).data(data)
}
