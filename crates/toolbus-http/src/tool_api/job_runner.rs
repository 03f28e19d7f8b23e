//! Runs the jobs of an agent: claims what is queued while there is room, keeps the leases, ends
//! what other processes have left, and has their webhooks delivered.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolbus_bus::Progress;
use toolbus_policy::parse_owner;
use toolbus_store::until_changed;
use toolbus_tools::Principal;
use toolbus_tools::visitors::Visitors;

use super::Shared;
use super::api_error::{ApiError, ApiErrorCode};
use super::execution::Execution;
use super::jobs::{CHANGES, Job, JobEnd, JobRows, JobStatus, PROCESS_ENDED};
use super::keys::KeyOwner;
use super::webhook_runner;
use super::webhooks::Webhooks;

/// How often jobs and webhooks are looked for that nobody has told of.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_secs(2);
/// How often leases are renewed, and those of others looked at.
const RENEW_INTERVAL: Duration = Duration::from_secs(5);
/// How often old jobs are forgotten.
const FORGET_INTERVAL: Duration = Duration::from_secs(10 * 60);
/// How long a job is kept after its end where nobody says.
const JOB_RETENTION_TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// Longest result that is kept, in bytes.
pub const RESULT_BYTES_MAX: usize = 1 << 20;

/// How jobs are run.
#[derive(Debug, Clone, Copy)]
pub struct JobConfig {
    /// How many run at once in this process.
    pub running_max: usize,
    /// How many a client may have that have not ended.
    pub open_max: u32,
    /// How long a job is kept after its end.
    pub retention: Duration,
}

impl Default for JobConfig {
    fn default() -> Self {
        Self { running_max: 8, open_max: 100, retention: JOB_RETENTION_TTL }
    }
}

/// How far a job is that runs in this process.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct JobProgress {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) progress: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) total: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
}

/// What runs jobs.
pub(crate) struct JobRunner {
    pub(crate) rows: JobRows,
    pub(crate) config: JobConfig,
    places: Arc<Semaphore>,
    nudge: Notify,
    pub(super) tasks: TaskTracker,
    /// Fires when no more jobs are claimed.
    pub(super) closing: CancellationToken,
    /// Fires when what runs is given up.
    pub(super) stop: CancellationToken,
    running: Mutex<HashMap<String, watch::Sender<JobProgress>>>,
    pub(super) webhooks: Option<Webhooks>,
}

impl JobRunner {
    pub(crate) fn new(rows: JobRows, config: JobConfig, webhooks: Option<Webhooks>) -> Self {
        Self {
            rows,
            config,
            places: Arc::new(Semaphore::new(config.running_max)),
            nudge: Notify::new(),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
            stop: CancellationToken::new(),
            running: Mutex::default(),
            webhooks,
        }
    }

    /// Whether webhooks can be sent.
    pub(crate) fn sends_webhooks(&self) -> bool {
        self.webhooks.is_some()
    }

    /// Has the runner look for jobs.
    pub(crate) fn wake(&self) {
        self.nudge.notify_one();
    }

    /// How far a job is, where it runs in this process.
    pub(crate) fn progress_of(&self, id: &str) -> Option<watch::Receiver<JobProgress>> {
        self.running.lock().get(id).map(watch::Sender::subscribe)
    }

    /// Claims no more, and waits up to `grace` for what runs. Jobs that are left have failed, and
    /// webhooks are tried again by another process.
    pub(crate) async fn drain(&self, grace: Duration) {
        self.closing.cancel();
        self.tasks.close();
        if tokio::time::timeout(grace, self.tasks.wait()).await.is_err() {
            self.stop.cancel();
            self.tasks.wait().await;
        }
    }
}

/// Starts the runner.
pub(crate) fn start(shared: &Arc<Shared>) {
    let this = Arc::clone(shared);
    shared.jobs.tasks.spawn(async move {
        let closing = this.jobs.closing.clone();
        // Each step is a transaction of its own, so it may end between any two.
        let _ = closing.run_until_cancelled(follow(&this)).await;
        // Leases are kept until the last job has ended.
        while !this.jobs.running.lock().is_empty() {
            keep_leases(&this).await;
            webhook_runner::claim_due(&this).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        webhook_runner::claim_due(&this).await;
    });
}

async fn follow(shared: &Arc<Shared>) {
    let jobs = &shared.jobs;
    let mut changes = None;
    let (mut renewed, mut forgot) = (None::<Instant>, None::<Instant>);
    loop {
        let is_due =
            |last: Option<Instant>, interval| last.is_none_or(|at| at.elapsed() >= interval);
        if jobs.rows.store.may_hold_something() {
            if changes.is_none() {
                changes = jobs.rows.store.opened().map(|store| store.changes(CHANGES));
            }
            if is_due(renewed, RENEW_INTERVAL) {
                keep_leases(shared).await;
                renewed = Some(Instant::now());
            }
            if is_due(forgot, FORGET_INTERVAL) {
                if let Err(error) = jobs.rows.forget(jobs.config.retention).await {
                    tracing::warn!(%error, "old jobs are not forgotten yet");
                }
                shared.keys.sweep_secrets().await;
                forgot = Some(Instant::now());
            }
            claim_all(shared).await;
            webhook_runner::claim_due(shared).await;
        }

        // Nothing is lost whichever of them comes first: the rows are looked at again.
        tokio::select! {
            () = jobs.nudge.notified() => {}
            () = until_changed(changes.as_mut()) => {}
            () = tokio::time::sleep(LOOK_INTERVAL) => {}
        }
    }
}

async fn keep_leases(shared: &Arc<Shared>) {
    let rows = &shared.jobs.rows;
    if !shared.jobs.running.lock().is_empty()
        && let Err(error) = rows.renew().await
    {
        tracing::warn!(%error, "the leases of jobs are not renewed");
    }
    let error = ApiError::new(ApiErrorCode::InternalError, PROCESS_ENDED);
    match rows.end_orphaned(json!({"error": error.body}).to_string()).await {
        Ok(ended) => {
            for job in ended {
                tracing::warn!(job = job.id, "ended a job whose process is gone");
            }
        }
        Err(error) => tracing::warn!(%error, "jobs of processes that are gone are not ended"),
    }
}

async fn claim_all(shared: &Arc<Shared>) {
    let jobs = &shared.jobs;
    while let Ok(place) = Arc::clone(&jobs.places).try_acquire_owned() {
        match jobs.rows.claim().await {
            Ok(Some(job)) => run(shared, job, place),
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(%error, "jobs cannot be claimed");
                return;
            }
        }
    }
}

/// Runs a job in a task of its own.
fn run(shared: &Arc<Shared>, job: Job, place: OwnedSemaphorePermit) {
    let progress = watch::Sender::new(JobProgress::default());
    shared.jobs.running.lock().insert(job.id.clone(), progress.clone());
    let this = Arc::clone(shared);
    shared.jobs.tasks.spawn(async move {
        let end = run_to_end(&this, &job, progress).await;
        let ended = this.jobs.rows.end(&job.id, end).await;
        this.jobs.running.lock().remove(&job.id);
        drop(place);
        // There is room for another, and its webhook is due.
        this.jobs.wake();

        match ended {
            Ok(Some(_)) => {}
            Ok(None) => tracing::warn!(job = job.id, "a job had ended before it was over"),
            // Its lease runs out, and then it has failed.
            Err(error) => tracing::error!(%error, job = job.id, "the end of a job is not kept"),
        }
    });
}

async fn run_to_end(shared: &Shared, job: &Job, live: watch::Sender<JobProgress>) -> JobEnd {
    let principal = match owner_of(shared, job).await {
        Ok(principal) => principal,
        Err(error) => return end_of_error(&error),
    };
    let scope = Arc::new(shared.scope_of(principal));
    let Ok(Value::Object(arguments)) = toolbus_json::from_trusted(&job.arguments) else {
        return end_of_error(&ApiError::invalid("the arguments cannot be read"));
    };

    let execution = Execution {
        tool_name: job.tool.clone(),
        arguments,
        timeout: Duration::from_millis(u64::try_from(job.timeout_ms).unwrap_or_default()),
    };
    let progress = Progress::to(move |step| {
        live.send_replace(JobProgress {
            progress: step.progress,
            total: step.total,
            message: step.message,
        });
    });
    let cancelled = shared.jobs.stop.child_token();
    match shared.execute(&scope, execution, progress, cancelled).await {
        Ok(data) => {
            let outcome = json!({"data": data}).to_string();
            if outcome.len() > RESULT_BYTES_MAX {
                let what = format!("the result is over {RESULT_BYTES_MAX} bytes and is not kept");
                return end_of_error(&ApiError::new(ApiErrorCode::ExecutionError, what));
            }
            JobEnd { status: JobStatus::Completed, outcome }
        }
        Err(error) => end_of_error(&error),
    }
}

/// For whom a job is run. A key that was revoked since runs nothing more, and neither does a client
/// that settings do not name any more.
async fn owner_of(shared: &Shared, job: &Job) -> Result<Principal, ApiError> {
    let principal = parse_owner(&job.owner)
        .map_err(|_| ApiError::new(ApiErrorCode::InternalError, "the owner cannot be read"))?;
    let what = match KeyOwner::of(&principal) {
        Some(key) if shared.keys.active_id(key).await?.is_none() => {
            "the key of its owner was revoked or has expired"
        }
        None if Visitors::is_client(&principal) && !shared.visitors.has_client(&principal) => {
            "its owner is no client any more"
        }
        _ => return Ok(principal),
    };
    Err(ApiError::new(ApiErrorCode::Forbidden, what))
}

fn end_of_error(error: &ApiError) -> JobEnd {
    let status = match error.body.code {
        ApiErrorCode::ExecutionTimeout => JobStatus::Timeout,
        _ => JobStatus::Failed,
    };
    JobEnd { status, outcome: json!({"error": error.body}).to_string() }
}
