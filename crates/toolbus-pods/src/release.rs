//! The release of pods before a script has started in them, so that it may start in another.
//!
//! A manager that finds such a pod by its call may adopt it, and its script with it. Invariant: a
//! script gets another pod only from the manager that knows that the first one is deleted, and
//! owned it then.

use std::time::Duration;

use kube::ResourceExt as _;
use kube::api::{DeleteParams, Preconditions};
use tokio::time::{Instant, sleep, timeout_at};

use crate::errors;
use crate::pod_lifecycle::{OwnedPod, REQUEST_BACKOFF, REQUEST_BACKOFF_MAX};
use crate::pod_spec::{self, MANAGER};
use crate::requests::{REQUEST_TIMEOUT, with_retry, with_timeout};

/// How long a script that has not started in its pod waits for the deletion of that pod: longer
/// than an API server is away that is started again.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(45);

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
    /// Deletes the pod, in which no script has started, unless another manager has adopted it.
    /// Where the cluster does not answer in time, or until `by`, the reaper deletes it, if this
    /// manager owns it.
    pub(crate) async fn release(&mut self, by: Instant) -> ReleaseOutcome {
        let by = by.min(Instant::now() + RELEASE_TIMEOUT);
        let whose = match timeout_at(by, self.delete_while_owned()).await {
            Ok(true) => ReleaseOutcome::Released,
            Ok(false) => ReleaseOutcome::OwnedElsewhere,
            Err(_) => ReleaseOutcome::Unknown,
        };
        self.is_disowned = true;
        whose
    }

    /// Releases the pod and waits until the watch has seen the deletion: what it reports of this
    /// pod later would be taken for the next pod of the same name.
    pub(crate) async fn release_and_confirm(mut self, by: Instant) -> ReleaseOutcome {
        let whose = self.release(by).await;
        if whose == ReleaseOutcome::Released {
            let seen = self.follower.observed.wait_for(|observed| observed.deleted);
            let _ = timeout_at(by.min(Instant::now() + REQUEST_TIMEOUT), seen).await.is_ok();
        }
        whose
    }

    /// Deletes the pod while this manager owns it, and retries until that is known. Returns whether
    /// this manager owned it to the end.
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
                        // It was changed, or an answer was lost: it is read again.
                        Err(error) => {
                            let error = errors::error_chain(&error);
                            tracing::debug!(pod = self.name, %error, "failed to delete a pod, retrying");
                        }
                    }
                }
                Ok(_) => {
                    // The watch knows which manager owned it at last.
                    let seen = self.follower.observed.wait_for(|observed| observed.deleted);
                    let _ = seen.await.is_ok();
                    return !self.follower.is_owned_by_other(&self.keeper.manager);
                }
                Err(error) => {
                    let error = errors::error_chain(&error);
                    tracing::debug!(pod = self.name, %error, "cannot read the owner of a pod, retrying");
                }
            }

            sleep(pause).await;
            pause = (pause * 2).min(REQUEST_BACKOFF_MAX);
        }
    }
}
