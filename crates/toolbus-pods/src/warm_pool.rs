//! Interpreters that wait: pods that are made before anybody asks, so that a script need not wait
//! for one.
//!
//! A warm pod is a pod like any other whose first process has denied itself what scripts are denied
//! and answers over streams that are attached already. It is claimed by a patch that names the call,
//! and given the script meanwhile, all but the word to start it. `hand` has both; here is how many
//! there are, which ones, and until when.
//!
//! Invariants: a pod runs one script at the most, because the claim takes away the label that makes
//! it claimable, in a patch that the cluster takes once; no script starts in a pod that was not
//! claimed for it or has not said that it has all of it, and none is sent to a pod that was sent
//! another before; a pod is older
//! than its greatest age by [`AGE_SLACK`] at the most; that pods cannot be made is no script's
//! concern.

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
use toolbus_scripts::runner::{Error, Run, Script};
use toolbus_scripts::tool::TIMEOUT_SECONDS;

use crate::attach::Frame;
use crate::claim as hand;
use crate::errors;
use crate::metrics;
use crate::pod_lifecycle::{Keeper, Kept, Made, ROOM};
use crate::pod_spec::{self, Identity};
use crate::pod_startup::{self, Born};
use crate::pod_watch::Known;
use crate::protocol;
use crate::settings::KubernetesSettings;
use crate::warm_metrics::{Claim, Record, Refill, WarmStatus};

/// How often those that wait are looked after.
const TICK: Duration = Duration::from_secs(1);
/// A script that was just claimed for is let go first; then the next pod is made, which is more work
/// for a node than most scripts. It is to be asked for within 50 ms of the claim.
const HEAD_START: Duration = Duration::from_millis(25);
/// How much older than its greatest age a pod may become, while there is none in its place.
const AGE_SLACK: Duration = Duration::from_secs(60);
/// After this long without a word a pod is asked whether it is there, and so long it may take to say
/// so. Asking also keeps what lies between from taking the connection for forgotten.
const SILENCE: Duration = Duration::from_secs(30);
const ANSWER: Duration = Duration::from_secs(10);
/// How long the cluster may take for what makes a claim lighter.
const EASE_LIMIT: Duration = Duration::from_secs(2);
/// How long none is made after one could not be: it doubles with each, up to the longest.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// How long none is made after a script found no room.
const PAUSE_FOR_ROOM: Duration = Duration::from_secs(10);

/// What a manager makes its warm pods with.
pub(crate) struct Parts {
    pub(crate) client: Client,
    pub(crate) pods: Api<Pod>,
    pub(crate) settings: KubernetesSettings,
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) manager: String,
}

/// The warm pods of one manager.
pub(crate) struct Warm {
    parts: Parts,
    /// What all of them are described as, in short.
    template: String,
    state: Mutex<State>,
    changed: Notify,
    record: Record,
}

struct State {
    /// The oldest first.
    waiting: VecDeque<Waiting>,
    /// None is made until then.
    paused_until: Instant,
    /// Ones that could not be made since the last that could.
    failures: u32,
    /// When one last made room for a script.
    gave_way: Option<Instant>,
}

/// A pod that waits for a script.
pub(crate) struct Waiting {
    pub(crate) kept: Kept,
    pub(crate) born: Born,
    /// When the cluster was asked for it.
    pub(crate) made: Instant,
    /// When it was last heard.
    heard: Instant,
    /// When it was asked something that it has not answered.
    asked: Option<Instant>,
}

/// Why a call must not begin here.
pub(crate) enum NotHere {
    /// The pod that was claimed for it has been taken over, and the call with it.
    Elsewhere,
    /// Nobody knows whether that is so.
    Unknown,
}

/// A pod that has its script and waits for the word to start it.
pub(crate) struct Claimed {
    pub(crate) kept: Kept,
    pub(crate) born: Born,
}

impl Warm {
    pub(crate) fn new(parts: Parts) -> Self {
        let template = pod_spec::template(&parts.settings);
        let now = Instant::now();
        let state =
            State { waiting: VecDeque::new(), paused_until: now, failures: 0, gave_way: None };
        let record =
            Record::new(parts.settings.warm.size, &opentelemetry::global::meter(metrics::METER));
        Self { parts, template, state: Mutex::new(state), changed: Notify::new(), record }
    }

    /// Makes pods and looks after them until stopped; then lets go of those that wait.
    pub(crate) async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut making = JoinSet::new();
        while self.size() > 0 && !stop.is_cancelled() {
            self.look_after();
            for _ in 0..self.missing(making.len()) {
                let (warm, stop) = (Arc::clone(&self), stop.clone());
                making.spawn(async move { warm.make(&stop).await });
            }
            let paused_until = self.state.lock().paused_until;
            // Each arm only waits; what was made stays in the set until it is taken.
            tokio::select! {
                () = stop.cancelled() => {}
                Some(made) = making.join_next() => match made {
                    Ok(made) => self.made(made),
                    Err(error) => self.made(Err(Error::Failed(error.to_string()))),
                },
                () = self.changed.notified() => sleep(HEAD_START).await,
                () = sleep(TICK) => {}
                () = sleep_until(paused_until), if paused_until > Instant::now() => {}
            }
        }
        // Those that are being made hear of the end themselves, and delete what they had begun.
        while making.join_next().await.is_some() {}
        self.state.lock().waiting.clear();
        self.record.waiting(0);
    }

    /// Gives up a pod that waits, for a script that found no room, and makes none for a while. Says
    /// whether there is room to hope for.
    pub(crate) fn make_room(&self) -> bool {
        let mut state = self.state.lock();
        let now = Instant::now();
        if state.gave_way.is_some_and(|at| now - at < ROOM) {
            return true;
        }
        state.paused_until = state.paused_until.max(now + PAUSE_FOR_ROOM);
        let given_up = state.waiting.pop_front();
        self.record.waiting(state.waiting.len());
        if given_up.is_some() {
            state.gave_way = Some(now);
        }
        given_up.is_some()
    }

    /// Lets pods that are done with stay while one is born, and makes room as long as no node has any
    /// for it.
    pub(crate) async fn give_way(&self, mut known: Receiver<Known>) -> Infallible {
        let mut birth = Some(self.parts.keeper.birth());
        while known.wait_for(|known| known.unschedulable.is_some()).await.is_ok() {
            drop(birth.take());
            self.make_room();
            sleep(ROOM).await;
        }
        // Nothing is known any more, also not that there is no room.
        std::future::pending().await
    }

    /// Numbers for people and tests.
    pub(crate) fn status(&self) -> WarmStatus {
        self.record.status()
    }

    /// A pod that has this script, claimed for this call; `None` when there is none for it. The
    /// script has not started.
    ///
    /// # Errors
    /// When the call is another manager's by now, or may be.
    pub(crate) async fn claim(
        &self,
        script: &Script,
        run: &Run,
    ) -> Result<Option<Claimed>, NotHere> {
        if self.size() == 0 {
            return Ok(None);
        }
        if !suits(script) {
            self.record.claim(Claim::Unsuited);
            return Ok(None);
        }
        let mut outcome = Claim::None;
        while let Some(waiting) = self.oldest() {
            let handed = hand::over(&self.parts, &self.template, waiting, (script, run)).await;
            self.changed.notify_one();
            match handed {
                Ok(claimed) => {
                    self.record.claim(Claim::Hit);
                    return Ok(Some(claimed));
                }
                Err(hand::Refused::Lost(reason)) => {
                    tracing::info!(reason, "a warm pod was lost");
                    outcome = Claim::Lost;
                }
                Err(hand::Refused::Taken) => outcome = Claim::Lost,
                Err(hand::Refused::NotHere(why)) => {
                    self.record.claim(Claim::Lost);
                    return Err(why);
                }
                Err(hand::Refused::NotNow) => {
                    outcome = Claim::Lost;
                    break;
                }
            }
        }
        self.record.claim(outcome);
        Ok(None)
    }

    fn oldest(&self) -> Option<Waiting> {
        let mut state = self.state.lock();
        let oldest = state.waiting.pop_front();
        self.record.waiting(state.waiting.len());
        oldest
    }

    fn size(&self) -> usize {
        usize::from(self.parts.settings.warm.size)
    }

    fn max_age(&self) -> Duration {
        self.parts.settings.warm.max_age.duration()
    }

    /// Lets go of those that are dead, silent or too old.
    fn look_after(&self) {
        let mut state = self.state.lock();
        let max_age = self.max_age();
        state.waiting.retain_mut(|waiting| match waiting.look() {
            Ok(()) => waiting.made.elapsed() < max_age + AGE_SLACK,
            Err(reason) => {
                tracing::info!(pod = waiting.kept.name, reason, "a warm pod was lost");
                false
            }
        });
        // One more than asked for is one that has come in the place of the oldest.
        let more = state.waiting.len().saturating_sub(self.size());
        state.waiting.drain(..more);
        self.record.waiting(state.waiting.len());
    }

    /// How many to begin to make. One that is too old has its successor made before it goes.
    fn missing(&self, making: usize) -> usize {
        let state = self.state.lock();
        if state.paused_until > Instant::now() {
            return 0;
        }
        let aged =
            state.waiting.front().is_some_and(|oldest| oldest.made.elapsed() >= self.max_age());
        (self.size() + usize::from(aged)).saturating_sub(state.waiting.len() + making)
    }

    fn made(&self, made: Result<Waiting, Error>) {
        match &made {
            Ok(_) => self.record.refill(Refill::Made),
            Err(Error::Cancelled) => {}
            Err(_) => self.record.refill(Refill::Failed),
        }
        let mut state = self.state.lock();
        match made {
            Ok(waiting) => {
                state.failures = 0;
                state.waiting.push_back(waiting);
                self.record.waiting(state.waiting.len());
            }
            Err(Error::Cancelled) => {}
            Err(error) if state.paused_until > Instant::now() => {
                tracing::debug!(%error, "a warm pod could not be made, as others before it");
            }
            Err(error) => {
                let pause = PAUSE.saturating_mul(1 << state.failures.min(6)).min(PAUSE_MAX);
                state.failures += 1;
                state.paused_until = state.paused_until.max(Instant::now() + pause);
                tracing::warn!(%error, ?pause, "a warm pod could not be made");
            }
        }
    }

    async fn make(&self, stop: &CancellationToken) -> Result<Waiting, Error> {
        let Parts { client, settings, keeper, manager, .. } = &self.parts;
        let start_timeout = settings.start_timeout.duration();
        let identity = Identity::warm(manager);
        let longest = Duration::from_secs(*TIMEOUT_SECONDS.end());
        let life = start_timeout + self.max_age() + AGE_SLACK + longest;
        let made = Instant::now();
        let description = pod_spec::describe_warm(settings, &identity, (&self.template, life));
        let by = made + start_timeout;
        let Made::New(mut kept) = keeper.make(&identity, description, stop, by).await? else {
            return Err(Error::Failed("the name of a new pod was taken".to_owned()));
        };
        let wait = pod_startup::Wait {
            client,
            namespace: &settings.namespace,
            name: &kept.name,
            nonce: &kept.nonce,
            by: Instant::now() + start_timeout,
            cancelled: stop,
        };
        let born = wait.born(&mut kept.follower).await?;
        if stop.run_until_cancelled(self.ease(&kept.name)).await.is_none() {
            return Err(Error::Cancelled);
        }
        Ok(Waiting { kept, born, made, heard: Instant::now(), asked: None })
    }

    /// Has the cluster keep no account any more of who set which field of a pod. Nobody asks for it,
    /// and to bring it up to date takes a fifth of what a claim takes.
    async fn ease(&self, name: &str) {
        let patch = Patch::Merge(json!({"metadata": {"managedFields": [{}]}}));
        let parameters = PatchParams::default();
        let easing = self.parts.pods.patch_metadata(name, &parameters, &patch);
        // Where it fails, claiming the pod takes a little longer.
        match timeout(EASE_LIMIT, easing).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                tracing::debug!(pod = name, error = %errors::chain(&error), "it was not eased");
            }
            Err(_) => tracing::debug!(pod = name, "it was not eased in time"),
        }
    }
}

impl Waiting {
    /// Takes what the pod has said meanwhile, and asks it where it was silent for long. Waits for
    /// nothing; the error says why the pod is of no use any more.
    fn look(&mut self) -> Result<(), String> {
        {
            let known = self.kept.follower.known.borrow();
            if known.deleted || known.ended.is_some() {
                return Err("it ended".to_owned());
            }
        }
        while let Some(frame) = self.born.output.next().now_or_never() {
            match frame {
                Frame::Stdout(bytes) => {
                    // What it says can only be that it is there.
                    self.born.reports.accept(&bytes).map_err(|error| error.to_string())?;
                    (self.heard, self.asked) = (Instant::now(), None);
                }
                Frame::Stderr(_) => {}
                Frame::Closed(reason) => return Err(reason),
            }
        }
        match self.asked {
            Some(asked) if asked.elapsed() >= ANSWER => Err("it does not answer".to_owned()),
            None if self.heard.elapsed() >= SILENCE => {
                self.asked = Some(Instant::now());
                let hello = protocol::hello(&self.kept.nonce);
                // A connection that has no room for so little leads nowhere.
                match self.born.input.send(&hello).now_or_never() {
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
fn suits(script: &Script) -> bool {
    script.packages.is_empty() && script.timeout.as_secs() <= *TIMEOUT_SECONDS.end()
}
