//! The probe of network policy: a pod that tries whether the cluster enforces it.
//!
//! That there is a NetworkPolicy says little: network plugins that know of none ignore it without a
//! word. So one pod is made that differs from a script's in its program alone, which has no filter
//! of ours and tries to reach the API server (`probe.py`).
//!
//! Invariants: nothing waits for the probe; it takes no script's turn, and no warm pod is evicted
//! for it; its pod is owned like any other, so it is deleted soon, whatever becomes of the probe;
//! policy is reported as enforced only where there is one and a pod that it selects reached
//! nothing.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use serde::Serialize;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use toolbus_scripts::runner::Error;

use crate::pod_lifecycle::{OwnedPod, PodCreation, PodSignals};
use crate::pod_spec::{PodIdentity, describe_pod};
use crate::pod_startup::StartGraces;
use crate::pod_watch::ContainerEnd;
use crate::requests::with_retry;
use crate::runner::{KubernetesRunner, RunnerInner};
use crate::{errors, namespace, pod_startup};

/// What the pod does: it needs nine seconds at the most.
const PROGRAM: &str = include_str!("python/probe.py");
/// How long the pod may take from its start until the cluster has noticed its end.
const PROBE_TIMEOUT: Duration = Duration::from_secs(30);
/// More than the program says, and than an interpreter says of its failure.
const LOG_BYTES_MAX: i64 = 4 << 10;
/// How much of that is logged.
const REASON_CHARS_MAX: usize = 200;

/// Whether network policy holds pods, as far as the probe has shown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum PolicyStatus {
    /// There was no probe, or it has not come to its end.
    #[default]
    Untried,
    /// A pod could not reach the API server, which a policy of the namespace denies it.
    Enforced,
    /// A pod reached the API server. Only their own filter keeps scripts from the network.
    NotEnforced,
    /// The probe has shown nothing.
    Unknown {
        /// Why not.
        reason: String,
    },
}

/// The finding of the probe.
#[derive(Debug, PartialEq, Eq)]
enum ProbeFinding {
    Reached,
    Unreached,
}

impl KubernetesRunner {
    /// Starts the probe of network policy, and returns at once. Its result is
    /// logged, once, and [returned](Self::policy) from then on. [`close`](Self::close) ends it.
    pub fn probe_policy(&self) {
        let inner = Arc::clone(&self.inner);
        self.inner.background.spawn(async move { inner.run_probe().await });
    }

    /// Whether network policy is enforced, as far as is known.
    #[must_use]
    pub fn policy(&self) -> PolicyStatus {
        self.inner.policy.lock().clone()
    }
}

impl RunnerInner {
    async fn run_probe(&self) {
        let stop = &self.background_stop;
        // Dropped half way it leaves nothing: its pod is deleted with what holds it.
        let probed = tokio::select! {
            probed = self.try_probe(stop) => probed,
            () = stop.cancelled() => return,
        };
        let status = match probed {
            Ok(status) => status,
            Err(Error::Cancelled) => return,
            Err(error) => PolicyStatus::Unknown { reason: reason_text(error) },
        };
        let namespace = &self.settings.namespace;

        match &status {
            PolicyStatus::Enforced => tracing::info!(namespace, "network policy is enforced"),
            PolicyStatus::NotEnforced => tracing::warn!(
                namespace,
                "network policy is not enforced: pods reach the network, and only their own filter \
                 of system calls keeps scripts from it"
            ),
            PolicyStatus::Untried => {}
            PolicyStatus::Unknown { reason } => {
                tracing::warn!(namespace, reason, "cannot tell whether network policy is enforced");
            }
        }

        *self.policy.lock() = status;
    }

    async fn try_probe(&self, stop: &CancellationToken) -> Result<PolicyStatus, Error> {
        let identity = PodIdentity::for_probe(self.keeper.manager());
        let start_timeout = self.settings.start_timeout.duration();
        let lifetime = start_timeout + PROBE_TIMEOUT;
        let by = Instant::now() + start_timeout;
        let signals = PodSignals::cancelled_by(stop);
        let description = describe_probe(describe_pod(&self.settings, &identity, lifetime));
        let PodCreation::Created(mut pod) =
            self.keeper.create_pod(&identity, description, &signals, by).await?
        else {
            return Err(Error::Failed("the name of a new pod was taken".to_owned()));
        };
        let ended = wait_for_end(&mut pod, lifetime).await?;
        let parameters = LogParams { limit_bytes: Some(LOG_BYTES_MAX), ..LogParams::default() };
        let log = with_retry(|| self.pods.logs(&pod.name, &parameters)).await;
        let log = log.map_err(|error| cluster_unavailable("its log cannot be read", &error))?;

        match read_finding(&ended, &log)? {
            ProbeFinding::Reached => Ok(PolicyStatus::NotEnforced),
            ProbeFinding::Unreached => self.judge_unreached().await,
        }
    }

    /// Judges a pod that reached nothing: that proves a policy only where there is one.
    async fn judge_unreached(&self) -> Result<PolicyStatus, Error> {
        match namespace::denies_all_traffic(&self.client, &self.settings.namespace).await {
            Ok(true) => Ok(PolicyStatus::Enforced),
            Ok(false) => {
                let text = "its pod reached nothing, though no NetworkPolicy denies it that";
                Err(Error::Failed(text.to_owned()))
            }
            Err(error) => Err(cluster_unavailable("policies cannot be looked for", &error)),
        }
    }
}

fn cluster_unavailable(what: &str, error: &kube::Error) -> Error {
    Error::Unavailable(format!("{what}: {}", errors::error_chain(error)))
}

/// The reason in an error, without the prefix for callers of scripts.
fn reason_text(error: Error) -> String {
    match error {
        Error::Failed(text) | Error::Busy(text) | Error::Unavailable(text) => text,
        error => error.to_string(),
    }
}

/// Describes the probe's pod: a script's pod with the program of the probe.
fn describe_probe(mut pod: Pod) -> Pod {
    let spec = pod.spec.get_or_insert_default();
    if let Some(program) = spec.containers[0].command.as_mut().and_then(|words| words.last_mut()) {
        PROGRAM.clone_into(program);
    }
    pod
}

/// Waits until the probe pod has ended by itself.
async fn wait_for_end(pod: &mut OwnedPod, limit: Duration) -> Result<ContainerEnd, Error> {
    let graces = StartGraces { delay: limit, unscheduled: limit };
    let over = timeout(limit, pod_startup::wait_for_failure(&mut pod.follower, graces)).await;
    let ended = pod.follower.observed.borrow().container_end.clone();
    match (ended, over) {
        (Some(ended), _) => Ok(ended),
        (None, Ok(error)) => Err(error),
        (None, Err(_)) => Err(Error::Failed(format!("its end was not heard of within {limit:?}"))),
    }
}

/// Reads the finding from the log of a pod that came to its end.
fn read_finding(ended: &ContainerEnd, log: &str) -> Result<ProbeFinding, Error> {
    let last = log.lines().last().unwrap_or_default();
    match last {
        "reached" if ended.exit_code == Some(0) => Ok(ProbeFinding::Reached),
        _ if ended.exit_code == Some(0) && last.starts_with("in vain: ") => {
            Ok(ProbeFinding::Unreached)
        }
        _ => {
            let said: String = last.chars().take(REASON_CHARS_MAX).collect();
            Err(Error::Failed(format!("its pod ended: {} {said}", ended.reason)))
        }
    }
}

#[cfg(test)]
mod tests;
