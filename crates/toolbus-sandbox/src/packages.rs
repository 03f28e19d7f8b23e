//! Packages for scripts: resolved and installed apart from the run, and kept.
//!
//! A script has no network, so what it needs is installed before, by an installer in a sandbox of
//! its own: with the network, without anything secret but the operator's index settings, wheels
//! only, so that no code of a package runs. The result is a tree that is mounted read-only.
//!
//! Invariants: no process is started for a requirement that does not parse; one set is installed
//! once, however many calls ask for it meanwhile; a failed installation leaves nothing behind.

mod cache;
mod installation;
mod installer;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use tokio::time::{self, Instant};
use tokio_util::sync::CancellationToken;
use toolbus_scripts::packages::{self, Requirements};
use toolbus_scripts::runner::Error;

use self::cache::CachedSet;
pub(crate) use self::cache::PackageCache;
pub(crate) use self::installer::InstallerSettings;
use crate::bubblewrap::Launcher;
use crate::config::Config;
use crate::interpreter::Interpreter;
use crate::recipe::BwrapOptions;

/// How often locking a set that another process has locked is retried.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Installs packages and keeps them.
pub(crate) struct PackageInstaller {
    cache: Arc<PackageCache>,
    config: Config,
    launcher: Arc<Launcher>,
    interpreter: Arc<Interpreter>,
    settings: InstallerSettings,
    /// What bubblewrap is told for every installation.
    base: BwrapOptions,
    /// The supervisor of installers, as the interpreter takes it.
    program: Vec<u8>,
    /// Path of the cache as bubblewrap sees it.
    source: PathBuf,
    installing: Semaphore,
}

/// The environment that installers run in: launcher, interpreter, settings and mounts.
pub(crate) struct InstallerEnv {
    pub(crate) launcher: Arc<Launcher>,
    pub(crate) interpreter: Arc<Interpreter>,
    pub(crate) settings: InstallerSettings,
    pub(crate) base: BwrapOptions,
    pub(crate) program: Vec<u8>,
    pub(crate) source: PathBuf,
}

/// Start and deadline of one installation, waiting for locks and permits included.
#[derive(Debug, Clone, Copy)]
struct InstallDeadline {
    start: Instant,
    end: Instant,
}

impl InstallDeadline {
    /// A deadline `longest` from now, but no later than `by`.
    fn new(longest: Duration, by: Instant) -> Self {
        let start = Instant::now();
        Self { start, end: by.min(start + longest) }
    }

    fn duration(self) -> Duration {
        self.end.saturating_duration_since(self.start)
    }

    fn timeout_error(self) -> Error {
        packages::timeout_error(self.duration())
    }
}

/// A lease on an installed set, which is not evicted while this is held.
#[derive(Debug)]
pub(crate) struct PackageLease {
    _held: CachedSet,
    source: PathBuf,
}

impl PackageLease {
    /// Its folder as bubblewrap finds it.
    pub(crate) fn source(&self) -> &Path {
        &self.source
    }
}

impl PackageInstaller {
    pub(crate) fn new(cache: PackageCache, config: &Config, with: InstallerEnv) -> Self {
        Self {
            cache: Arc::new(cache),
            config: config.clone(),
            launcher: with.launcher,
            interpreter: with.interpreter,
            settings: with.settings,
            base: with.base,
            program: with.program,
            source: with.source,
            installing: Semaphore::new(config.packages.max_concurrent.max(1)),
        }
    }

    /// Returns a lease on the set, installing it unless it is installed or being installed already.
    /// Gives up at `by`.
    pub(crate) async fn install(
        &self,
        requirements: &Requirements,
        by: Instant,
        cancelled: &CancellationToken,
    ) -> Result<PackageLease, Error> {
        let failed = |error: io::Error| Error::Failed(format!("packages: {error}"));
        let key = self.set_key(requirements);
        let limit = InstallDeadline::new(self.config.packages.install_timeout, by);

        loop {
            if let Some(held) = self.cache.try_hold(&key).map_err(failed)? {
                return Ok(PackageLease { source: self.source.join(&key), _held: held });
            }

            // The lock is polled: nothing notifies us when another process releases it, and waiting
            // for it inside the kernel cannot be cancelled.
            if let Some(claim) = self.cache.try_claim(&key).map_err(failed)? {
                if !self.cache.directory().join(&key).is_dir() {
                    self.install_set(&key, requirements, limit, cancelled).await?;
                }
                drop(claim);
                continue;
            }

            tokio::select! {
                () = cancelled.cancelled() => return Err(Error::Cancelled),
                () = time::sleep_until(limit.end) => return Err(limit.timeout_error()),
                () = time::sleep(LOCK_RETRY_INTERVAL) => {}
            }
        }
    }

    /// The cache key of a set: a digest of the interpreter and the requirements.
    fn set_key(&self, requirements: &Requirements) -> String {
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

    async fn install_set(
        &self,
        key: &str,
        requirements: &Requirements,
        limit: InstallDeadline,
        cancelled: &CancellationToken,
    ) -> Result<(), Error> {
        let failed = |error: io::Error| Error::Failed(format!("packages: {error}"));
        let permit = tokio::select! {
            () = cancelled.cancelled() => return Err(Error::Cancelled),
            () = time::sleep_until(limit.end) => return Err(limit.timeout_error()),
            permit = self.installing.acquire() => permit,
        };

        let _permit = permit.map_err(|error| Error::Failed(error.to_string()))?;
        self.make_room().await?;
        let staging = self.create_install_folder().map_err(failed)?;

        self.run_installer(&staging.path, requirements, limit, cancelled).await?;

        let cache = Arc::clone(&self.cache);
        let key = key.to_owned();
        let is_foreign = self.launcher.become_id.is_some();

        // Walks over thousands of files.
        let published = tokio::task::spawn_blocking(move || {
            let tree = staging.path.join(installer::TREE);

            if is_foreign {
                // Whoever else has the unprivileged id shall not change what scripts will run.
                cache::change_owner(&tree, 0)?;
            }

            cache.publish(&key, &tree)?;
            drop(staging);

            if let Err(error) = cache.evict_unused() {
                // The set is installed; only evicting others failed.
                tracing::warn!(%error, "could not evict unused packages");
            }

            Ok(())
        });

        published.await.map_err(|error| Error::Failed(error.to_string()))?.map_err(failed)
    }

    /// Refuses an installation for which the cache has no room: sets in use are never evicted, so
    /// without this the limit would hold only when nothing is used.
    async fn make_room(&self) -> Result<(), Error> {
        let cache = Arc::clone(&self.cache);
        let made = tokio::task::spawn_blocking(move || cache.make_room()).await;
        let has_room = made
            .map_err(|error| Error::Failed(error.to_string()))?
            .map_err(|error| Error::Failed(format!("packages: {error}")))?;

        if !has_room {
            let limit = self.config.packages.cache_bytes;
            return Err(Error::Packages(format!(
                "packages that scripts use at this moment take up all of the {limit} bytes for them"
            )));
        }
        Ok(())
    }

    /// A folder to install into, which the installer's user may write.
    fn create_install_folder(&self) -> io::Result<cache::StagingFolder> {
        let staging = self.cache.create_staging()?;
        for name in [installer::TREE, installer::SCRATCH] {
            fs::create_dir(staging.path.join(name))?;
        }
        if let Some(id) = self.launcher.become_id {
            cache::change_owner(&staging.path, id)?;
        }
        Ok(staging)
    }
}
