//! Pods that are given up before a script has begun in them, so that it may begin in another.
//!
//! Whoever finds such a pod by its call may take it over, and its script with it. Invariant: a script
//! gets another pod only from him who knows that the first one is gone, and was his when it went.

use std::time::Duration;

use kube::ResourceExt as _;
use kube::api::{DeleteParams, Preconditions};
use tokio::time::{Instant, sleep, timeout_at};

use crate::errors;
use crate::pod_lifecycle::{Kept, PAUSE, PAUSE_MAX};
use crate::pod_spec::{self, MANAGER};
use crate::requests::{REQUEST_LIMIT, limited, repeated};

/// How long a script that has not begun in its pod waits until that is deleted.
const GIVING_UP: Duration = Duration::from_secs(6);

/// Whose a pod was that was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Ours, and it is gone: the script may begin in another.
    Own,
    /// Somebody else has taken it over: the script is his to begin.
    Another,
    /// The cluster does not tell: somebody may have taken it over, so the script must not begin here.
    Unknown,
}

impl Kept {
    /// Deletes the pod, in which no script has begun, unless somebody else has taken it over. Where
    /// the cluster does not tell for long, or until `by`, it is the reaper's to delete, if it is ours.
    pub(crate) async fn give_up(&mut self, by: Instant) -> Whose {
        let by = by.min(Instant::now() + GIVING_UP);
        let whose = match timeout_at(by, self.delete_as_own()).await {
            Ok(true) => Whose::Own,
            Ok(false) => Whose::Another,
            Err(_) => Whose::Unknown,
        };
        self.is_gone = true;
        whose
    }

    /// The same, and waits until the watch has seen that: what it tells later of this pod would be
    /// taken for news of the next one of the same name.
    pub(crate) async fn make_way(mut self, by: Instant) -> Whose {
        let whose = self.give_up(by).await;
        if whose == Whose::Own {
            let seen = self.follower.known.wait_for(|known| known.deleted);
            let _ = timeout_at(by.min(Instant::now() + REQUEST_LIMIT), seen).await.is_ok();
        }
        whose
    }

    /// Deletes the pod as it is while it is ours. It is so until it succeeds.
    async fn delete_as_own(&mut self) -> bool {
        let mut pause = PAUSE;
        loop {
            match repeated(|| self.keeper.pods.get_opt(&self.name)).await {
                Ok(Some(pod)) if pod_spec::nonce(&pod) == Some(&self.nonce) => {
                    if pod.labels().get(MANAGER) != Some(&self.keeper.manager) {
                        return false;
                    }
                    let as_seen =
                        Preconditions { uid: pod.uid(), resource_version: pod.resource_version() };
                    let parameters = DeleteParams::default().grace_period(0).preconditions(as_seen);
                    let deleted = self.keeper.pods.delete(&self.name, &parameters);
                    match limited(deleted).await {
                        Ok(_) => return true,
                        // It was changed, or an answer was lost: it is looked at again.
                        Err(error) => {
                            tracing::debug!(pod = self.name, error = %errors::chain(&error), "a pod was not deleted");
                        }
                    }
                }
                Ok(_) => {
                    // The watch knows whose it was at last.
                    let seen = self.follower.known.wait_for(|known| known.deleted);
                    let _ = seen.await.is_ok();
                    return !self.follower.is_of_another(&self.keeper.manager);
                }
                Err(error) => {
                    tracing::debug!(pod = self.name, error = %errors::chain(&error), "whose a pod is cannot be asked");
                }
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}
