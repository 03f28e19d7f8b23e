//! The runner's work: admission, packages, one supervised run after the other.
//!
//! Invariants: never more scripts at a time than configured, and a bounded number waiting; a run
//! whose future was dropped is killed and cleaned up all the same, by its own tracked task.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use toolbus_scripts::packages::Requirements;
use toolbus_scripts::runner::{Error, Outcome, Run, Script};

use crate::cgroup::{CgroupHierarchy, ControlGroup};
use crate::config::Config;
use crate::interpreter::Interpreter;
use crate::kernel_objects::KernelObjectWatch;
use crate::launch::{LaunchSpec, LaunchedProgram, Launcher};
use crate::memory_limit::{MemoryGuard, MemorySampler};
use crate::packages::{PackageInstaller, PackageLease};
use crate::recipe::{self, BwrapOptions, PACKAGES, WORK};
use crate::rlimits;
use crate::script;
use crate::supervise::{RunOrder, supervise};

/// What the engine is built from: configuration, launcher, interpreter and limits.
pub(crate) struct EngineDeps {
    pub(crate) config: Config,
    pub(crate) launcher: Arc<Launcher>,
    pub(crate) interpreter: Arc<Interpreter>,
    /// Options of bubblewrap for every script.
    pub(crate) base: BwrapOptions,
    /// The seccomp filter, as a sealed file.
    pub(crate) filter: OwnedFd,
    /// `None` refuses all packages.
    pub(crate) packages: Option<PackageInstaller>,
    /// Where control groups are created; `None` samples memory instead.
    pub(crate) hierarchy: Option<Arc<CgroupHierarchy>>,
}

/// Runs scripts: admits them, installs their packages and supervises one process tree each.
pub(crate) struct ScriptEngine {
    deps: EngineDeps,
    /// Permits for scripts that run or wait.
    admitted: Arc<Semaphore>,
    /// Permits for scripts that run.
    running: Semaphore,
    tasks: TaskTracker,
}

impl ScriptEngine {
    pub(crate) fn new(deps: EngineDeps) -> Self {
        let concurrent = deps.config.max_concurrent.clamp(1, Semaphore::MAX_PERMITS / 2);
        let waiting = deps.config.max_waiting.min(Semaphore::MAX_PERMITS / 2);
        Self {
            deps,
            admitted: Arc::new(Semaphore::new(concurrent + waiting)),
            running: Semaphore::new(concurrent),
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
        let task = self.tasks.spawn(async move {
            let outcome = engine.run_admitted(script, &requirements, run).await;
            drop(place);
            outcome
        });

        let outcome = task.await.map_err(|error| Error::OutcomeUnknown(error.to_string()))?;

        drop(guard);
        outcome
    }

    async fn run_admitted(
        &self,
        script: Script,
        requirements: &Requirements,
        run: Run,
    ) -> Result<Outcome, Error> {
        let lease = match &self.deps.packages {
            _ if requirements.is_empty() => None,
            None => return Err(Error::Packages("installing packages is switched off".to_owned())),
            Some(packages) => {
                Some(packages.install(requirements, run.queue_deadline(), &run.cancelled).await?)
            }
        };

        let permit = tokio::select! {
            () = run.cancelled.cancelled() => return Err(Error::Cancelled),
            permit = run.with_queue_deadline(self.running.acquire()) => permit?,
        };
        let _permit = permit.map_err(|error| Error::Failed(error.to_string()))?;
        let outcome = self.run_supervised(&script, lease.as_ref(), run).await;

        drop(lease);
        outcome
    }

    async fn run_supervised(
        &self,
        script: &Script,
        lease: Option<&PackageLease>,
        run: Run,
    ) -> Result<Outcome, Error> {
        let failed = |error: io::Error| Error::Failed(error.to_string());
        let group = self.deps.hierarchy.as_ref().map(CgroupHierarchy::create_group).transpose();
        let group = group.map_err(failed)?;
        let launched = self.launch_script(script, lease, group.as_ref()).await;
        let mut launched = launched.map_err(failed)?;
        let first = launched.processes.first_pid();
        let guard = self.memory_guard(group, first).await.map_err(failed)?;

        launched.open_gate();

        let left = run.start_deadline().saturating_duration_since(Instant::now());

        let order = RunOrder {
            request: script::bootstrap_request(
                &self.deps.interpreter,
                lease.map(|_| Path::new(PACKAGES)),
                &script.source,
                &script.input,
                Some(&script.files),
            ),
            // As this service reaches it.
            work_folder: Some(PathBuf::from(format!("/proc/{first}/root{WORK}"))),
            timeout: script.timeout,
            start_timeout: self.deps.config.start_timeout.min(left),
            cancelled: run.cancelled,
            live: run.live,
            guard,
            objects: KernelObjectWatch::new(first, &self.deps.config.limits),
        };

        supervise(launched, order).await
    }

    async fn launch_script(
        &self,
        script: &Script,
        lease: Option<&PackageLease>,
        group: Option<&ControlGroup>,
    ) -> io::Result<LaunchedProgram> {
        let packages = lease.map(|_| Path::new(PACKAGES));
        let launch = LaunchSpec {
            options: recipe::script_options(&self.deps.base, lease.map(PackageLease::source)),
            filter: &self.deps.filter,
            environment: recipe::script_environment(&self.deps.interpreter, packages),
            command: script::interpreter_command(&self.deps.interpreter)?,
            processes_max: self.deps.config.limits.processes,
            limits: rlimits::rlimits_of_script(&self.deps.config.limits, script.timeout),
            group,
        };

        self.deps.launcher.launch(launch).await
    }

    /// Puts the first process, and all that it will start, under the memory limit.
    async fn memory_guard(
        &self,
        group: Option<ControlGroup>,
        first: libc::pid_t,
    ) -> io::Result<MemoryGuard> {
        let Some(group) = group else {
            let limit = self.deps.config.limits.memory_bytes;
            return Ok(MemoryGuard::Sampled(MemorySampler::new(first, limit)));
        };
        let attach = move || group.attach_process(first).map(|()| MemoryGuard::Group(group));
        tokio::task::spawn_blocking(attach).await.map_err(io::Error::other)?
    }
}

/// Checks what can be checked before anything is started.
fn check_script(script: &Script) -> Result<Requirements, Error> {
    script.check()?;
    Requirements::parse(&script.packages).map_err(|error| Error::Invalid(error.to_string()))
}
