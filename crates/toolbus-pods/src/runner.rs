//! The runner: which pod a script gets, and in which order things happen.
//!
//! Invariants: never more scripts at a time than configured, and a bounded number of them waiting;
//! every pod that was asked for is deleted, whatever becomes of its run and of whoever waits for it;
//! a pod runs one script, once.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use toolbus_scripts::files::{ENTRIES_MAX, FILES_BYTES_MAX, FILES_MAX, NAME_BYTES_MAX};
use toolbus_scripts::packages::Requirements;
use toolbus_scripts::runner::{CallKey, Error, OUTPUT_BYTES_MAX, Outcome, Run, Runner, Script};
use tracing::{Instrument as _, Span};

use crate::connect::connect;
use crate::leases::{Presence, Watchman};
use crate::namespace::{self, Unavailable};
use crate::owner_lease::Owner;
use crate::packages::{self, Packages};
use crate::pod_lifecycle::{Keeper, Kept, Made};
use crate::pod_spec::{self, Identity};
use crate::pod_startup::{self, Born};
use crate::pod_watch::Watch;
use crate::policy_probe::PolicyStatus;
use crate::reaper::Reaper;
use crate::settings::KubernetesSettings;
use crate::warm_metrics::WarmStatus;
use crate::warm_pool::{self, NotHere, Warm};
use crate::{protocol, redelivery, script_session};

/// Scripts that may wait for their turn; one more is refused as busy.
const WAITING_MAX: usize = 16;
/// What one script may use beside its pod's limits: as in the local sandbox.
const PROCESSES: u32 = 64;
const OPEN_FILES: u32 = 256;
const FILE_BYTES: u64 = 64 << 20;
const ADDRESS_SPACE_BYTES: u64 = 4 << 30;

/// How long a script may wait for a pod that was waiting to make room for its own, and how often it
/// is looked: the cluster counts a moment later.
const ROOM_LIMIT: Duration = Duration::from_secs(8);
const ROOM_PAUSE: Duration = Duration::from_millis(200);

/// Most pods that one call gets, where one is lost before the script begins.
const PODS_MAX: u32 = 3;

/// What came of a pod that was to run a script.
pub(crate) enum Met {
    Outcome(Outcome),
    /// The pod is lost, and the script never began; the text says what became of the pod.
    Unbegun(String),
}

/// Runs scripts in pods. Cheap to clone.
#[derive(Clone)]
pub struct KubernetesRunner {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) client: Client,
    pub(crate) pods: Api<Pod>,
    pub(crate) settings: KubernetesSettings,
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) warm: Arc<Warm>,
    pub(crate) presence: Arc<Presence>,
    /// Scripts that run or wait.
    pub(crate) admitted: Arc<Semaphore>,
    pub(crate) admitted_max: usize,
    /// Scripts that run.
    pub(crate) running: Semaphore,
    pub(crate) tasks: TaskTracker,
    /// What is done beside scripts: it looks after the warm pods, and probes the network policy.
    pub(crate) beside: TaskTracker,
    /// Ends that.
    pub(crate) beside_stop: CancellationToken,
    /// What the probe has shown.
    pub(crate) policy: Mutex<PolicyStatus>,
    pub(crate) packages: Packages,
    /// The watches and the reaper, which end with the runner.
    pub(crate) looking: TaskTracker,
    pub(crate) stop: CancellationToken,
    _stops: DropGuard,
}

impl KubernetesRunner {
    /// Starts the runner on the cluster that kubectl would take: the one that `KUBECONFIG` names,
    /// else that of `~/.kube/config`, else the one that this process runs in.
    ///
    /// # Errors
    /// [`Unavailable`] says what is missing and what to do.
    pub async fn start_inferred(
        settings: KubernetesSettings,
        max_concurrent: usize,
    ) -> Result<Self, Unavailable> {
        let config = kube::Config::infer().await.map_err(kube::Error::InferConfig);
        let client = config.and_then(connect).map_err(Unavailable::Configuration)?;

        Self::start(client, settings, max_concurrent).await
    }

    /// Connects to the cluster, checks what this service may do there, and begins to watch.
    ///
    /// # Errors
    /// [`Unavailable`] says what is missing and what to do.
    pub async fn start(
        client: Client,
        settings: KubernetesSettings,
        max_concurrent: usize,
    ) -> Result<Self, Unavailable> {
        Box::pin(namespace::check(&client, &settings)).await?;
        let pods = Api::namespaced(client.clone(), &settings.namespace);
        let tasks = TaskTracker::new();
        let watch = Watch::default();
        let stop = CancellationToken::new();
        // Not among the tracked tasks, which are those that `idle` waits for.
        let looking = TaskTracker::new();
        {
            let (watch, client, stop) = (watch.clone(), client.clone(), stop.clone());
            let namespace = settings.namespace.clone();
            looking.spawn(async move { watch.run(client, &namespace, stop).await });
        }
        let owner = Owner::default();
        let keeper = Arc::new(Keeper::new(pods.clone(), watch, owner.clone(), tasks.clone()));
        let presence =
            Arc::new(Presence::new(client.clone(), &settings.namespace, keeper.manager(), owner));
        // For the owner, before anything is made that is to belong to it.
        presence.all().await.map_err(Unavailable::Cluster)?;
        // Before the first pod, so that whoever sees one sees its manager.
        presence.renew().await.map_err(Unavailable::Cluster)?;
        let reaper = Reaper {
            keeper: Arc::clone(&keeper),
            presence: Arc::clone(&presence),
            watchman: Watchman::default(),
        };
        looking.spawn(reaper.run(stop.clone()));
        let warm = Arc::new(Warm::new(warm_pool::Parts {
            client: client.clone(),
            pods: pods.clone(),
            settings: settings.clone(),
            keeper: Arc::clone(&keeper),
            manager: keeper.manager().to_owned(),
        }));
        let (beside, beside_stop) = (TaskTracker::new(), stop.child_token());
        beside.spawn(Arc::clone(&warm).run(beside_stop.clone()));
        let admitted_max = max_concurrent + WAITING_MAX;
        let shared = Shared {
            client,
            pods,
            settings,
            keeper,
            warm,
            presence,
            admitted: Arc::new(Semaphore::new(admitted_max)),
            admitted_max,
            running: Semaphore::new(max_concurrent),
            tasks,
            beside,
            beside_stop,
            policy: Mutex::default(),
            packages: Packages::new(),
            looking,
            stop: stop.clone(),
            _stops: stop.drop_guard(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Lets go of the pods that wait for a script, ends the probe of the network policy, and waits
    /// until no script runs and no pod is left to delete.
    pub async fn close(&self) {
        self.shared.beside_stop.cancel();
        self.shared.beside.close();
        self.shared.beside.wait().await;
        self.idle().await;
    }

    /// How it stands with the pods that wait for a script.
    #[must_use]
    pub fn warm(&self) -> WarmStatus {
        self.shared.warm.status()
    }

    /// Ends looking after the namespace, once no script runs any more. What is left there after
    /// this is another manager's to delete.
    ///
    /// # Errors
    /// When the others cannot be told; they notice by themselves, later.
    pub async fn leave(&self) -> Result<(), kube::Error> {
        self.shared.stop.cancel();
        self.shared.looking.close();
        self.shared.looking.wait().await;
        self.shared.presence.leave().await
    }

    /// Waits until no script runs and no pod is left to delete.
    pub async fn idle(&self) {
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
        self.shared.tasks.reopen();
    }
}

impl Runner for KubernetesRunner {
    fn name(&self) -> &'static str {
        "kubernetes"
    }

    fn adopts(&self) -> bool {
        true
    }

    fn wait<'a>(
        &'a self,
        key: CallKey,
        turn: BoxFuture<'a, ()>,
    ) -> BoxFuture<'a, Result<(), Error>> {
        self.shared.presence.wait(key, turn).boxed()
    }

    fn is_unbegun(&self, key: CallKey) -> BoxFuture<'_, Result<bool, Error>> {
        self.shared.presence.is_unbegun(key).boxed()
    }

    fn run(&self, script: Script, run: Run) -> BoxFuture<'_, Result<Outcome, Error>> {
        Arc::clone(&self.shared).admit(script, run).boxed()
    }
}

impl Shared {
    async fn admit(self: Arc<Self>, script: Script, run: Run) -> Result<Outcome, Error> {
        script.check()?;
        let requirements = Requirements::parse(&script.packages)
            .map_err(|error| Error::Invalid(error.to_string()))?;
        // What may run already is not refused: busy means that nothing has begun.
        let place = match Arc::clone(&self.admitted).try_acquire_owned() {
            Ok(place) => Some(place),
            Err(_) if run.redelivered => None,
            Err(_) => {
                let text = format!("{} scripts run or wait already", self.admitted_max);
                return Err(Error::Busy(text));
            }
        };
        // Fires as well when the caller drops this future: the task below sees to the end.
        let cancelled = run.cancelled.child_token();
        let guard = cancelled.clone().drop_guard();
        let shared = Arc::clone(&self);
        let run = Run { cancelled, ..run };
        let running = async move {
            let outcome = shared.run(script, &requirements, run).await;
            drop(place);
            outcome
        };
        let task = self.tasks.spawn(running.in_current_span());
        let outcome = task.await.map_err(|error| Error::OutcomeUnknown(error.to_string()))?;
        drop(guard);
        outcome
    }

    async fn run(
        self: Arc<Self>,
        script: Script,
        requirements: &Requirements,
        run: Run,
    ) -> Result<Outcome, Error> {
        let packages = !requirements.is_empty();
        let limits = protocol::Settings { packages: u32::from(packages), ..limits(&script) };
        // It waits for no place: its pod is there already, and not for long if nobody takes it over.
        // That has its packages, too.
        if run.redelivered
            && let Some(outcome) = self.again(&script, &run, &limits).await?
        {
            return Ok(outcome);
        }
        // From here on it is known not to have begun.
        let mut set = None;
        if packages {
            let equipping = async { set = Some(self.equip(requirements, &run).await) };
            run.found_out(self.presence.wait(run.key, equipping.boxed())).await?;
        }
        let set = set.transpose()?;
        let mut permit = None;
        let turn = async { permit = Some(run.turn(self.running.acquire()).await) };
        tokio::select! {
            waited = run.found_out(self.presence.wait(run.key, turn.boxed())) => waited?,
            () = run.cancelled.cancelled() => return Err(Error::Cancelled),
        }
        let permit = permit.transpose()?.transpose();
        let permit = permit.map_err(|error| Error::Failed(error.to_string()))?;
        let outcome = self.anew(&script, &run, (set, limits)).await;
        drop(permit);
        outcome
    }

    /// A call that has not begun anywhere. A pod that is lost before its script begins is made good by
    /// another.
    async fn anew(
        &self,
        script: &Script,
        run: &Run,
        (set, limits): (Option<String>, protocol::Settings),
    ) -> Result<Outcome, Error> {
        let mut pods = 1;
        loop {
            let lost = match self.in_new_pod(script, run, (set.as_deref(), &limits)).await? {
                Met::Outcome(outcome) => return Ok(outcome),
                Met::Unbegun(reason) => reason,
            };
            tracing::warn!(reason = lost, "a pod ended before its script started");
            if pods == PODS_MAX || Instant::now() >= run.begin_by() {
                return Err(redelivery::never_began(&lost));
            }
            pods += 1;
        }
    }

    async fn in_new_pod(
        &self,
        script: &Script,
        run: &Run,
        (set, limits): (Option<&str>, &protocol::Settings),
    ) -> Result<Met, Error> {
        let (mut kept, outcome) = match self.warm.claim(script, run).await {
            Err(NotHere::Elsewhere) => {
                return self.alongside(script, run).await.map(Met::Outcome);
            }
            Err(NotHere::Unknown) => return Err(redelivery::whose_is_unknown()),
            Ok(Some(warm_pool::Claimed { mut kept, born })) => {
                self.name_in_trace(&kept.name);
                let outcome = self.live(&mut kept, (born, protocol::go()), script, run).await?;
                (kept, outcome)
            }
            Ok(None) => {
                let Made::New(mut kept) = self.make_for(script, run, set).await? else {
                    return self.alongside(script, run).await.map(Met::Outcome);
                };
                self.name_in_trace(&kept.name);
                let outcome = self.in_pod(&mut kept, script, run, limits).await?;
                (kept, outcome)
            }
        };
        let met = match outcome {
            Some(outcome) => Met::Outcome(outcome),
            None => self.find_out(&mut kept, script, run, limits).await?,
        };
        if matches!(met, Met::Unbegun(_))
            && let Some(outcome) = self.make_way(kept, script, run).await?
        {
            return Ok(Met::Outcome(outcome));
        }
        Ok(met)
    }

    /// A pod of this call's own, which goes before those that wait for one.
    async fn make_for(&self, script: &Script, run: &Run, set: Option<&str>) -> Result<Made, Error> {
        let start_timeout = self.settings.start_timeout.duration();
        let life = script.timeout + start_timeout;
        let end = run.until(ROOM_LIMIT);
        loop {
            // What became of the one before may not be known yet, so none has the nonce of another.
            let identity = Identity::of_call(self.keeper.manager(), run.key, &run.call_id);
            let mut description = pod_spec::describe(&self.settings, &identity, life);
            if let Some(set) = set {
                description = packages::with_set(description, &self.settings, set);
            }
            let by = run.until(start_timeout);
            let made = self.keeper.make(&identity, description, &run.cancelled, by).await;
            let is_busy = matches!(made, Err(Error::Busy(_)));
            if !is_busy || Instant::now() >= end || !self.warm.make_room() {
                return made;
            }
            sleep(ROOM_PAUSE).await;
        }
    }

    /// Tells the trace of a script which pod is its own.
    pub(crate) fn name_in_trace(&self, pod: &str) {
        let span = Span::current();
        span.record("k8s.namespace.name", self.settings.namespace.as_str());
        span.record("k8s.pod.name", pod);
    }

    pub(crate) async fn in_pod(
        &self,
        kept: &mut Kept,
        script: &Script,
        run: &Run,
        settings: &protocol::Settings,
    ) -> Result<Option<Outcome>, Error> {
        let (name, nonce) = (kept.name.as_str(), kept.nonce.as_str());
        let follower = &mut kept.follower;
        let known = follower.known.clone();
        let wait = pod_startup::Wait {
            client: &self.client,
            namespace: &self.settings.namespace,
            name,
            nonce,
            by: run.until(self.settings.start_timeout.duration()),
            cancelled: &run.cancelled,
        };
        let born = tokio::select! {
            born = wait.born(follower) => born?,
            never = self.warm.give_way(known) => match never {},
        };
        let request = protocol::request(settings, script);
        self.live(kept, (born, request), script, run).await
    }

    /// A script in a pod that answers: `request` is what makes it start. `None` when nobody has heard
    /// whether it did.
    async fn live(
        &self,
        kept: &mut Kept,
        (born, request): (Born, Bytes),
        script: &Script,
        run: &Run,
    ) -> Result<Option<Outcome>, Error> {
        let Kept { name, nonce, follower, ear, .. } = kept;
        self.life(name, nonce, script, run).run(born, request, (follower, ear)).await
    }

    pub(crate) fn life<'a>(
        &'a self,
        name: &'a str,
        nonce: &'a str,
        script: &Script,
        run: &'a Run,
    ) -> script_session::Life<'a> {
        script_session::Life {
            pods: &self.pods,
            name,
            nonce,
            timeout: script.timeout,
            cancelled: &run.cancelled,
            live: run.live.clone(),
            told: Arc::default(),
        }
    }
}

/// What a script may use.
pub(crate) fn limits(script: &Script) -> protocol::Settings {
    protocol::Settings {
        timeout_ms: u64::try_from(script.timeout.as_millis()).unwrap_or(u64::MAX),
        output_bytes: OUTPUT_BYTES_MAX,
        processes: PROCESSES,
        open_files: OPEN_FILES,
        file_bytes: FILE_BYTES,
        address_space_bytes: ADDRESS_SPACE_BYTES,
        packages: 0,
        files: FILES_MAX,
        files_bytes: FILES_BYTES_MAX,
        name_bytes: NAME_BYTES_MAX,
        entries: ENTRIES_MAX,
    }
}
