//! Pods that are given up before a script has begun in them, so that it may begin in another.
//!
//! Whoever finds such a pod by its call may take it over, and its script with it. Invariant: a script
//! gets another pod only from him who knows that the first one is gone, and was his when it went.

use std::time::Duration;

use kube::ResourceExt as _;
use kube::api::{DeleteParams, Preconditions};
use tokio::time::{Instant, sleep, timeout_at};

use crate::errors;
use crate::pod_lifecycle::{OwnedPod, REQUEST_BACKOFF, REQUEST_BACKOFF_MAX};
use crate::pod_spec::{self, MANAGER};
use crate::requests::{REQUEST_TIMEOUT, with_retry, with_timeout};

/// How long a script that has not begun in its pod waits until that is deleted.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(6);

/// Result of releasing a pod in which no script has started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReleaseOutcome {
    /// This manager owned it, and it is deleted: the script may start in another pod.
    Released,
    /// Another manager has adopted it: the script is that manager's to start.
    OwnedElsewhere,
    /// The cluster does not say: another manager may have adopted it, so the script must not start
    /// here.
    Unknown,
}

impl OwnedPod {
    /// Deletes the pod, in which no script has begun, unless somebody else has taken it over. Where
    /// the cluster does not tell for long, or until `by`, it is the reaper's to delete, if it is ours.
    pub(crate) async fn release(&mut self, by: Instant) -> ReleaseOutcome {
        let by = by.min(Instant::now() + RELEASE_TIMEOUT);
        let whose = match timeout_at(by, self.delete_while_owned()).await {
            Ok(true) => ReleaseOutcome::Released,
            Ok(false) => ReleaseOutcome::OwnedElsewhere,
            Err(_) => ReleaseOutcome::Unknown,
        };
        self.is_gone = true;
        whose
    }

    /// The same, and waits until the watch has seen that: what it tells later of this pod would be
    /// taken for news of the next one of the same name.
    pub(crate) async fn release_and_confirm(mut self, by: Instant) -> ReleaseOutcome {
        let whose = self.release(by).await;
        if whose == ReleaseOutcome::Released {
            let seen = self.follower.observed.wait_for(|observed| observed.deleted);
            let _ = timeout_at(by.min(Instant::now() + REQUEST_TIMEOUT), seen).await.is_ok();
        }
        whose
    }

    /// Deletes the pod as it is while it is ours. It is so until it succeeds.
    async fn delete_while_owned(&mut self) -> bool {
        let mut pause = REQUEST_BACKOFF;
        loop {
            match with_retry(|| self.keeper.pods.get_opt(&self.name)).await {
                Ok(Some(pod)) if pod_spec::nonce_of(&pod) == Some(&self.nonce) => {
                    if pod.labels().get(MANAGER) != Some(&self.keeper.manager) {
                        return false;
                    }
                    let as_seen =
                        Preconditions { uid: pod.uid(), resource_version: pod.resource_version() };
                    let parameters = DeleteParams::default().grace_period(0).preconditions(as_seen);
                    let deleted = self.keeper.pods.delete(&self.name, &parameters);
                    match with_timeout(deleted).await {
                        Ok(_) => return true,
                        // It was changed, or an answer was lost: it is looked at again.
                        Err(error) => {
                            tracing::debug!(pod = self.name, error = %errors::error_chain(&error), "a pod was not deleted");
                        }
                    }
                }
                Ok(_) => {
                    // The watch knows whose it was at last.
                    let seen = self.follower.observed.wait_for(|observed| observed.deleted);
                    let _ = seen.await.is_ok();
                    return !self.follower.is_owned_by_other(&self.keeper.manager);
                }
                Err(error) => {
                    tracing::debug!(pod = self.name, error = %errors::error_chain(&error), "whose a pod is cannot be asked");
                }
            }

            sleep(pause).await;
            pause = (pause * 2).min(REQUEST_BACKOFF_MAX);
        }
    }
}
