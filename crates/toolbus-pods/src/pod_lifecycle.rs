//! The lifecycle of pods: creation, adoption, and deletion of all that was created.
//!
//! Invariants: a pod that was asked for is held by an [`OwnedPod`], and dropping that deletes it,
//! also when it is unknown whether the cluster has created it yet, unless the pod was detached for
//! another manager to adopt; a pod that could not be deleted is orphaned, and the `reaper` deletes
//! it; nothing is deleted that another manager created under the same name.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolbus_scripts::runner::{CallKey, Error};
use toolbus_scripts::supervisor::protocol;
use uuid::Uuid;

use crate::attach::ContainerInput;
use crate::errors;
use crate::owner_lease::OwnerLease;
use crate::pod_spec::{self, CALL, MANAGER, PodIdentity, SELECTOR};
use crate::pod_watch::{PodFollower, PodWatch};
use crate::requests::{until_deadline, with_retry, with_timeout};

/// The pause between two attempts to make or delete a pod: it doubles, up to the longest.
pub(crate) const REQUEST_BACKOFF: Duration = Duration::from_millis(100);
pub(crate) const REQUEST_BACKOFF_MAX: Duration = Duration::from_secs(5);
/// Attempts to delete a pod; the reaper makes the next ones.
const DELETE_ATTEMPTS_MAX: u32 = 6;
/// How long a deletion is put off, so that the outcome reaches its caller before the cluster is
/// busy with the deletion.
const DELETE_GRACE: Duration = Duration::from_millis(25);
/// How long a finished pod stays while a script waits for its own pod. A deletion costs a node half
/// as much work as a start, and no caller waits for it.
const STARTUP_GRACE: Duration = Duration::from_secs(1);
/// How long it takes until the room of a deleted pod can be used, and how often that is tried.
pub(crate) const ROOM_GRACE: Duration = Duration::from_secs(2);
const ROOM_INTERVAL: Duration = Duration::from_millis(200);
/// How long acknowledging the end to a pod may take.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_millis(200);
/// How long adopting the pod of a call may take, with all attempts.
const ADOPT_TIMEOUT: Duration = Duration::from_secs(20);

/// Makes and deletes the pods of one manager.
pub(crate) struct PodKeeper {
    pub(crate) pods: Api<Pod>,
    watch: PodWatch,
    /// The id of this manager.
    pub(crate) manager: String,
    /// The Lease that its pods belong to.
    owner: OwnerLease,
    /// The nonces of all pods that are held or being deleted.
    held: Mutex<HashSet<String>>,
    /// How many scripts wait for their pods to start.
    startups: watch::Sender<usize>,
    deletions: Mutex<PendingDeletions>,
    tasks: TaskTracker,
}

/// The pods that are being deleted or are to be.
#[derive(Default)]
struct PendingDeletions {
    count: usize,
    /// When the last one was gone.
    last: Option<Instant>,
}

/// The tokens that end this manager's use of a pod.
#[derive(Debug, Clone)]
pub(crate) struct PodSignals {
    /// Fires when the pod is of no use any more: it is deleted.
    pub(crate) cancelled: CancellationToken,
    /// Fires when this manager stops and the pod goes on: it is left for another manager to adopt.
    pub(crate) detached: CancellationToken,
}

impl PodSignals {
    /// The signals of a pod that no other manager can use.
    pub(crate) fn cancelled_by(cancelled: &CancellationToken) -> Self {
        Self { cancelled: cancelled.clone(), detached: CancellationToken::new() }
    }
}

/// Result of asking the cluster for a pod.
pub(crate) enum PodCreation {
    /// The cluster has accepted it.
    Created(OwnedPod),
    /// There is a pod of this name already, which another manager made.
    NameTaken,
}

/// A pod that this manager owns. It is deleted when this is dropped, unless it was detached.
pub(crate) struct OwnedPod {
    pub(crate) keeper: Arc<PodKeeper>,
    /// The pod's name.
    pub(crate) name: String,
    /// What its reports begin with.
    pub(crate) nonce: String,
    /// `None` while it is unknown whether the pod was created.
    uid: Option<String>,
    /// What the cluster says of it.
    pub(crate) follower: PodFollower,
    /// The stream to a pod that waits for the acknowledgement of its end.
    pub(crate) end_listener: Option<ContainerInput>,
    /// Once it has fired, dropping leaves the pod for another manager.
    pub(crate) detached: CancellationToken,
    /// Dropping it deletes nothing: it was never created, another manager owns it, or the reaper
    /// deletes it.
    pub(crate) is_disowned: bool,
}

impl PodKeeper {
    /// `tasks` tracks the tasks that create and delete pods, whether or not a caller waits for
    /// them.
    pub(crate) fn new(
        pods: Api<Pod>,
        watch: PodWatch,
        owner: OwnerLease,
        tasks: TaskTracker,
    ) -> Self {
        let manager = Uuid::new_v4().simple().to_string();
        Self {
            pods,
            watch,
            manager,
            owner,
            held: Mutex::default(),
            startups: watch::Sender::default(),
            deletions: Mutex::default(),
            tasks,
        }
    }

    /// The id of this manager among those of the namespace: new for each process.
    pub(crate) fn manager(&self) -> &str {
        &self.manager
    }

    /// Creates a pod, until `by` at the latest, with all attempts. The cluster has accepted it
    /// then, no more: it does not run yet.
    ///
    /// # Errors
    /// When it was refused, with the cluster's reason, or cancelled. A request that is under way
    /// then is still waited for, in its task, so that its pod can be deleted.
    pub(crate) async fn create_pod(
        self: &Arc<Self>,
        identity: &PodIdentity,
        mut description: Pod,
        signals: &PodSignals,
        by: Instant,
    ) -> Result<PodCreation, Error> {
        description.metadata.owner_references = self.owner.references();
        let mut owned = self.track_pod(&identity.name, &identity.nonce);
        let PodSignals { cancelled, detached } = signals;
        owned.detached = detached.clone();
        let stop = cancelled.clone();

        // What is created is dropped, and so the pod deleted, when no caller waits for it any more:
        // within the task, for what a task returns is dropped only after a wait for all tasks has
        // ended.
        let (sender, receiver) = oneshot::channel();
        self.tasks.spawn(async move {
            let _ = sender.send(owned.create(description, stop, by).await);
        });

        tokio::select! {
            created = receiver => {
                created.unwrap_or_else(|_| Err(Error::Failed("creating the pod was interrupted".to_owned())))
            }
            () = cancelled.cancelled() => Err(Error::Cancelled),
        }
    }

    /// Adopts the pod of a call, from a manager that is lost or has lost the call; `None` where
    /// there is no such pod.
    ///
    /// # Errors
    /// When the cluster does not answer until `by`, so that it is unknown.
    pub(crate) async fn adopt_pod(
        self: &Arc<Self>,
        key: CallKey,
        by: Instant,
    ) -> Result<Option<OwnedPod>, Error> {
        let end = by.min(Instant::now() + ADOPT_TIMEOUT);
        let mut pause = REQUEST_BACKOFF;
        // A pod that an attempt without an answer may have adopted is not orphaned before the next
        // one.
        let mut held = None;

        loop {
            let error = match until_deadline(end, self.try_adopt(key, &mut held)).await {
                Ok(owned) => return Ok(owned),
                Err(error) => error,
            };

            // A conflict is transient: the pod changed between the read and the patch.
            let is_retryable = errors::is_transient(&error) || errors::is_not_found(&error);
            if !is_retryable || Instant::now() + pause >= end {
                let error = errors::error_chain(&error);
                return Err(Error::OutcomeUnknown(format!(
                    "the pod of the script cannot be looked for: {error}"
                )));
            }

            sleep(pause).await;
            pause = (pause * 2).min(REQUEST_BACKOFF_MAX);
        }
    }

    /// Tries once to adopt a pod. Leaves in `held` one that it could not adopt for certain.
    async fn try_adopt(
        self: &Arc<Self>,
        key: CallKey,
        held: &mut Option<OwnedPod>,
    ) -> Result<Option<OwnedPod>, kube::Error> {
        let Some(pod) = self.find_call_pod(key).await? else { return Ok(None) };
        let Some(nonce) = pod_spec::nonce_of(&pod) else { return Ok(None) };
        let mut owned = match held.take() {
            Some(owned) if owned.nonce == nonce => owned,
            _ => self.track_pod(&pod.name_any(), nonce),
        };

        // Not owned before the patch, and not to be deleted if that fails.
        owned.is_disowned = true;
        let owned = held.insert(owned);
        let patch = json!({"metadata": {
            "resourceVersion": pod.metadata.resource_version,
            "labels": {MANAGER: self.manager},
        }});
        let parameters = PatchParams::default();
        let patch = Patch::Merge(&patch);

        with_timeout(self.pods.patch(&owned.name, &parameters, &patch)).await?;
        owned.is_disowned = false;
        owned.uid = pod.uid();
        Ok(held.take())
    }

    /// Finds the pod of a call, whichever manager owns it.
    pub(crate) async fn find_call_pod(&self, key: CallKey) -> Result<Option<Pod>, kube::Error> {
        let selector = format!("{SELECTOR},{CALL}={}", pod_spec::call_label(key));
        let parameters = ListParams::default().labels(&selector);
        let list = with_retry(|| self.pods.list(&parameters)).await?;
        Ok(list.items.into_iter().find(|pod| pod.metadata.deletion_timestamp.is_none()))
    }

    /// Follows a pod that another manager owns.
    pub(crate) fn follow_pod(&self, name: &str) -> PodFollower {
        self.watch.follow_pod(name)
    }

    /// Lists all pods of all managers.
    pub(crate) async fn list_pods(&self) -> Result<Vec<Pod>, kube::Error> {
        let parameters = ListParams::default().labels(SELECTOR);
        Ok(with_retry(|| self.pods.list(&parameters)).await?.items)
    }

    /// Whether a pod of this manager is orphaned: neither held nor being deleted.
    pub(crate) fn is_orphaned(&self, pod: &Pod) -> bool {
        !pod_spec::nonce_of(pod).is_some_and(|nonce| self.held.lock().contains(nonce))
    }

    /// Counts a script that waits for its pod to start, until the guard is dropped.
    pub(crate) fn begin_startup(&self) -> StartupGuard<'_> {
        self.startups.send_modify(|startups| *startups += 1);
        StartupGuard(self)
    }

    /// Whether deletions are about to make room, or the cluster may not have counted it yet.
    fn is_room_pending(&self) -> bool {
        let deletions = self.deletions.lock();
        deletions.count > 0 || deletions.last.is_some_and(|last| last.elapsed() < ROOM_GRACE)
    }

    /// Waits while scripts wait for their pods to start, for [`STARTUP_GRACE`] at most.
    async fn wait_for_startups(&self) {
        let mut startups = self.startups.subscribe();
        let none = startups.wait_for(|startups| *startups == 0);
        // Either way the deletion goes on.
        let _ = timeout(STARTUP_GRACE, none).await.is_ok();
    }

    /// Deletes a pod unless it changed since it was seen.
    pub(crate) async fn delete_as_seen(&self, pod: &Pod) -> Result<(), kube::Error> {
        self.try_delete(&pod.name_any(), as_seen(pod)).await.map(drop)
    }

    fn track_pod(self: &Arc<Self>, name: &str, nonce: &str) -> OwnedPod {
        self.held.lock().insert(nonce.to_owned());
        OwnedPod {
            keeper: Arc::clone(self),
            name: name.to_owned(),
            nonce: nonce.to_owned(),
            uid: None,
            follower: self.watch.follow_pod(name),
            end_listener: None,
            detached: CancellationToken::new(),
            is_disowned: false,
        }
    }

    /// Deletes a pod, and with it its processes, unless another manager has adopted it. It is not
    /// held any more, whether or not that succeeds.
    async fn delete(&self, name: &str, nonce: &str, mut seen: Option<Preconditions>) {
        let mut pause = REQUEST_BACKOFF;
        for _ in 0..DELETE_ATTEMPTS_MAX {
            let deleted = async {
                let seen = match seen.take() {
                    Some(seen) => seen,
                    None => match with_timeout(self.pods.get_opt(name)).await? {
                        Some(pod) if self.is_own(&pod, nonce) => as_seen(&pod),
                        _ => return Ok(true),
                    },
                };
                self.try_delete(name, seen).await
            };

            match deleted.await {
                Ok(true) => break,
                // It has changed: who owns it is read before the next attempt.
                Ok(false) => continue,
                Err(error) => {
                    tracing::warn!(pod = name, error = %errors::error_chain(&error), "failed to delete a pod");
                }
            }

            sleep(pause).await;
            pause = (pause * 2).min(REQUEST_BACKOFF_MAX);
        }

        self.held.lock().remove(nonce);
    }

    /// Whether a pod is the one of this nonce, and this manager owns it.
    fn is_own(&self, pod: &Pod, nonce: &str) -> bool {
        pod_spec::nonce_of(pod) == Some(nonce) && pod.labels().get(MANAGER) == Some(&self.manager)
    }

    /// Deletes a pod as it was seen. `false` when it has changed since, or is another of the same
    /// name.
    async fn try_delete(&self, name: &str, seen: Preconditions) -> Result<bool, kube::Error> {
        let parameters = DeleteParams::default().grace_period(0).preconditions(seen);
        match with_timeout(self.pods.delete(name, &parameters)).await {
            Ok(_) => Ok(true),
            Err(error) if errors::is_not_found(&error) => Ok(true),
            Err(error) if errors::is_conflict(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// The condition that a pod has not changed since it was seen.
fn as_seen(pod: &Pod) -> Preconditions {
    Preconditions { uid: pod.uid(), resource_version: pod.resource_version() }
}

impl OwnedPod {
    /// Disowns a pod that another manager owns by now, so that it is not deleted.
    pub(crate) fn remove_owner(mut self) {
        self.is_disowned = true;
    }

    async fn create(
        mut self,
        description: Pod,
        cancelled: CancellationToken,
        by: Instant,
    ) -> Result<PodCreation, Error> {
        let room_end = by.min(Instant::now() + STARTUP_GRACE + ROOM_GRACE);
        let mut pause = REQUEST_BACKOFF;
        // An attempt without an answer may have been granted.
        let mut unsure = false;

        loop {
            let parameters = PostParams::default();
            let created = with_timeout(self.keeper.pods.create(&parameters, &description));

            let error = match until_deadline(by, created).await {
                Ok(pod) => {
                    self.uid = pod.uid();
                    return Ok(PodCreation::Created(self));
                }
                Err(error) if errors::is_already_exists(&error) => {
                    return self.resolve_name_taken(by).await;
                }
                Err(error) => error,
            };

            if !errors::is_transient(&error) {
                if unsure {
                    return self.resolve_refusal(&error, by).await;
                }

                let is_full = errors::is_quota(&error);
                if is_full && Instant::now() < room_end && self.keeper.is_room_pending() {
                    tokio::select! {
                        () = sleep(ROOM_INTERVAL) => continue,
                        () = cancelled.cancelled() => {}
                    }
                }

                // It was looked at and refused.
                self.is_disowned = matches!(error, kube::Error::Api(_));
                return Err(errors::creation_error(&error));
            }

            unsure |= errors::is_unanswered(&error);
            if Instant::now() + pause >= by {
                return Err(errors::creation_error(&error));
            }

            // What was asked for may have been made all the same, so `self` is dropped as it is.
            tokio::select! {
                () = sleep(pause) => {}
                () = cancelled.cancelled() => return Err(Error::Cancelled),
            }

            pause = (pause * 2).min(REQUEST_BACKOFF_MAX);
        }
    }

    /// Resolves a name conflict: the pod is ours when the answer to an attempt was lost.
    async fn resolve_name_taken(mut self, by: Instant) -> Result<PodCreation, Error> {
        match self.find_created(by).await {
            Ok(true) => Ok(PodCreation::Created(self)),
            Ok(false) => {
                self.is_disowned = true;
                Ok(PodCreation::NameTaken)
            }
            Err(error) => Err(errors::creation_error(&error)),
        }
    }

    /// Resolves a refusal after an attempt that had no answer: that one may have been granted, and
    /// may have taken the very room that is missing now.
    async fn resolve_refusal(
        mut self,
        why: &kube::Error,
        by: Instant,
    ) -> Result<PodCreation, Error> {
        match self.find_created(by).await {
            Ok(true) => Ok(PodCreation::Created(self)),
            Ok(false) => {
                self.is_disowned = true;
                Err(errors::creation_error(why))
            }
            Err(error) => Err(errors::creation_error(&error)),
        }
    }

    /// Looks for this very pod in the cluster, and notes its uid.
    async fn find_created(&mut self, by: Instant) -> Result<bool, kube::Error> {
        let found = until_deadline(by, with_retry(|| self.keeper.pods.get_opt(&self.name))).await?;
        let own = found.filter(|pod| pod_spec::nonce_of(pod) == Some(&self.nonce));
        let is_own = own.is_some();
        self.uid = own.and_then(|pod| pod.uid());
        Ok(is_own)
    }
}

/// A script that waits for its pod to start, as [`PodKeeper`] counts them.
pub(crate) struct StartupGuard<'a>(&'a PodKeeper);

impl Drop for StartupGuard<'_> {
    fn drop(&mut self) {
        self.0.startups.send_modify(|startups| *startups -= 1);
    }
}

impl Drop for OwnedPod {
    fn drop(&mut self) {
        // Once another manager has adopted it, that manager deletes it.
        if self.is_disowned || self.follower.is_owned_by_other(&self.keeper.manager) {
            self.keeper.held.lock().remove(&self.nonce);
            return;
        }

        // It stays held, for the reaper of this manager would delete it as orphaned.
        if self.detached.is_cancelled() {
            tracing::info!(pod = self.name, "left a pod for another manager to adopt");
            return;
        }

        let keeper = Arc::clone(&self.keeper);
        // The watch may be behind, so the deletion is of what it has seen, and of nothing newer.
        let version = self.follower.observed.borrow().version.clone();
        let seen = self.uid.take().zip(version);
        let seen = seen.map(|(uid, version)| Preconditions {
            uid: Some(uid),
            resource_version: Some(version),
        });
        let name = std::mem::take(&mut self.name);
        let nonce = std::mem::take(&mut self.nonce);
        let end_listener = self.end_listener.take();
        keeper.deletions.lock().count += 1;

        let deleting = async move {
            if let Some(mut end_listener) = end_listener {
                keeper.wait_for_startups().await;
                // A pod that does not receive it is deleted all the same.
                let _ = timeout(
                    ACKNOWLEDGE_TIMEOUT,
                    end_listener.send(&protocol::acknowledge_message()),
                )
                .await;
            }

            sleep(DELETE_GRACE).await;
            keeper.delete(&name, &nonce, seen).await;
            let mut deletions = keeper.deletions.lock();
            deletions.count -= 1;

            deletions.last = Some(Instant::now());
        };

        // Without a runtime nothing can be deleted any more; the next manager does it.
        if let Ok(runtime) = Handle::try_current() {
            self.keeper.tasks.spawn_on(deleting, &runtime);
        }
    }
}

impl fmt::Debug for OwnedPod {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("OwnedPod").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
