//! What both runners share: admission, packages, one supervised run after the other.
//!
//! Invariants: never more scripts at a time than configured, and a bounded number waiting; a run
//! that nobody waits for any more is killed and cleaned up all the same, by its own tracked task.

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

use crate::cgroup::{Group, Hierarchy};
use crate::config::Config;
use crate::interpreter::Interpreter;
use crate::launch::{Launch, Launched, Launcher};
use crate::limits;
use crate::memory::{Guard, Sampler};
use crate::nonce;
use crate::packages::{Lease, Packages};
use crate::recipe::{self, Options, PACKAGES, WORK};
use crate::script;
use crate::supervise::{Order, supervise};

/// What scripts are run by.
pub(crate) struct Parts {
    pub(crate) config: Config,
    pub(crate) launcher: Arc<Launcher>,
    pub(crate) interpreter: Arc<Interpreter>,
    /// What bubblewrap is told for every script; empty for bare runs.
    pub(crate) base: Options,
    /// Refused system calls, as a sealed file; none for bare runs.
    pub(crate) filter: Option<OwnedFd>,
    /// `None` refuses all packages.
    pub(crate) packages: Option<Packages>,
    /// Where control groups are made; `None` has memory sampled.
    pub(crate) hierarchy: Option<Arc<Hierarchy>>,
}

/// Runs scripts.
pub(crate) struct Engine {
    parts: Parts,
    /// Scripts that run or wait.
    admitted: Arc<Semaphore>,
    /// Scripts that run.
    running: Semaphore,
    tasks: TaskTracker,
}

impl Engine {
    pub(crate) fn new(parts: Parts) -> Self {
        let concurrent = parts.config.max_concurrent.clamp(1, Semaphore::MAX_PERMITS / 2);
        let waiting = parts.config.max_waiting.min(Semaphore::MAX_PERMITS / 2);
        Self {
            parts,
            admitted: Arc::new(Semaphore::new(concurrent + waiting)),
            running: Semaphore::new(concurrent),
            tasks: TaskTracker::new(),
        }
    }

    /// Whether the kernel keeps the account of memory.
    pub(crate) fn has_groups(&self) -> bool {
        self.parts.hierarchy.is_some()
    }

    /// Waits until nothing runs. New runs may start meanwhile.
    pub(crate) async fn idle(&self) {
        self.tasks.close();
        self.tasks.wait().await;
        self.tasks.reopen();
    }

    pub(crate) async fn run(self: Arc<Self>, script: Script, run: Run) -> Result<Outcome, Error> {
        let requirements = check(&script)?;
        let place = Arc::clone(&self.admitted).try_acquire_owned().map_err(|_| {
            let limit = self.parts.config.max_concurrent + self.parts.config.max_waiting;
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
        let lease = match &self.parts.packages {
            _ if requirements.is_empty() => None,
            None => return Err(Error::Packages("installing packages is switched off".to_owned())),
            Some(packages) => {
                Some(packages.install(requirements, run.turn_by(), &run.cancelled).await?)
            }
        };
        let permit = tokio::select! {
            () = run.cancelled.cancelled() => return Err(Error::Cancelled),
            permit = run.turn(self.running.acquire()) => permit?,
        };
        let _permit = permit.map_err(|error| Error::Failed(error.to_string()))?;
        let outcome = self.start(&script, lease.as_ref(), run).await;
        drop(lease);
        outcome
    }

    async fn start(
        &self,
        script: &Script,
        lease: Option<&Lease>,
        run: Run,
    ) -> Result<Outcome, Error> {
        let failed = |error: io::Error| Error::Failed(error.to_string());
        let scratch = if self.parts.launcher.is_bare() {
            Scratch::new().map_err(failed)?
        } else {
            Scratch(None)
        };
        let group = self.parts.hierarchy.as_ref().map(Hierarchy::create).transpose();
        let group = group.map_err(failed)?;
        let mut launched =
            self.launch(script, lease, scratch.path(), group.as_ref()).await.map_err(failed)?;
        let first = launched.processes.first();
        let guard = self.guard(group, first).await.map_err(failed)?;
        launched.open();
        let left = run.begin_by().saturating_duration_since(Instant::now());
        let order = Order {
            request: script::request(
                &self.parts.interpreter,
                self.packages_path(lease),
                &script.source,
                &script.input,
                Some(&script.files),
            ),
            workplace: Some(self.workplace(first, scratch.path())),
            timeout: script.timeout,
            start_timeout: self.parts.config.start_timeout.min(left),
            cancelled: run.cancelled,
            live: run.live,
            guard,
        };
        supervise(launched, order).await
    }

    async fn launch(
        &self,
        script: &Script,
        lease: Option<&Lease>,
        scratch: &Path,
        group: Option<&Group>,
    ) -> io::Result<Launched> {
        let packages = self.packages_path(lease);
        let mut environment = recipe::environment(&self.parts.interpreter, packages);
        let mut options = Options::default();
        let mut processes_max = 0;
        if self.parts.launcher.is_bare() {
            for (name, value) in &mut environment {
                if matches!(*name, "HOME" | "TMPDIR") {
                    *value = OsString::from(scratch);
                }
            }
        } else {
            options = recipe::script(&self.parts.base, lease.map(Lease::source));
            processes_max = self.parts.config.limits.processes;
        }
        let launch = Launch {
            options,
            filter: self.parts.filter.as_ref(),
            environment,
            command: script::command(&self.parts.interpreter)?,
            processes_max,
            limits: limits::of_script(&self.parts.config.limits, script.timeout),
            directory: scratch,
            group,
        };
        self.parts.launcher.launch(launch).await
    }

    /// The folder that the script starts in, as it is reached from here.
    fn workplace(&self, first: libc::pid_t, scratch: &Path) -> PathBuf {
        if self.parts.launcher.is_bare() {
            return scratch.to_path_buf();
        }
        PathBuf::from(format!("/proc/{first}/root{WORK}"))
    }

    /// Where the script finds its packages.
    fn packages_path<'a>(&self, lease: Option<&'a Lease>) -> Option<&'a Path> {
        lease.map(
            |lease| if self.parts.launcher.is_bare() { lease.tree() } else { Path::new(PACKAGES) },
        )
    }

    /// Puts the first process under its limit of memory.
    async fn guard(&self, group: Option<Group>, first: libc::pid_t) -> io::Result<Guard> {
        let Some(group) = group else {
            let subject = self.parts.launcher.subject(first);
            return Ok(Guard::Sampled(Sampler::new(
                subject,
                self.parts.config.limits.memory_bytes,
            )));
        };
        let attach = move || group.attach(first).map(|()| Guard::Group(group));
        tokio::task::spawn_blocking(attach).await.map_err(io::Error::other)?
    }
}

/// Checks what can be checked before anything is started.
fn check(script: &Script) -> Result<Requirements, Error> {
    script.check()?;
    Requirements::parse(&script.packages).map_err(|error| Error::Invalid(error.to_string()))
}

/// A folder for one bare run, removed with it; a sandbox has its own inside.
struct Scratch(Option<PathBuf>);

impl Scratch {
    fn new() -> io::Result<Self> {
        let path = env::temp_dir().join(nonce::name("toolbus-bare"));
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(Some(path)))
    }

    fn path(&self) -> &Path {
        self.0.as_deref().unwrap_or(Path::new("/"))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = fs::remove_dir_all(path);
        }
    }
}
