//! What both runners share: admission, packages, one supervised run after the other.
//!
//! Invariants: never more scripts at a time than configured, and a bounded number waiting; a run
//! whose future was dropped is killed and cleaned up all the same, by its own tracked task.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
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
use crate::nonce;
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
    /// Options of bubblewrap for every script; empty for bare runs.
    pub(crate) base: BwrapOptions,
    /// The seccomp filter, as a sealed file; none for bare runs.
    pub(crate) filter: Option<OwnedFd>,
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
        let scratch = if self.deps.launcher.is_bare() {
            ScratchFolder::new().map_err(failed)?
        } else {
            ScratchFolder(None)
        };

        let group = self.deps.hierarchy.as_ref().map(CgroupHierarchy::create_group).transpose();
        let group = group.map_err(failed)?;
        let mut launched = self
            .launch_script(script, lease, scratch.path(), group.as_ref())
            .await
            .map_err(failed)?;
        let first = launched.processes.first_pid();
        let guard = self.memory_guard(group, first).await.map_err(failed)?;

        launched.open_gate();

        let left = run.start_deadline().saturating_duration_since(Instant::now());

        let order = RunOrder {
            request: script::bootstrap_request(
                &self.deps.interpreter,
                self.packages_path(lease),
                &script.source,
                &script.input,
                Some(&script.files),
            ),
            work_folder: Some(self.work_folder_path(first, scratch.path())),
            timeout: script.timeout,
            start_timeout: self.deps.config.start_timeout.min(left),
            cancelled: run.cancelled,
            live: run.live,
            guard,
            objects: KernelObjectWatch::new(
                self.deps.launcher.subject(first),
                &self.deps.config.limits,
            ),
        };

        supervise(launched, order).await
    }

    async fn launch_script(
        &self,
        script: &Script,
        lease: Option<&PackageLease>,
        scratch: &Path,
        group: Option<&ControlGroup>,
    ) -> io::Result<LaunchedProgram> {
        let packages = self.packages_path(lease);
        let mut environment = recipe::script_environment(&self.deps.interpreter, packages);
        let mut options = BwrapOptions::default();
        let mut processes_max = 0;

        if self.deps.launcher.is_bare() {
            for (name, value) in &mut environment {
                if matches!(*name, "HOME" | "TMPDIR") {
                    *value = OsString::from(scratch);
                }
            }
        } else {
            options = recipe::script_options(&self.deps.base, lease.map(PackageLease::source));
            processes_max = self.deps.config.limits.processes;
        }

        let launch = LaunchSpec {
            options,
            filter: self.deps.filter.as_ref(),
            environment,
            command: script::interpreter_command(&self.deps.interpreter)?,
            processes_max,
            limits: rlimits::rlimits_of_script(&self.deps.config.limits, script.timeout),
            directory: scratch,
            group,
        };

        self.deps.launcher.launch(launch).await
    }

    /// Path of the script's work folder as the service reaches it.
    fn work_folder_path(&self, first: libc::pid_t, scratch: &Path) -> PathBuf {
        if self.deps.launcher.is_bare() {
            return scratch.to_path_buf();
        }
        PathBuf::from(format!("/proc/{first}/root{WORK}"))
    }

    /// Path of the packages as the script sees it.
    fn packages_path<'a>(&self, lease: Option<&'a PackageLease>) -> Option<&'a Path> {
        lease.map(|lease| {
            if self.deps.launcher.is_bare() { lease.directory_tree() } else { Path::new(PACKAGES) }
        })
    }

    /// Puts the first process, and all that it will start, under the memory limit.
    async fn memory_guard(
        &self,
        group: Option<ControlGroup>,
        first: libc::pid_t,
    ) -> io::Result<MemoryGuard> {
        let Some(group) = group else {
            let subject = self.deps.launcher.subject(first);
            return Ok(MemoryGuard::Sampled(MemorySampler::new(
                subject,
                self.deps.config.limits.memory_bytes,
            )));
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

/// A folder for one bare run, removed with it; a sandbox has its own inside.
struct ScratchFolder(Option<PathBuf>);

impl ScratchFolder {
    fn new() -> io::Result<Self> {
        let path = env::temp_dir().join(nonce::unique_name("toolbus-bare"));
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(Some(path)))
    }

    fn path(&self) -> &Path {
        self.0.as_deref().unwrap_or(Path::new("/"))
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = fs::remove_dir_all(path);
        }
    }
}
