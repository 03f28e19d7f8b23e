//! Package sets for scripts in pods: installed in a pod of their own, and kept on a volume.
//!
//! A script's pod has no network, and a policy binds whole pods, so what it needs is installed
//! before, in a pod that reaches the package index and nothing else, from wheels only, so that no
//! code of a package runs there. Sets lie side by side on one volume; a script sees its own, read
//! only. `install.py` is what a packages pod does.
//!
//! Invariants: no pod is made for a requirement that does not parse; one set is installed once at a
//! time, however many calls ask for it; a script starts only when its set is complete, and no set
//! is removed that may be in use: what is known here is forgotten [`SET_SEEN_TTL`] after it was
//! looked at, and a set stays for [`SET_UNUSED_TTL`] after that.
//!
//! The age of sets is taken from the clocks of nodes, which may differ and jump: by an hour at the
//! most, or sets go that are in use.

mod egress_policy;
mod installer_pod;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};
use toolbus_scripts::packages::{self, Requirements};
use toolbus_scripts::runner::{Deadline, Error, Outcome, Run, Script};
use toolbus_scripts::supervisor::protocol::ScriptLimits;
use url::Url;

pub(crate) use egress_policy::egress_policy;
pub(crate) use installer_pod::mount_set;

use crate::pod_lifecycle::{PodCreation, PodSignals};
use crate::pod_spec::{PodIdentity, describe_pod};
use crate::runner::{RunnerInner, ScriptCall};
use crate::settings::{KubernetesSettings, PackagesSettings};

/// How long a set that was looked at is taken to be there without looking again.
const SET_SEEN_TTL: Duration = Duration::from_secs(300);
/// How long a set stays at least after it was last asked for: longer than it is known, and a script
/// that was given it takes to start and to end. An hour of it is for clocks that are not right.
const SET_UNUSED_TTL: Duration = Duration::from_secs(2400 + 3600);
/// Sets that are known at one time. More are looked at again.
const SETS_SEEN_MAX: usize = 1024;
/// Most packages pods at one time.
const INSTALLING_MAX: usize = 2;
/// What an installer may use beside its pod's limits.
const OPEN_FILES_MAX: u32 = 1024;

/// What callers are told where packages were not set up. Models read it, and the operator after
/// them.
const NOT_CONFIGURED: &str = "packages cannot be installed here: kubernetes.packages.index and \
    kubernetes.packages.claim are not set. What the image of scripts has can be imported without \
    asking for it: run the script without pip_packages to see";

/// The program of a packages pod.
const PROGRAM: &str = include_str!("python/install.py");

/// The package sets that one manager has seen.
pub(crate) struct PackageSets {
    installing: Semaphore,
    sets: Mutex<HashMap<String, Arc<PackageSet>>>,
}

/// One set: when it was last seen whole. Locked while it is checked or installed.
type PackageSet = tokio::sync::Mutex<Option<Instant>>;

impl PackageSets {
    pub(crate) fn new() -> Self {
        Self { installing: Semaphore::new(INSTALLING_MAX), sets: Mutex::default() }
    }

    fn set(&self, key: &str) -> Arc<PackageSet> {
        let mut sets = self.sets.lock();
        if sets.len() >= SETS_SEEN_MAX && !sets.contains_key(key) {
            // Sets that a call waits for stay.
            sets.retain(|_, set| Arc::strong_count(set) > 1);
        }
        Arc::clone(sets.entry(key.to_owned()).or_default())
    }
}

/// What a packages pod is to install.
struct InstallOrder {
    /// What `install.py` reads.
    input: String,
    /// How long installing may take.
    limit: Duration,
    /// When the packages are not needed any more; that they cannot be had is known a moment before.
    end: Instant,
}

impl RunnerInner {
    /// Installs the packages of a script on the volume unless they are there, and returns the name
    /// of their folder.
    pub(crate) async fn ensure_packages(
        self: &Arc<Self>,
        requirements: &Requirements,
        run: &Run,
    ) -> Result<String, Error> {
        let settings = &self.settings.packages;
        let (Some(index), Some(_)) = (&settings.index, &settings.claim) else {
            return Err(Error::Packages(NOT_CONFIGURED.to_owned()));
        };

        // There is the script's own pod to wait for after this.
        let start = Instant::now();
        let end = run.queue_deadline();
        let deadline = end.min(start + settings.timeout.duration());
        let limit = deadline.saturating_duration_since(start);
        let key = set_key(&self.settings, index.expose(), requirements);
        let set = self.packages.set(&key);
        let late = || packages::timeout_error(limit);

        let waiting = async {
            let seen = timeout_at(deadline, set.lock()).await.map_err(|_| late())?;
            if seen.is_some_and(|seen| seen.elapsed() < SET_SEEN_TTL) {
                return Ok::<_, Error>((seen, None));
            }
            let permit = timeout_at(deadline, self.packages.installing.acquire());
            Ok((seen, Some(permit.await.map_err(|_| late())?)))
        };

        let (mut seen, permit) = tokio::select! {
            waited = waiting => waited?,
            () = run.cancelled.cancelled() => return Err(Error::Cancelled),
        };

        if permit.is_some() {
            *seen = None;
            let left = deadline.saturating_duration_since(Instant::now());
            let agent = agent_digest(&run.source);
            let input = install_order(settings, index.expose(), &key, &agent, requirements);

            // From before it was looked at: it may be touched no later than that.
            let looked = Instant::now();
            let order = InstallOrder { input, limit: left, end };
            let installed = timeout_at(end, self.run_installer(order, run)).await;
            let outcome =
                installed.unwrap_or_else(|_| Err(packages::timeout_error(end - start)))?;
            packages::check_installed(&outcome, limit)?;
            *seen = Some(looked);
        }

        Ok(key)
    }

    /// Runs a packages pod to its end.
    async fn run_installer(
        self: &Arc<Self>,
        order: InstallOrder,
        run: &Run,
    ) -> Result<Outcome, Error> {
        let InstallOrder { input, limit, end } = order;
        let run = Run {
            cancelled: run.cancelled.clone(),
            deadline: Deadline::after(end.saturating_duration_since(Instant::now())),
            ..Run::alone(&run.call_id)
        };
        let start_timeout = self.settings.start_timeout.duration();
        let identity = PodIdentity::for_installer(self.keeper.manager());
        let lifetime = limit + start_timeout;
        let described = describe_pod(&self.settings, &identity, lifetime);
        let pod = installer_pod::describe_installer(described, &self.settings);
        let by = run.wait_deadline(start_timeout);
        let signals = PodSignals::cancelled_by(&run.cancelled);

        let PodCreation::Created(mut installer) =
            self.keeper.create_pod(&identity, pod, &signals, by).await?
        else {
            return Err(Error::Failed("a packages pod has the name of another".to_owned()));
        };

        let script = Script {
            source: PROGRAM.to_owned(),
            input,
            timeout: limit,
            packages: Vec::new(),
            files: Vec::new(),
            prelude: None,
        };
        let limits = ScriptLimits {
            open_files: OPEN_FILES_MAX,
            file_bytes: self.settings.packages.set_bytes.bytes(),
            // What a wheel unpacks to, which is trusted with the memory of the pod.
            inodes: u32::MAX,
            ..self.limits(&script)
        };
        let PodSignals { detached, .. } = &signals;
        let call = ScriptCall { script: &script, run: &run, limits, package_set: None, detached };
        let outcome = self.run_to_end(&mut installer, &call).await;

        // Whatever became of the installation, the script that needs the packages has not started.
        outcome.map_err(|error| match error {
            Error::OutcomeUnknown(why) => {
                Error::Packages(format!("the packages could not be installed: {why}"))
            }
            error => error,
        })
    }
}

/// The key of a set: a digest of its requirements, and of all that decides what is installed for
/// them.
fn set_key(settings: &KubernetesSettings, index: &str, requirements: &Requirements) -> String {
    let mut digest = Sha256::new();
    let image = installer_pod::installer_image(settings);
    let architecture = settings.placement.architecture().unwrap_or_default();
    for part in [settings.image.as_str(), image, index, architecture] {
        digest.update(part);
        digest.update("\n");
    }
    for requirement in requirements.iter() {
        digest.update(requirement);
        digest.update("\n");
    }
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What an agent is called on the volume, whatever it calls itself.
fn agent_digest(agent: &str) -> String {
    let digest = Sha256::digest(agent.as_bytes());
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// The input of `install.py`.
fn install_order(
    settings: &PackagesSettings,
    index: &str,
    key: &str,
    agent: &str,
    requirements: &Requirements,
) -> String {
    let url = Url::parse(index).ok();
    // Without encryption pip trusts only hosts that it is told to; the operator wrote this address.
    let plain = url.as_ref().filter(|url| url.scheme() == "http");
    let is_name = |char: char| char.is_ascii_alphanumeric() || char == '-';
    let cache_bytes = settings.cache_bytes.bytes();
    let names = requirements.iter().map(|text| text.split(|char| !is_name(char)).next());

    json!({
        "key": key,
        "agent": agent,
        "index": index,
        "pip": packages::RUN_PIP,
        "trusted_host": plain.and_then(Url::host_str),
        "requirements": requirements.iter().collect::<Vec<_>>(),
        "names": names.collect::<Vec<_>>(),
        "set_bytes": settings.set_bytes.bytes(),
        "cache_bytes": cache_bytes,
        "agent_bytes": settings.agent_bytes.map_or(cache_bytes.div_ceil(2), |bytes| bytes.bytes()),
        "kept_seconds": SET_UNUSED_TTL.as_secs(),
    })
    .to_string()
}

#[cfg(test)]
mod tests;
