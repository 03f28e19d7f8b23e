//! One watch of all our pods, and one of the events about them.
//!
//! What is learned here comes late (the kubelet looks at its containers once a second), so no
//! outcome waits for it: it is for what shows nowhere else, such as an image that cannot be pulled.
//! Invariants: at most two watches however many scripts run; a watch that breaks is restarted
//! with a growing delay, and meanwhile nothing is known, which no run may rely on.

use std::collections::{HashMap, HashSet};
use std::pin::pin;
use std::sync::Arc;

use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::{ContainerStatus, Event, Pod};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::pod_spec::{MANAGER, SELECTOR};

/// A pod as the watches have observed it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ObservedPod {
    /// Its version when it was last seen, for changes that must not meet another.
    pub(crate) version: Option<String>,
    /// The manager that it belongs to.
    pub(crate) manager: Option<String>,
    /// A node has it.
    pub(crate) scheduled: bool,
    /// Why no node takes it.
    pub(crate) unschedulable: Option<String>,
    /// What it still waits for, as the node last said: a volume, or its sandbox.
    pub(crate) start_delay: Option<String>,
    /// Why it cannot start.
    pub(crate) start_failure: Option<String>,
    /// Its container ended, or all of it did.
    pub(crate) container_end: Option<ContainerEnd>,
    /// The object is gone.
    pub(crate) deleted: bool,
}

/// How a container ended, in the cluster's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ContainerEnd {
    /// Such as `OOMKilled`, `DeadlineExceeded`, `Evicted`, `Error`.
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) exit_code: Option<i32>,
}

type FollowedPods = Mutex<HashMap<String, watch::Sender<ObservedPod>>>;

/// The watches of the cluster, for the pods that are followed.
#[derive(Clone, Default)]
pub(crate) struct PodWatch {
    followed: Arc<FollowedPods>,
}

/// Follows one pod until it is dropped.
pub(crate) struct PodFollower {
    name: String,
    followed: Arc<FollowedPods>,
    pub(crate) observed: watch::Receiver<ObservedPod>,
}

impl PodWatch {
    /// Follows a pod, which need not exist yet.
    pub(crate) fn follow_pod(&self, name: &str) -> PodFollower {
        let (sender, observed) = watch::channel(ObservedPod::default());
        self.followed.lock().insert(name.to_owned(), sender);
        PodFollower { name: name.to_owned(), followed: Arc::clone(&self.followed), observed }
    }

    /// Watches until cancelled.
    pub(crate) async fn run(&self, client: Client, namespace: &str, cancelled: CancellationToken) {
        let pods = watcher(
            Api::<Pod>::namespaced(client.clone(), namespace),
            watcher::Config::default().labels(SELECTOR),
        );
        let events = watcher(
            Api::<Event>::namespaced(client, namespace),
            watcher::Config::default().fields("involvedObject.kind=Pod,type=Warning"),
        );
        let mut pods = pin!(pods.default_backoff());
        let mut events = pin!(events.default_backoff().applied_objects());
        let mut listed = HashSet::new();

        loop {
            // Each arm only waits for the next item of a stream that lives outside of the loop.
            tokio::select! {
                () = cancelled.cancelled() => return,
                event = pods.next() => match event {
                    Some(Ok(event)) => {
                        self.track_listing(&event, &mut listed);
                        self.apply_pod(event);
                    }
                    Some(Err(error)) => log_watch_error("pods", &error),
                    None => return,
                },
                event = events.next() => match event {
                    Some(Ok(event)) => self.apply_warning(&event),
                    Some(Err(error)) => log_watch_error("events", &error),
                    None => return,
                },
            }
        }
    }

    fn apply_pod(&self, event: watcher::Event<Pod>) {
        match event {
            watcher::Event::Apply(pod) | watcher::Event::InitApply(pod) => {
                self.update_pod(&pod.name_any(), |observed| observe_pod(observed, &pod));
            }
            watcher::Event::Delete(pod) => {
                self.update_pod(&pod.name_any(), |observed| {
                    observe_pod(observed, &pod);
                    observed.deleted = true;
                });
            }
            watcher::Event::Init | watcher::Event::InitDone => {}
        }
    }

    /// Follows what a new listing leaves out: pods that were seen before and are not in it were
    /// deleted while nobody watched, and nobody will say so.
    fn track_listing(&self, event: &watcher::Event<Pod>, listed: &mut HashSet<String>) {
        match event {
            watcher::Event::Init => listed.clear(),
            watcher::Event::InitApply(pod) => {
                listed.insert(pod.name_any());
            }
            watcher::Event::InitDone => {
                for (name, sender) in self.followed.lock().iter() {
                    sender.send_if_modified(|observed| {
                        let is_gone = observed.version.is_some() && !listed.contains(name);
                        let is_news = is_gone && !observed.deleted;
                        observed.deleted |= is_gone;
                        is_news
                    });
                }
                listed.clear();
            }
            watcher::Event::Apply(_) | watcher::Event::Delete(_) => {}
        }
    }

    fn apply_warning(&self, event: &Event) {
        // The sandbox of a pod is made before its containers, and its volumes before that; why they
        // cannot be is said in events alone.
        let reason = event.reason.as_deref().unwrap_or_default();
        let Some(name) = &event.involved_object.name else { return };
        let message = event.message.as_deref().unwrap_or_default();
        let complaint = || Some(format!("{reason}: {message}"));
        self.update_pod(name, |observed| {
            if matches!(reason, "FailedCreatePodSandBox" | "FailedMount" | "FailedAttachVolume") {
                observed.start_delay = complaint();
            }
        });
    }

    fn update_pod(&self, name: &str, change: impl FnOnce(&mut ObservedPod)) {
        if let Some(sender) = self.followed.lock().get(name) {
            sender.send_if_modified(|observed| {
                let before = observed.clone();
                change(observed);
                *observed != before
            });
        }
    }
}

impl PodFollower {
    /// Whether the pod was last seen with another manager than this.
    pub(crate) fn is_owned_by_other(&self, manager: &str) -> bool {
        self.observed.borrow().manager.as_deref().is_some_and(|of| of != manager)
    }
}

impl Drop for PodFollower {
    fn drop(&mut self) {
        let mut followed = self.followed.lock();
        // Somebody else may follow a pod of this name by now.
        let is_own =
            |sender: &watch::Sender<ObservedPod>| self.observed.same_channel(&sender.subscribe());
        if followed.get(&self.name).is_some_and(is_own) {
            followed.remove(&self.name);
        }
    }
}

fn log_watch_error(what: &str, error: &watcher::Error) {
    tracing::warn!(what, error = %crate::errors::error_chain(error), "watch broke, restarting it");
}

fn observe_pod(observed: &mut ObservedPod, pod: &Pod) {
    observed.version.clone_from(&pod.metadata.resource_version);
    observed.manager = pod.labels().get(MANAGER).cloned();
    let Some(status) = &pod.status else { return };
    observed.scheduled |= pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());

    let condition = status.conditions.iter().flatten().find(|condition| {
        condition.type_ == "PodScheduled"
            && condition.status == "False"
            && condition.reason.as_deref() == Some("Unschedulable")
    });

    // The sandbox and all volumes are there after all.
    let is_made = status.conditions.iter().flatten().any(|condition| {
        condition.type_ == "PodReadyToStartContainers" && condition.status == "True"
    });
    if is_made {
        observed.start_delay = None;
    }

    observed.unschedulable =
        condition.map(|condition| condition.message.clone().unwrap_or_default());
    let container = status.container_statuses.iter().flatten().next();
    observed.start_failure =
        observed.start_failure.take().or_else(|| container.and_then(failure_reason));

    let terminated = container
        .and_then(|container| container.state.as_ref())
        .and_then(|state| state.terminated.as_ref());
    let finished = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));

    if terminated.is_some() || finished {
        // The pod's own reason (`Evicted`, `DeadlineExceeded`) says more than the container's.
        let own = |text: &Option<String>, container: Option<&String>| {
            text.as_ref().or(container).cloned().unwrap_or_default()
        };
        observed.container_end = Some(ContainerEnd {
            reason: own(&status.reason, terminated.and_then(|ended| ended.reason.as_ref())),
            message: own(&status.message, terminated.and_then(|ended| ended.message.as_ref())),
            exit_code: terminated.map(|ended| ended.exit_code),
        });
    }
}

/// Why a container cannot start, where waiting longer would not help.
fn failure_reason(container: &ContainerStatus) -> Option<String> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting.reason.as_deref().unwrap_or_default();

    let hopeless = matches!(
        reason,
        "ErrImagePull"
            | "ImagePullBackOff"
            | "ErrImageNeverPull"
            | "InvalidImageName"
            | "ImageInspectError"
            | "CreateContainerConfigError"
            | "RunContainerError"
    );

    hopeless.then(|| format!("{reason}: {}", waiting.message.as_deref().unwrap_or_default()))
}

#[cfg(test)]
mod tests;
