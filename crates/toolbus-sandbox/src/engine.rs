//! The runner's work: admission, packages, one sandbox after the other.
//!
//! Invariants: never more scripts at a time than configured, and a bounded number waiting; a run
//! whose future was dropped is killed and cleaned up all the same, by its own tracked task; what a
//! run holds is given back when its sandbox has ended, which may be a moment after its outcome.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use toolbus_scripts::packages::Requirements;
use toolbus_scripts::runner::{Error, Outcome, Run, Script};
use toolbus_scripts::supervisor::protocol::ScriptLimits;

use crate::bubblewrap::{LaunchSpec, Launcher, RunningSandbox};
use crate::cgroup::{CgroupHierarchy, ControlGroup};
use crate::config::Config;
use crate::packages::{PackageInstaller, PackageLease};
use crate::recipe::{self, BwrapOptions};
use crate::run::{self, ScriptRun};

/// What the engine is built from.
pub(crate) struct EngineDeps {
    pub(crate) config: Config,
    pub(crate) launcher: Arc<Launcher>,
    /// Options of bubblewrap for every script.
    pub(crate) base: BwrapOptions,
    /// The supervisor of scripts, as the interpreter takes it.
    pub(crate) program: Vec<u8>,
    /// `None` refuses all packages.
    pub(crate) packages: Option<PackageInstaller>,
    /// Where control groups are created; `None` samples memory instead.
    pub(crate) hierarchy: Option<Arc<CgroupHierarchy>>,
}

/// Runs scripts: admits them, installs their packages and has each run in its sandbox.
pub(crate) struct ScriptEngine {
    deps: EngineDeps,
    /// Permits for scripts that run or wait.
    admitted: Arc<Semaphore>,
    /// Permits for scripts that run.
    running: Arc<Semaphore>,
    tasks: TaskTracker,
}

/// What a run holds.
#[derive(Default)]
struct RunResources {
    sandbox: Option<RunningSandbox>,
    group: Option<ControlGroup>,
    lease: Option<PackageLease>,
    permit: Option<OwnedSemaphorePermit>,
}

impl ScriptEngine {
    pub(crate) fn new(deps: EngineDeps) -> Self {
        let concurrent = deps.config.max_concurrent.clamp(1, Semaphore::MAX_PERMITS / 2);
        let waiting = deps.config.max_waiting.min(Semaphore::MAX_PERMITS / 2);
        Self {
            deps,
            admitted: Arc::new(Semaphore::new(concurrent + waiting)),
            running: Arc::new(Semaphore::new(concurrent)),
            tasks: TaskTracker::new(),
        }
    }

    /// Whether the kernel accounts for memory, in control groups.
    pub(crate) fn has_control_groups(&self) -> bool {
        self.deps.hierarchy.is_some()
    }

    /// Waits until no script is running. New runs may start meanwhile.
    pub(crate) async fn idle(&self) {
        self.tasks.close();
        self.tasks.wait().await;
        self.tasks.reopen();
    }

    pub(crate) async fn run(self: Arc<Self>, script: Script, run: Run) -> Result<Outcome, Error> {
        let requirements = check_script(&script)?;
        let place = Arc::clone(&self.admitted).try_acquire_owned().map_err(|_| {
            let limit = self.deps.config.max_concurrent + self.deps.config.max_waiting;
            Error::Busy(format!("{limit} scripts run or wait already"))
        })?;

        // Fires as well when the caller drops this future: the task below sees to the end.
        let cancelled = run.cancelled.child_token();
        let guard = cancelled.clone().drop_guard();
        let run = Run { cancelled, ..run };
        let engine = Arc::clone(&self);
        let (reply, outcome) = oneshot::channel();

        self.tasks.spawn(async move {
            let mut held = RunResources::default();
            let outcome = engine.run_admitted(script, &requirements, run, &mut held).await;
            drop(place);
            // Whether anybody waits for it or not.
            let _ = reply.send(outcome);
            held.release().await;
        });

        let lost = |_| Error::OutcomeUnknown("the task of the script panicked".to_owned());
        let outcome = outcome.await.map_err(lost)?;

        drop(guard);
        outcome
    }

    async fn run_admitted(
        &self,
        script: Script,
        requirements: &Requirements,
        run: Run,
        held: &mut RunResources,
    ) -> Result<Outcome, Error> {
        held.lease = match &self.deps.packages {
            _ if requirements.is_empty() => None,
            None => return Err(Error::Packages("installing packages is switched off".to_owned())),
            Some(packages) => {
                Some(packages.install(requirements, run.queue_deadline(), &run.cancelled).await?)
            }
        };

        let permit = tokio::select! {
            () = run.cancelled.cancelled() => return Err(Error::Cancelled),
            permit = run.with_queue_deadline(Arc::clone(&self.running).acquire_owned()) => permit?,
        };
        held.permit = Some(permit.map_err(|error| Error::Failed(error.to_string()))?);

        self.run_sandboxed(&script, run, held).await
    }

    async fn run_sandboxed(
        &self,
        script: &Script,
        run: Run,
        held: &mut RunResources,
    ) -> Result<Outcome, Error> {
        let EngineDeps { config, launcher, base, program, hierarchy, .. } = &self.deps;
        let group = hierarchy.as_ref().map(CgroupHierarchy::create_group).transpose();
        held.group = group.map_err(|error| Error::Failed(error.to_string()))?;
        let group = held.group.as_ref();

        let memory_bytes = if group.is_some() { 0 } else { config.limits.memory_bytes };
        let limits = run::script_limits(&config.limits, script.timeout, memory_bytes);
        let packages = held.lease.as_ref().map(PackageLease::source);
        let order = ScriptRun {
            spec: LaunchSpec {
                options: recipe::script_options(base, packages, group),
                program,
                group,
                by: run.start_deadline().min(Instant::now() + config.start_timeout),
                cancelled: &run.cancelled,
            },
            limits: ScriptLimits { packages: u32::from(packages.is_some()), ..limits },
            script,
            live: run.live,
        };

        run::run_script(launcher, order, &mut held.sandbox).await
    }
}

impl RunResources {
    /// Ends what is left of the sandbox, and gives everything back.
    async fn release(mut self) {
        if let Some(sandbox) = &mut self.sandbox
            && let Err(error) = sandbox.end().await
        {
            tracing::warn!(%error, "could not end a sandbox");
        }
    }
}

/// Checks what can be checked before anything is started.
fn check_script(script: &Script) -> Result<Requirements, Error> {
    script.check()?;
    Requirements::parse(&script.packages).map_err(|error| Error::Invalid(error.to_string()))
}
