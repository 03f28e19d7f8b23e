//! The runner's work: admission, packages, one sandbox after the other.
//!
//! Invariants: never more scripts at a time than configured, and a bounded number waiting; a run
//! whose future was dropped is killed and cleaned up all the same, by its own tracked task; what a
//! run holds is given back when its sandbox has ended, which may be a moment after its outcome; a
//! sandbox runs one script.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::runtime::{self, Handle};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolbus_scripts::packages::Requirements;
use toolbus_scripts::runner::{Error, Outcome, Run, Script};
use toolbus_scripts::supervisor::protocol::{
    ScriptLimits, go_message, prepare_message, start_message,
};

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
    /// Started ahead for the next script that needs no packages.
    ready: Mutex<Option<ReadySandbox>>,
    tasks: TaskTracker,
}

/// A sandbox whose supervisor waits for a script, ended when this is dropped.
struct ReadySandbox {
    sandbox: RunningSandbox,
    group: Option<ControlGroup>,
    /// Whose streams it has.
    runtime: runtime::Id,
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
            ready: Mutex::new(None),
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
        self: &Arc<Self>,
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

        // In order: a script that was cancelled before does not start. Both arms only wait.
        let permit = tokio::select! {
            biased;
            () = run.cancelled.cancelled() => return Err(Error::Cancelled),
            permit = run.with_queue_deadline(Arc::clone(&self.running).acquire_owned()) => permit?,
        };
        held.permit = Some(permit.map_err(|error| Error::Failed(error.to_string()))?);

        self.run_sandboxed(&script, run, held).await
    }

    async fn run_sandboxed(
        self: &Arc<Self>,
        script: &Script,
        run: Run,
        held: &mut RunResources,
    ) -> Result<Outcome, Error> {
        let is_plain = held.lease.is_none();
        let ready = if is_plain { self.take_ready() } else { None };

        let (sandbox, request) = if let Some(ready) = ready {
            held.group = ready.group;
            (ready.sandbox, start_message(&self.script_limits(script, held), script))
        } else {
            held.group = self.create_group()?;
            let preparation = prepare_message(&self.script_limits(script, held), script);
            let by = run.start_deadline().min(Instant::now() + self.deps.config.start_timeout);
            (self.launch(held, by, &run.cancelled, &preparation).await?, go_message())
        };
        let sandbox = held.sandbox.insert(sandbox);

        if is_plain && self.deps.config.keep_ready {
            self.tasks.spawn(Arc::clone(self).prepare_ready());
        }
        let run = ScriptRun {
            request,
            timeout: script.timeout,
            live: run.live,
            channel: run.channel,
            cancelled: &run.cancelled,
            group: held.group.as_ref(),
        };
        run::run_script(run, sandbox).await
    }

    fn create_group(&self) -> Result<Option<ControlGroup>, Error> {
        let group = self.deps.hierarchy.as_ref().map(CgroupHierarchy::create_group).transpose();
        group.map_err(|error| Error::Failed(error.to_string()))
    }

    fn script_limits(&self, script: &Script, held: &RunResources) -> ScriptLimits {
        let limits = &self.deps.config.limits;
        let memory_bytes = if held.group.is_some() { 0 } else { limits.memory_bytes };
        let limits = run::script_limits(limits, script.timeout, memory_bytes);
        ScriptLimits { packages: u32::from(held.lease.is_some()), ..limits }
    }

    async fn launch(
        &self,
        held: &RunResources,
        by: Instant,
        cancelled: &CancellationToken,
        message: &[u8],
    ) -> Result<RunningSandbox, Error> {
        let EngineDeps { launcher, base, program, .. } = &self.deps;
        let packages = held.lease.as_ref().map(PackageLease::source);
        let group = held.group.as_ref();
        let options = recipe::script_options(base, packages, group);
        launcher.launch(LaunchSpec { options, program, group, by, cancelled }, message).await
    }

    /// The sandbox that waits for a script, unless it has ended by itself, or is another runtime's,
    /// which may be gone.
    fn take_ready(&self) -> Option<ReadySandbox> {
        let mut ready = self.ready.lock().take()?;
        let is_ours = ready.runtime == Handle::current().id();
        (is_ours && ready.sandbox.is_alive()).then_some(ready)
    }

    /// Starts the sandbox of the next script. Where that fails, the next script starts its own, and
    /// says why that failed.
    async fn prepare_ready(self: Arc<Self>) {
        let by = Instant::now() + self.deps.config.start_timeout;
        let started = async {
            let held = RunResources { group: self.create_group()?, ..RunResources::default() };
            let sandbox = self.launch(&held, by, &CancellationToken::new(), &[]).await?;
            let runtime = Handle::current().id();
            Ok::<_, Error>(ReadySandbox { sandbox, group: held.group, runtime })
        };

        match started.await {
            Ok(ready) => {
                let runtime = ready.runtime;
                let before = self.ready.lock().replace(ready);
                // Of two that were started at once, one is not needed. That of another runtime,
                // which may be gone, is not waited for.
                if let Some(ReadySandbox { sandbox, group, .. }) =
                    before.filter(|before| before.runtime == runtime)
                {
                    let held = RunResources { sandbox: Some(sandbox), group, ..Default::default() };
                    held.release().await;
                }
            }
            Err(error) => tracing::debug!(%error, "could not start a sandbox ahead of its script"),
        }
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
