//! The pool of warm pods: interpreters that are started before a script needs them.
//!
//! A warm pod is a pod like any other whose first process has denied itself what scripts are denied
//! and answers over streams that are attached already. It is claimed by a patch that names the
//! call, and given the script meanwhile, all but the word to start it. `warm_claim` does both; the
//! pool decides how many pods there are, which ones, and until when.
//!
//! Invariants:
//!
//! - A pod runs one script at most: the claim removes the label that makes it claimable, in a patch
//!   that the cluster accepts once.
//! - No script starts in a pod that was not claimed for it, or that has not reported that it has
//!   all of it. No script is sent to a pod that was sent another before.
//! - A pod outlives its maximum age by [`AGE_GRACE`] at most.
//! - No script fails because warm pods cannot be made.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::Notify;
use tokio::sync::watch::Receiver;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use toolbus_scripts::runner::{Error, Script};
use toolbus_scripts::supervisor::protocol;

use crate::attach::ContainerFrame;
use crate::errors;
use crate::metrics;
use crate::pod_lifecycle::{OwnedPod, PodCreation, PodKeeper, PodSignals, ROOM_GRACE};
use crate::pod_spec::{self, PodIdentity};
use crate::pod_startup::{self, ReadyPod};
use crate::pod_watch::ObservedPod;
use crate::runner::ScriptCall;
use crate::settings::KubernetesSettings;
use crate::warm_claim;
use crate::warm_metrics::{ClaimOutcome, RefillOutcome, WarmMetrics, WarmStatus};

/// How often the pool is checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How long the next pod is put off after a claim, so that the claimed one starts its script first:
/// making a pod is more work for a node than most scripts. The pod is to be asked for within 50 ms
/// of the claim.
const REFILL_GRACE: Duration = Duration::from_millis(25);
/// The longest script that a warm pod is for; one that may take longer gets a pod of its own.
const SCRIPT_TIMEOUT_MAX: Duration = Duration::from_secs(300);
/// How much older than its greatest age a pod may become, while there is none in its place.
const AGE_GRACE: Duration = Duration::from_secs(60);
/// A heartbeat is sent to a pod that was silent for so long, and must be answered within the
/// timeout. It also keeps proxies in between from closing the connection as idle.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(30);
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long clearing `managedFields` may take.
const CLEAR_TIMEOUT: Duration = Duration::from_secs(2);
/// How long no pod is made after one failed: it doubles with each failure, up to the longest.
const REFILL_BACKOFF: Duration = Duration::from_secs(1);
const REFILL_BACKOFF_MAX: Duration = Duration::from_secs(60);
/// How long no pod is made after one was evicted for a script.
const EVICTION_BACKOFF: Duration = Duration::from_secs(10);

/// Handles and settings that the pool needs.
pub(crate) struct WarmPoolDeps {
    pub(crate) client: Client,
    pub(crate) pods: Api<Pod>,
    pub(crate) settings: KubernetesSettings,
    pub(crate) keeper: Arc<PodKeeper>,
    pub(crate) manager: String,
}

/// The warm pods of one manager.
pub(crate) struct WarmPool {
    deps: WarmPoolDeps,
    /// The digest of the description that all of them share.
    template: String,
    state: Mutex<PoolState>,
    changed: Notify,
    record: WarmMetrics,
}

struct PoolState {
    /// The oldest first.
    waiting: VecDeque<WarmPod>,
    /// No pod is made until then.
    paused_until: Instant,
    /// Failures to make a pod since the last success.
    failures: u32,
    /// When a pod was last evicted to make room for a script.
    last_eviction: Option<Instant>,
}

/// A pod that waits for a script.
pub(crate) struct WarmPod {
    pub(crate) pod: OwnedPod,
    pub(crate) ready: ReadyPod,
    /// When the cluster was asked for it.
    pub(crate) requested_at: Instant,
    /// When it last answered.
    heard_at: Instant,
    /// When a heartbeat was sent that it has not answered.
    heartbeat_sent_at: Option<Instant>,
}

/// Why a call must not start on this manager.
pub(crate) enum CallConflict {
    /// Another manager has adopted the pod that was claimed for it, and the call with it.
    OwnedElsewhere,
    /// It is not known whether that is so.
    Unknown,
}

/// A pod that has its script and waits for the word to start it.
pub(crate) struct ClaimedPod {
    pub(crate) pod: OwnedPod,
    pub(crate) ready: ReadyPod,
}

impl WarmPool {
    pub(crate) fn new(deps: WarmPoolDeps) -> Self {
        let template = pod_spec::template_digest(&deps.settings);
        let now = Instant::now();
        let state = PoolState {
            waiting: VecDeque::new(),
            paused_until: now,
            failures: 0,
            last_eviction: None,
        };
        let meter = opentelemetry::global::meter(metrics::METER);
        let record = WarmMetrics::new(deps.settings.warm.size, &meter);

        Self { deps, template, state: Mutex::new(state), changed: Notify::new(), record }
    }

    /// Keeps the pool filled until stopped; then deletes the pods in it.
    pub(crate) async fn maintain_pool(self: Arc<Self>, stop: CancellationToken) {
        let mut making = JoinSet::new();
        while self.target_size() > 0 && !stop.is_cancelled() {
            self.drop_unusable();
            for _ in 0..self.count_missing(making.len()) {
                let warm = Arc::clone(&self);
                let stop = stop.clone();
                making.spawn(async move { warm.create_warm_pod(&stop).await });
            }

            let paused_until = self.state.lock().paused_until;
            // Each arm only waits; what was made stays in the set until it is taken.
            tokio::select! {
                () = stop.cancelled() => {}
                Some(created) = making.join_next() => match created {
                    Ok(created) => self.record_creation(created),
                    Err(error) => self.record_creation(Err(Error::Failed(error.to_string()))),
                },
                () = self.changed.notified() => sleep(REFILL_GRACE).await,
                () = sleep(CHECK_INTERVAL) => {}
                () = sleep_until(paused_until), if paused_until > Instant::now() => {}
            }
        }

        // Those that are being made see the cancellation themselves, and delete their pods.
        while making.join_next().await.is_some() {}
        self.state.lock().waiting.clear();
        self.record.set_waiting(0);
    }

    /// Evicts a warm pod for a script that found no room, and makes none for a while. Returns
    /// whether room is about to be free.
    pub(crate) fn evict_for_room(&self) -> bool {
        let mut state = self.state.lock();
        let now = Instant::now();
        if state.last_eviction.is_some_and(|at| now - at < ROOM_GRACE) {
            return true;
        }

        state.paused_until = state.paused_until.max(now + EVICTION_BACKOFF);
        let evicted = state.waiting.pop_front();
        self.record.set_waiting(state.waiting.len());
        if evicted.is_some() {
            state.last_eviction = Some(now);
        }

        evicted.is_some()
    }

    /// Puts off the deletion of finished pods while a pod starts, and evicts warm pods for as long
    /// as it is unschedulable.
    pub(crate) async fn evict_while_unschedulable(
        &self,
        mut observed: Receiver<ObservedPod>,
    ) -> Infallible {
        let mut startup = Some(self.deps.keeper.begin_startup());
        while observed.wait_for(|observed| observed.unschedulable.is_some()).await.is_ok() {
            drop(startup.take());
            self.evict_for_room();
            sleep(ROOM_GRACE).await;
        }
        // The watch has ended, so nothing is known any more, also not that there is no room.
        std::future::pending().await
    }

    /// Numbers of the pool, for the status page and tests.
    pub(crate) fn status(&self) -> WarmStatus {
        self.record.status()
    }

    /// Claims a pod for a call and hands the script over; `None` when no pod can be had. The script
    /// has not started.
    ///
    /// # Errors
    /// When the call is another manager's by now, or may be.
    pub(crate) async fn claim_pod(
        &self,
        call: &ScriptCall<'_>,
    ) -> Result<Option<ClaimedPod>, CallConflict> {
        if self.target_size() == 0 {
            return Ok(None);
        }

        if !is_suitable(call.script) {
            self.record.count_claim(ClaimOutcome::Unsuited);
            return Ok(None);
        }

        let mut outcome = ClaimOutcome::None;
        while let Some(warm_pod) = self.take_oldest() {
            let name = warm_pod.pod.name.clone();
            let handed =
                warm_claim::hand_over_script(&self.deps, &self.template, warm_pod, call).await;
            self.changed.notify_one();

            match handed {
                Ok(claimed) => {
                    self.record.count_claim(ClaimOutcome::Hit);
                    return Ok(Some(claimed));
                }
                Err(warm_claim::ClaimRefusal::PodLost(reason)) => {
                    tracing::info!(pod = name, reason, "lost a warm pod");
                    outcome = ClaimOutcome::Lost;
                }
                Err(warm_claim::ClaimRefusal::PodTaken) => outcome = ClaimOutcome::Lost,
                Err(warm_claim::ClaimRefusal::CallConflict(why)) => {
                    self.record.count_claim(ClaimOutcome::Lost);
                    return Err(why);
                }
                Err(warm_claim::ClaimRefusal::Interrupted) => {
                    outcome = ClaimOutcome::Lost;
                    break;
                }
            }
        }

        self.record.count_claim(outcome);
        Ok(None)
    }

    fn take_oldest(&self) -> Option<WarmPod> {
        let mut state = self.state.lock();
        let oldest = state.waiting.pop_front();
        self.record.set_waiting(state.waiting.len());
        oldest
    }

    fn target_size(&self) -> usize {
        usize::from(self.deps.settings.warm.size)
    }

    fn max_age(&self) -> Duration {
        self.deps.settings.warm.max_age.duration()
    }

    /// Deletes the pods that are dead, silent or too old.
    fn drop_unusable(&self) {
        let mut state = self.state.lock();
        let max_age = self.max_age();
        state.waiting.retain_mut(|warm_pod| match warm_pod.check_alive() {
            Ok(()) => warm_pod.requested_at.elapsed() < max_age + AGE_GRACE,
            Err(reason) => {
                tracing::info!(pod = warm_pod.pod.name, reason, "lost a warm pod");
                false
            }
        });

        // One more than the target is the successor of the oldest.
        let excess = state.waiting.len().saturating_sub(self.target_size());
        state.waiting.drain(..excess);
        self.record.set_waiting(state.waiting.len());
    }

    /// How many pods to make now. One that is too old gets its successor before it is deleted.
    fn count_missing(&self, making: usize) -> usize {
        let state = self.state.lock();
        if state.paused_until > Instant::now() {
            return 0;
        }
        let has_aged = state
            .waiting
            .front()
            .is_some_and(|oldest| oldest.requested_at.elapsed() >= self.max_age());
        (self.target_size() + usize::from(has_aged)).saturating_sub(state.waiting.len() + making)
    }

    fn record_creation(&self, created: Result<WarmPod, Error>) {
        match &created {
            Ok(_) => self.record.count_refill(RefillOutcome::Made),
            Err(Error::Cancelled) => {}
            Err(_) => self.record.count_refill(RefillOutcome::Failed),
        }

        let mut state = self.state.lock();
        match created {
            Ok(warm_pod) => {
                state.failures = 0;
                state.waiting.push_back(warm_pod);
                self.record.set_waiting(state.waiting.len());
            }
            Err(Error::Cancelled) => {}
            Err(error) if state.paused_until > Instant::now() => {
                tracing::debug!(%error, "failed to make a warm pod, as before");
            }
            Err(error) => {
                let pause = REFILL_BACKOFF
                    .saturating_mul(1 << state.failures.min(6))
                    .min(REFILL_BACKOFF_MAX);
                state.failures += 1;
                state.paused_until = state.paused_until.max(Instant::now() + pause);
                tracing::warn!(%error, pause = pause.as_secs(), "failed to make a warm pod");
            }
        }
    }

    async fn create_warm_pod(&self, stop: &CancellationToken) -> Result<WarmPod, Error> {
        let WarmPoolDeps { client, settings, keeper, manager, .. } = &self.deps;
        let start_timeout = settings.start_timeout.duration();
        let identity = PodIdentity::for_warm(manager);
        let lifetime = start_timeout + self.max_age() + AGE_GRACE + SCRIPT_TIMEOUT_MAX;
        let requested_at = Instant::now();
        let description =
            pod_spec::describe_warm_pod(settings, &identity, &self.template, lifetime);
        let by = requested_at + start_timeout;
        let signals = PodSignals::cancelled_by(stop);
        let PodCreation::Created(mut pod) =
            keeper.create_pod(&identity, description, &signals, by).await?
        else {
            return Err(Error::Failed("the name of a new pod was taken".to_owned()));
        };

        let startup = pod_startup::PodStartup {
            client,
            namespace: &settings.namespace,
            name: &pod.name,
            nonce: &pod.nonce,
            by: Instant::now() + start_timeout,
            unscheduled: settings.unscheduled_timeout.duration(),
            cancelled: stop,
        };

        let ready = startup.wait_ready(&mut pod.follower).await?;
        if stop.run_until_cancelled(self.clear_managed_fields(&pod.name)).await.is_none() {
            return Err(Error::Cancelled);
        }

        Ok(WarmPod { pod, ready, requested_at, heard_at: Instant::now(), heartbeat_sent_at: None })
    }

    /// Clears `managedFields` of a pod. They are not used, and updating them takes a fifth of the
    /// time of a claim.
    async fn clear_managed_fields(&self, name: &str) {
        let patch = Patch::Merge(json!({"metadata": {"managedFields": [{}]}}));
        let parameters = PatchParams::default();
        let clearing = self.deps.pods.patch_metadata(name, &parameters, &patch);

        // Where it fails, claiming the pod takes a little longer.
        match timeout(CLEAR_TIMEOUT, clearing).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                let error = errors::error_chain(&error);
                tracing::debug!(pod = name, error, "failed to clear managedFields of a warm pod");
            }
            Err(_) => tracing::debug!(pod = name, "timed out clearing managedFields of a warm pod"),
        }
    }
}

impl WarmPod {
    /// Reads what the pod has said meanwhile, and sends a heartbeat where it was silent for long.
    /// Does not block; the error says why the pod is unusable.
    fn check_alive(&mut self) -> Result<(), String> {
        {
            let observed = self.pod.follower.observed.borrow();
            if observed.deleted || observed.container_end.is_some() {
                return Err("it ended".to_owned());
            }
        }

        while let Some(frame) = self.ready.output.next().now_or_never() {
            match frame {
                ContainerFrame::Stdout(bytes) => {
                    // What it says can only be that it is there.
                    self.ready.reports.accept(&bytes).map_err(|error| error.to_string())?;
                    self.heard_at = Instant::now();
                    self.heartbeat_sent_at = None;
                }
                ContainerFrame::Stderr(_) => {}
                ContainerFrame::Closed(reason) => return Err(reason),
            }
        }

        match self.heartbeat_sent_at {
            Some(heartbeat_sent_at) if heartbeat_sent_at.elapsed() >= HEARTBEAT_TIMEOUT => {
                Err("it does not answer".to_owned())
            }
            None if self.heard_at.elapsed() >= HEARTBEAT_INTERVAL => {
                self.heartbeat_sent_at = Some(Instant::now());
                let hello = protocol::hello_message(&self.pod.nonce);
                // A connection that has no room for so little leads nowhere.
                match self.ready.input.send(&hello).now_or_never() {
                    Some(Ok(())) => Ok(()),
                    Some(Err(error)) => Err(error.to_string()),
                    None => Err("its connection is stuck".to_owned()),
                }
            }
            _ => Ok(()),
        }
    }
}

/// Whether a warm pod can do what a script asks for.
fn is_suitable(script: &Script) -> bool {
    script.packages.is_empty() && script.timeout <= SCRIPT_TIMEOUT_MAX
}
