//! The runner: which pod a script gets, and in which order things happen.
//!
//! How many scripts run at a time is up to whoever calls it, such as a
//! [`FairRunner`](toolbus_scripts::FairRunner). Invariants: every pod that was asked for is
//! deleted, whatever becomes of its run and of the caller that waits for it; a pod runs one script,
//! once.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use toolbus_scripts::packages::Requirements;
use toolbus_scripts::runner::{Error, Outcome, Run, Runner, Script, wait_for_moment};
use toolbus_scripts::supervisor::protocol::{self, ScriptLimits};
use tracing::{Instrument as _, Span};

use crate::connect::connect;
use crate::leases::{LivenessTracker, ManagerLeases};
use crate::namespace::{self, Unavailable};
use crate::owner_lease::OwnerLease;
use crate::packages::{self, PackageSets};
use crate::pod_lifecycle::{OwnedPod, PodCreation, PodKeeper, PodSignals};
use crate::pod_spec::{self, PodIdentity};
use crate::pod_startup::{PodStartup, ReadyPod};
use crate::pod_watch::PodWatch;
use crate::policy_probe::PolicyStatus;
use crate::reaper::{ClusterState, Reaper};
use crate::script_session::ScriptSession;
use crate::settings::KubernetesSettings;
use crate::warm_metrics::WarmStatus;
use crate::warm_pool::{CallConflict, ClaimedPod, WarmPool, WarmPoolDeps};
use crate::{quantity, redelivery};

/// How much address space a script gets for its memory: libraries reserve several times of what
/// they use.
const ADDRESS_SPACE_PER_MEMORY: u64 = 4;
/// How long a script may wait until a deleted warm pod has made room for its own, and how often
/// that is tried: the cluster updates its quota a moment after the deletion.
const ROOM_TIMEOUT: Duration = Duration::from_secs(8);
const ROOM_INTERVAL: Duration = Duration::from_millis(200);

/// Most pods that one call gets, where one is lost before the script starts.
const PODS_MAX: u32 = 3;

/// Result of an attempt to run a script in one pod.
pub(crate) enum PodAttempt {
    Finished(Outcome),
    /// The pod is lost, and the script never started; the text says what became of the pod.
    NeverStarted(String),
}

/// A script on its way through the runner, with all that decides how it runs.
pub(crate) struct ScriptCall<'a> {
    pub(crate) script: &'a Script,
    pub(crate) run: &'a Run,
    pub(crate) limits: ScriptLimits,
    /// The installed package set that its pod mounts.
    pub(crate) package_set: Option<String>,
    /// Fires when this manager stops: what has a pod is left for another manager to adopt.
    pub(crate) detached: &'a CancellationToken,
}

/// Runs scripts in pods. Cheap to clone.
#[derive(Clone)]
pub struct KubernetesRunner {
    pub(crate) inner: Arc<RunnerInner>,
}

pub(crate) struct RunnerInner {
    pub(crate) client: Client,
    pub(crate) pods: Api<Pod>,
    pub(crate) settings: KubernetesSettings,
    pub(crate) keeper: Arc<PodKeeper>,
    pub(crate) warm: Arc<WarmPool>,
    pub(crate) leases: Arc<ManagerLeases>,
    tasks: TaskTracker,
    /// When no script starts to wait for its pod any more, once a stop is planned. Scripts whose
    /// runs are dropped from then on are left to other managers.
    starts_end: watch::Sender<Option<Instant>>,
    /// Background work beside scripts: maintenance of the warm pods, and the network policy probe.
    pub(crate) background: TaskTracker,
    /// Ends the background work.
    pub(crate) background_stop: CancellationToken,
    /// What the network policy probe has shown.
    pub(crate) policy: Mutex<PolicyStatus>,
    pub(crate) packages: PackageSets,
    /// The watches and the reaper, which end with the runner.
    watchers: TaskTracker,
    /// Whether the cluster answers.
    cluster: watch::Receiver<ClusterState>,
    stop: CancellationToken,
    _stop_guard: DropGuard,
}

impl KubernetesRunner {
    /// Starts the runner on the cluster that kubectl would take: the one that `KUBECONFIG` names,
    /// else that of `~/.kube/config`, else the one that this process runs in.
    ///
    /// # Errors
    /// [`Unavailable`] says what is missing and what to do.
    pub async fn start_inferred(settings: KubernetesSettings) -> Result<Self, Unavailable> {
        let config = kube::Config::infer().await.map_err(kube::Error::InferConfig);
        let client = config.and_then(connect).map_err(Unavailable::Configuration)?;

        Self::start(client, settings).await
    }

    /// Starts the runner: checks the namespace and the rights of this service there, and begins to
    /// watch its pods.
    ///
    /// # Errors
    /// [`Unavailable`] says what is missing and what to do.
    pub async fn start(client: Client, settings: KubernetesSettings) -> Result<Self, Unavailable> {
        Box::pin(namespace::check_namespace(&client, &settings)).await?;

        let pods = Api::namespaced(client.clone(), &settings.namespace);
        let tasks = TaskTracker::new();
        let watch = PodWatch::default();
        let stop = CancellationToken::new();

        // Not among the tracked tasks, which are those that `idle` waits for.
        let watchers = TaskTracker::new();
        {
            let watch = watch.clone();
            let client = client.clone();
            let stop = stop.clone();
            let namespace = settings.namespace.clone();
            watchers.spawn(async move { watch.run(client, &namespace, stop).await });
        }

        let owner = OwnerLease::default();
        let keeper = Arc::new(PodKeeper::new(pods.clone(), watch, owner.clone(), tasks.clone()));
        let leases =
            ManagerLeases::new(client.clone(), &settings.namespace, keeper.manager(), owner);
        let leases = Arc::new(leases);

        // Learns of the owner, before anything is made that is to belong to it.
        leases.list_all().await.map_err(Unavailable::Cluster)?;
        // Before the first pod, so that any manager that sees the pod sees the Lease of its
        // manager.
        leases.renew().await.map_err(Unavailable::Cluster)?;

        let reaper = Reaper {
            keeper: Arc::clone(&keeper),
            leases: Arc::clone(&leases),
            liveness: LivenessTracker::default(),
            cluster: watch::Sender::default(),
        };
        let cluster = reaper.cluster.subscribe();

        watchers.spawn(reaper.run(stop.clone()));

        let warm = Arc::new(WarmPool::new(WarmPoolDeps {
            client: client.clone(),
            pods: pods.clone(),
            settings: settings.clone(),
            keeper: Arc::clone(&keeper),
            manager: keeper.manager().to_owned(),
        }));

        let background = TaskTracker::new();
        let background_stop = stop.child_token();
        background.spawn(Arc::clone(&warm).maintain_pool(background_stop.clone()));

        let inner = RunnerInner {
            client,
            pods,
            settings,
            keeper,
            warm,
            leases,
            tasks,
            starts_end: watch::Sender::default(),
            background,
            background_stop,
            policy: Mutex::default(),
            packages: PackageSets::new(),
            watchers,
            cluster,
            stop: stop.clone(),
            _stop_guard: stop.drop_guard(),
        };

        Ok(Self { inner: Arc::new(inner) })
    }

    /// Prepares a planned stop: a script whose run is dropped from now on, and whose call was not
    /// cancelled, goes on in its pod. Another manager adopts it with the redelivered call. One that
    /// still waits for its packages at `starts_end` has no pod to adopt, and is refused as busy.
    pub fn prepare_stop(&self, starts_end: Instant) {
        self.inner.starts_end.send_replace(Some(starts_end));
    }

    /// Deletes the warm pods, ends the probe of the network policy, and waits until no script runs
    /// and no pod is left to delete.
    pub async fn close(&self) {
        self.inner.background_stop.cancel();
        self.inner.background.close();
        self.inner.background.wait().await;
        self.idle().await;
    }

    /// Numbers of the warm pods.
    #[must_use]
    pub fn warm(&self) -> WarmStatus {
        self.inner.warm.status()
    }

    /// Whether the cluster answers this manager, from now on. While it does not, scripts are better
    /// left to other managers.
    #[must_use]
    pub fn cluster_state(&self) -> watch::Receiver<ClusterState> {
        self.inner.cluster.clone()
    }

    /// Ends the watches and the reaper and gives up this manager's Lease, once no script runs any
    /// more. What is left in the namespace after this is another manager's to delete.
    ///
    /// # Errors
    /// When the Lease cannot be deleted; the other managers notice its expiry by themselves, later.
    pub async fn leave(&self) -> Result<(), kube::Error> {
        self.inner.stop.cancel();
        self.inner.watchers.close();
        self.inner.watchers.wait().await;
        self.inner.leases.delete_own().await
    }

    /// Waits until no script runs and no pod is left to delete.
    pub async fn idle(&self) {
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
        self.inner.tasks.reopen();
    }
}

impl Runner for KubernetesRunner {
    fn name(&self) -> &'static str {
        "kubernetes"
    }

    fn adopts(&self) -> bool {
        true
    }

    fn run(&self, script: Script, run: Run) -> BoxFuture<'_, Result<Outcome, Error>> {
        Arc::clone(&self.inner).run_script(script, run).boxed()
    }
}

/// Ends the task of a run whose caller has dropped it.
struct DropSignal {
    runner: Arc<RunnerInner>,
    /// Fires when the call's outcome is not wanted.
    call_cancelled: CancellationToken,
    /// Ends the run, and its script with it.
    cancelled: CancellationToken,
    /// Ends the run, and leaves its script.
    detached: CancellationToken,
}

impl Drop for DropSignal {
    fn drop(&mut self) {
        let is_wanted = !self.call_cancelled.is_cancelled();
        if is_wanted && self.runner.starts_end.borrow().is_some() {
            self.detached.cancel();
        } else {
            self.cancelled.cancel();
        }
    }
}

impl RunnerInner {
    /// Runs a script in a task of its own, which ends it properly when the caller drops this.
    async fn run_script(self: Arc<Self>, script: Script, run: Run) -> Result<Outcome, Error> {
        script.check()?;
        let requirements = Requirements::parse(&script.packages)
            .map_err(|error| Error::Invalid(error.to_string()))?;

        // When the caller drops this future, the task below sees to the end.
        let cancelled = run.cancelled.child_token();
        let detached = CancellationToken::new();
        let guard = DropSignal {
            runner: Arc::clone(&self),
            call_cancelled: run.cancelled,
            cancelled: cancelled.clone(),
            detached: detached.clone(),
        };
        let runner = Arc::clone(&self);
        let run = Run { cancelled, ..run };
        let running = async move {
            // What is dropped by the first arm leaves its pod, whatever it was at.
            tokio::select! {
                biased;
                () = detached.cancelled() => {
                    let text = "this manager stopped, and left the script to another one";
                    Err(Error::OutcomeUnknown(text.to_owned()))
                }
                outcome = runner.run_to_outcome(script, &requirements, run, &detached) => outcome,
            }
        };
        let task = self.tasks.spawn(running.in_current_span());
        let outcome = task.await.map_err(|error| Error::OutcomeUnknown(error.to_string()))?;

        drop(guard);
        outcome
    }

    async fn run_to_outcome(
        self: Arc<Self>,
        script: Script,
        requirements: &Requirements,
        run: Run,
        detached: &CancellationToken,
    ) -> Result<Outcome, Error> {
        let has_packages = !requirements.is_empty();
        let limits = ScriptLimits { packages: u32::from(has_packages), ..self.limits(&script) };
        let mut call =
            ScriptCall { script: &script, run: &run, limits, package_set: None, detached };

        // The pod of a redelivered script exists already, and not for long unless a manager adopts
        // it. That pod has its packages, too.
        if run.redelivered
            && let Some(outcome) = self.resume_redelivered(&call).await?
        {
            return Ok(outcome);
        }

        // From here on it is known not to have started.
        if has_packages {
            call.package_set = tokio::select! {
                set = self.ensure_packages(requirements, &run) => Some(set?),
                () = wait_for_moment(&self.starts_end) => {
                    let text = "this worker stops, and the packages were not installed yet";
                    return Err(Error::Busy(text.to_owned()));
                }
            };
        }

        self.start_fresh(&call).await
    }

    /// Runs a script that has not started anywhere. A pod that is lost before its script starts is
    /// replaced by another.
    async fn start_fresh(&self, call: &ScriptCall<'_>) -> Result<Outcome, Error> {
        let mut pods = 1;
        loop {
            let reason = match self.run_in_new_pod(call).await? {
                PodAttempt::Finished(outcome) => return Ok(outcome),
                PodAttempt::NeverStarted(reason) => reason,
            };

            if pods == PODS_MAX || Instant::now() >= call.run.start_deadline() {
                return Err(redelivery::never_started(&reason));
            }

            pods += 1;
        }
    }

    /// Runs a script in a warm pod, else in one that is made for it.
    async fn run_in_new_pod(&self, call: &ScriptCall<'_>) -> Result<PodAttempt, Error> {
        let (mut pod, outcome) = match self.warm.claim_pod(call).await {
            Err(CallConflict::OwnedElsewhere) => {
                return self.await_other_manager(call).await.map(PodAttempt::Finished);
            }
            Err(CallConflict::Unknown) => return Err(redelivery::ownership_unknown()),
            Ok(Some(ClaimedPod { mut pod, ready })) => {
                self.record_pod_in_span(&pod.name);
                let outcome = self.run_ready(&mut pod, ready, protocol::go_message(), call).await?;
                (pod, outcome)
            }
            Ok(None) => {
                let PodCreation::Created(mut pod) = self.create_call_pod(call).await? else {
                    return self.await_other_manager(call).await.map(PodAttempt::Finished);
                };
                self.record_pod_in_span(&pod.name);
                let outcome = self.run_in_pod(&mut pod, call).await?;
                (pod, outcome)
            }
        };

        let attempt = match outcome {
            Some(outcome) => PodAttempt::Finished(outcome),
            None => self.settle_start(&mut pod, call).await?,
        };

        if let PodAttempt::NeverStarted(reason) = &attempt {
            tracing::warn!(pod = pod.name, reason, "pod ended before its script started");
            if let Some(outcome) = self.release_for_retry(pod, call).await? {
                return Ok(PodAttempt::Finished(outcome));
            }
        }

        Ok(attempt)
    }

    /// Creates a pod for this call alone. It takes precedence over warm pods, which are deleted
    /// where there is no room for both.
    async fn create_call_pod(&self, call: &ScriptCall<'_>) -> Result<PodCreation, Error> {
        let run = call.run;
        let start_timeout = self.settings.start_timeout.duration();
        let lifetime = call.script.timeout + start_timeout;
        let end = run.wait_deadline(ROOM_TIMEOUT);

        loop {
            // What became of the one before may not be known yet, so none has the nonce of another.
            let identity = PodIdentity::for_call(self.keeper.manager(), run.key, &run.call_id);
            let mut description = pod_spec::describe_pod(&self.settings, &identity, lifetime);
            if let Some(set) = &call.package_set {
                description = packages::mount_set(description, &self.settings, set);
            }

            let by = run.wait_deadline(start_timeout);
            let signals =
                PodSignals { cancelled: run.cancelled.clone(), detached: call.detached.clone() };
            let created = self.keeper.create_pod(&identity, description, &signals, by).await;
            let is_busy = matches!(created, Err(Error::Busy(_)));

            if !is_busy || Instant::now() >= end || !self.warm.evict_for_room() {
                return created;
            }

            sleep(ROOM_INTERVAL).await;
        }
    }

    /// Names the pod of a script in the script's span.
    pub(crate) fn record_pod_in_span(&self, pod: &str) {
        let span = Span::current();
        span.record("k8s.namespace.name", self.settings.namespace.as_str());
        span.record("k8s.pod.name", pod);
    }

    /// Waits until the pod answers and runs the script in it. `None` when it is unknown whether the
    /// script started.
    pub(crate) async fn run_in_pod(
        &self,
        pod: &mut OwnedPod,
        call: &ScriptCall<'_>,
    ) -> Result<Option<Outcome>, Error> {
        let observed = pod.follower.observed.clone();
        let startup = PodStartup {
            client: &self.client,
            namespace: &self.settings.namespace,
            name: &pod.name,
            nonce: &pod.nonce,
            by: call.run.wait_deadline(self.settings.start_timeout.duration()),
            unscheduled: self.settings.unscheduled_timeout.duration(),
            cancelled: &call.run.cancelled,
        };

        let ready = tokio::select! {
            ready = startup.wait_ready(&mut pod.follower) => ready?,
            never = self.warm.evict_while_unschedulable(observed) => match never {},
        };

        let request = protocol::start_message(&call.limits, call.script);
        self.run_ready(pod, ready, request, call).await
    }

    /// Runs a script in a pod that answers: `request` is what makes it start. `None` when it is
    /// unknown whether it did.
    async fn run_ready(
        &self,
        pod: &mut OwnedPod,
        ready: ReadyPod,
        request: Bytes,
        call: &ScriptCall<'_>,
    ) -> Result<Option<Outcome>, Error> {
        let OwnedPod { name, nonce, follower, end_listener, .. } = pod;
        let session = self.open_session(name, nonce, call);

        session.run_script(ready, request, follower, end_listener).await
    }

    pub(crate) fn open_session<'a>(
        &'a self,
        name: &'a str,
        nonce: &'a str,
        call: &ScriptCall<'a>,
    ) -> ScriptSession<'a> {
        ScriptSession {
            client: &self.client,
            pods: &self.pods,
            name,
            nonce,
            timeout: call.script.timeout,
            channel: call.run.channel.clone(),
            cancelled: &call.run.cancelled,
            live: call.run.live.clone(),
            pieces_forwarded: Arc::default(),
        }
    }
}

impl RunnerInner {
    /// The limits of a script in its pod.
    pub(crate) fn limits(&self, script: &Script) -> ScriptLimits {
        let limits = ScriptLimits::new(script.timeout);
        let memory = quantity::whole_number(&self.settings.memory_limit).unwrap_or(0);
        let for_memory = memory.saturating_mul(ADDRESS_SPACE_PER_MEMORY);
        let address_space_bytes = limits.address_space_bytes.max(for_memory);
        ScriptLimits { address_space_bytes, ..limits }
    }
}
