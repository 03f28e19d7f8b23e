//! Packages for scripts: resolved and installed apart from the run, and kept.
//!
//! A script has no network, so what it needs is installed before, by an installer in a sandbox of
//! its own: with the network, without anything secret but the operator's index settings, wheels
//! only, so that no code of a package runs. The result is a tree that is mounted read-only.
//!
//! Invariants: no process is started for a requirement that does not parse; one set is installed
//! once, whoever asks for it meanwhile; an installation that fails leaves nothing.

mod cache;
mod installer;
mod requirement;
mod scanner;

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use tokio::time::{self, Instant};
use tokio_util::sync::CancellationToken;
use toolbus_scripts::runner::{Ending, Error, Outcome};

pub use self::requirement::Error as RequirementError;

pub(crate) use self::cache::Cache;
use self::cache::Held;
pub(crate) use self::installer::Surroundings;
pub(crate) use self::requirement::Requirements;
use crate::config::{Config, Limits};
use crate::interpreter::Interpreter;
use crate::launch::{Launch, Launcher};
use crate::limits;
use crate::memory::{Guard, Sampler};
use crate::recipe::{self, Options, Tree};
use crate::script;
use crate::supervise::{Order, supervise};

/// Installers hold the index in memory.
const INSTALLER_MEMORY_BYTES: u64 = 1 << 30;
/// How often a lock that others hold is tried, and the size of a growing tree looked at.
const LOCK_PERIOD: Duration = Duration::from_millis(50);
const SIZE_PERIOD: Duration = Duration::from_secs(1);
/// How much of what an installer said is told.
const SAID_BYTES_MAX: usize = 2 << 10;
/// Replaces the interpreter by the command in its input, one argument a line.
const EXECUTE: &str =
    "import os\nargv=os.environ.pop('ROCKBOT_INPUT').split('\\n')\nos.execv(argv[0],argv)";

/// Installs packages and keeps them.
pub(crate) struct Packages {
    cache: Arc<Cache>,
    config: Config,
    launcher: Arc<Launcher>,
    interpreter: Arc<Interpreter>,
    surroundings: Surroundings,
    /// What bubblewrap is told for every installation; empty for bare ones.
    base: Options,
    filter: Option<OwnedFd>,
    /// Where bubblewrap finds the cache.
    source: PathBuf,
    installing: Semaphore,
}

/// What an installer runs under.
pub(crate) struct Surrounded {
    pub(crate) launcher: Arc<Launcher>,
    pub(crate) interpreter: Arc<Interpreter>,
    pub(crate) surroundings: Surroundings,
    pub(crate) base: Options,
    pub(crate) filter: Option<OwnedFd>,
    pub(crate) source: PathBuf,
}

/// An installed set, which stays while this is held.
#[derive(Debug)]
pub(crate) struct Lease {
    held: Held,
    source: PathBuf,
}

impl Lease {
    /// Its folder.
    pub(crate) fn tree(&self) -> &Path {
        &self.held.tree
    }

    /// Its folder as bubblewrap finds it.
    pub(crate) fn source(&self) -> &Path {
        &self.source
    }
}

impl Packages {
    pub(crate) fn new(cache: Cache, config: &Config, with: Surrounded) -> Self {
        Self {
            cache: Arc::new(cache),
            config: config.clone(),
            launcher: with.launcher,
            interpreter: with.interpreter,
            surroundings: with.surroundings,
            base: with.base,
            filter: with.filter,
            source: with.source,
            installing: Semaphore::new(config.packages.max_concurrent.max(1)),
        }
    }

    /// Returns the set, installing it unless it is there already or on its way.
    pub(crate) async fn install(
        &self,
        requirements: &Requirements,
        cancelled: &CancellationToken,
    ) -> Result<Lease, Error> {
        let failed = |error: io::Error| Error::Failed(format!("packages: {error}"));
        let key = self.key(requirements);
        let deadline = Instant::now() + self.config.packages.install_timeout;
        loop {
            if let Some(held) = self.cache.hold(&key).map_err(failed)? {
                return Ok(Lease { source: self.source.join(&key), held });
            }
            // Locks are tried again and again, because nothing tells when another process gives one
            // up, and waiting for one inside the kernel cannot be cancelled.
            if let Some(claim) = self.cache.claim(&key).map_err(failed)? {
                if !self.cache.directory().join(&key).is_dir() {
                    self.install_now(&key, requirements, deadline, cancelled).await?;
                }
                drop(claim);
                continue;
            }
            tokio::select! {
                () = cancelled.cancelled() => return Err(Error::Cancelled),
                () = time::sleep_until(deadline) => return Err(self.timed_out()),
                () = time::sleep(LOCK_PERIOD) => {}
            }
        }
    }

    /// What stands for this set on disk.
    fn key(&self, requirements: &Requirements) -> String {
        let mut digest = Sha256::new();
        digest.update(&self.interpreter.version);
        digest.update("\n");
        digest.update(&self.interpreter.binary_interface);
        for requirement in requirements.iter() {
            digest.update("\n");
            digest.update(requirement);
        }
        digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    async fn install_now(
        &self,
        key: &str,
        requirements: &Requirements,
        deadline: Instant,
        cancelled: &CancellationToken,
    ) -> Result<(), Error> {
        let failed = |error: io::Error| Error::Failed(format!("packages: {error}"));
        let permit = tokio::select! {
            () = cancelled.cancelled() => return Err(Error::Cancelled),
            () = time::sleep_until(deadline) => return Err(self.timed_out()),
            permit = self.installing.acquire() => permit,
        };
        let _permit = permit.map_err(|error| Error::Failed(error.to_string()))?;
        let staging = self.stage().map_err(failed)?;
        let outcome = self.run_installer(&staging.path, requirements, deadline, cancelled).await?;
        self.judge(&outcome)?;
        let (cache, key) = (Arc::clone(&self.cache), key.to_owned());
        let is_foreign = self.launcher.become_id().is_some();
        // Walks over thousands of files.
        let published = tokio::task::spawn_blocking(move || {
            let tree = staging.path.join(installer::TREE);
            if is_foreign {
                // Whoever else has the unprivileged id shall not change what scripts will run.
                cache::own(&tree, 0)?;
            }
            cache.publish(&key, &tree)?;
            drop(staging);
            cache.evict()
        });
        published.await.map_err(|error| Error::Failed(error.to_string()))?.map_err(failed)
    }

    /// A folder to install into, which the installer's user may write.
    fn stage(&self) -> io::Result<cache::Staging> {
        let staging = self.cache.stage()?;
        for name in [installer::TREE, installer::SCRATCH] {
            fs::create_dir(staging.path.join(name))?;
        }
        if let Some(id) = self.launcher.become_id() {
            cache::own(&staging.path, id)?;
        }
        Ok(staging)
    }

    async fn run_installer(
        &self,
        staging: &Path,
        requirements: &Requirements,
        deadline: Instant,
        cancelled: &CancellationToken,
    ) -> Result<Outcome, Error> {
        let failed = |error: io::Error| Error::Failed(format!("packages: {error}"));
        let limits = Limits {
            memory_bytes: INSTALLER_MEMORY_BYTES,
            file_bytes: self.config.packages.set_bytes,
            ..self.config.limits.clone()
        };
        let timeout = deadline.saturating_duration_since(Instant::now());
        let mut launched = self.launch(staging, &limits, timeout).await.map_err(failed)?;
        launched.open();
        let subject = self.launcher.subject(launched.processes.first());
        let target = self.target(staging);
        let command = self.surroundings.command(&self.interpreter, target, requirements.iter());
        let too_large = cancelled.child_token();
        let order = Order {
            request: script::request(&self.interpreter, None, EXECUTE, &command.join("\n")),
            timeout,
            start_timeout: self.config.start_timeout,
            cancelled: too_large.clone(),
            live: None,
            guard: Guard::Sampled(Sampler::new(subject, limits.memory_bytes)),
        };
        let mut run = Box::pin(supervise(launched, order));
        let mut ticks = time::interval(SIZE_PERIOD);
        loop {
            tokio::select! {
                outcome = &mut run => return outcome,
                _ = ticks.tick() => {}
            }
            let folder = staging.to_path_buf();
            let looked = tokio::task::spawn_blocking(move || cache::size(&folder)).await;
            let bytes = looked.map_err(|error| Error::Failed(error.to_string()))?.map_err(failed)?;
            if bytes > self.config.packages.set_bytes && !too_large.is_cancelled() {
                too_large.cancel();
                // The outcome says only that it was cancelled.
                let _ = run.await;
                let limit = self.config.packages.set_bytes;
                return Err(Error::Packages(format!("the packages take more than {limit} bytes")));
            }
        }
    }

    async fn launch(
        &self,
        staging: &Path,
        limits: &Limits,
        timeout: Duration,
    ) -> io::Result<crate::launch::Launched> {
        let is_bare = self.launcher.is_bare();
        let mut environment = recipe::environment(&self.interpreter, None);
        environment.extend(self.surroundings.variables.iter().cloned());
        let target = self.target(staging);
        let scratch = target.join(installer::SCRATCH);
        environment.retain(|(name, _)| *name != "TMPDIR");
        environment.push(("TMPDIR", scratch.into()));
        let mut options = Options::default();
        if !is_bare {
            let name = staging.file_name().unwrap_or_default();
            let source = Tree { path: target.to_path_buf(), source: self.source.join(name) };
            options = recipe::installer(&self.base, limits, &source);
        }
        let launch = Launch {
            options,
            filter: self.filter.as_ref(),
            environment,
            command: script::command(&self.interpreter)?,
            processes_max: if is_bare { 0 } else { limits.processes },
            limits: limits::of_script(limits, timeout),
            directory: staging,
            group: None,
        };
        self.launcher.launch(launch).await
    }

    /// Where an installer finds the staging folder.
    fn target<'a>(&self, staging: &'a Path) -> &'a Path {
        if self.launcher.is_bare() { staging } else { Path::new(installer::TARGET) }
    }

    /// The texts that callers know from the C# runner.
    fn judge(&self, outcome: &Outcome) -> Result<(), Error> {
        let how = match &outcome.ending {
            Ending::Exited(0) => return Ok(()),
            Ending::Cancelled => return Err(Error::Cancelled),
            Ending::TimedOut => return Err(self.timed_out()),
            Ending::Exited(code) => format!("exit {code}"),
            Ending::Killed { signal } => format!("killed by signal {signal}"),
            Ending::OutOfMemory => "out of memory".to_owned(),
        };
        let said = last_bytes(outcome.output.text.trim());
        Err(Error::Packages(format!("pip install failed ({how}): {}", without_passwords(said))))
    }

    fn timed_out(&self) -> Error {
        let limit = self.config.packages.install_timeout.as_secs();
        Error::Packages(format!("pip install timed out after {limit}s"))
    }
}

/// The end of a text, where installers say what went wrong.
fn last_bytes(text: &str) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(SAID_BYTES_MAX))..]
}

/// Takes user names and passwords out of addresses.
fn without_passwords(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    let mut parts = text.split("://");
    safe.push_str(parts.next().unwrap_or_default());
    for part in parts {
        safe.push_str("://");
        let end = part.find(|char: char| char == '/' || char.is_whitespace()).unwrap_or(part.len());
        match part[..end].rfind('@') {
            Some(at) => {
                safe.push_str("***");
                safe.push_str(&part[at..]);
            }
            None => safe.push_str(part),
        }
    }
    safe
}

#[cfg(test)]
mod tests;
