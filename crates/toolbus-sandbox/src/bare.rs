//! The runner without a sandbox.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use toolbus_scripts::runner::{Error, Outcome, Run, Runner, Script};

use crate::config::Config;
use crate::engine::{EngineDeps, ScriptEngine};
use crate::interpreter::Interpreter;
use crate::launch::{Isolation, Launcher};
use crate::packages::{InstallerEnv, InstallerSettings, PackageCache, PackageInstaller};
use crate::probe::{self, Unavailable};
use crate::recipe::BwrapOptions;
use crate::spawn::ProcessSpawner;

/// Runs scripts with the rights of this service. **It protects from nothing**: a script can read
/// and write what the service can, use the network, and talk to other processes. What it has in
/// common with the sandbox is good order only: an empty environment, time and memory limits,
/// bounded output, and that well-behaved processes are killed with their script.
///
/// For development on machines where no sandbox works. Cheap to clone.
#[derive(Clone)]
pub struct Bare {
    engine: Arc<ScriptEngine>,
}

impl Bare {
    /// Looks for an interpreter.
    ///
    /// # Errors
    /// [`Unavailable::BareNotAllowed`] unless the setting `allow_unsandboxed_scripts` is on.
    pub async fn probe(config: Config) -> Result<Self, Unavailable> {
        if !config.allow_unsandboxed_scripts {
            return Err(Unavailable::BareNotAllowed);
        }

        probe::check_kernel()?;

        let interpreter = Arc::new(Interpreter::find(config.python.as_deref()).await?);
        let spawner = ProcessSpawner::start(|| Ok::<(), Unavailable>(())).await?;
        let launcher = Arc::new(Launcher::new(spawner, Isolation::Bare)?);

        let packages = match &config.packages.directory {
            None => None,
            Some(directory) => {
                let cache = PackageCache::open(directory, 0o700, config.packages.cache_bytes)?;
                let with = InstallerEnv {
                    launcher: Arc::clone(&launcher),
                    interpreter: Arc::clone(&interpreter),
                    settings: InstallerSettings::detect_installer(&interpreter),
                    base: BwrapOptions::default(),
                    filter: None,
                    source: directory.clone(),
                };

                Some(PackageInstaller::new(cache, &config, with))
            }
        };

        let base = BwrapOptions::default();
        let deps = EngineDeps {
            config,
            launcher,
            interpreter,
            base,
            filter: None,
            packages,
            hierarchy: None,
        };

        Ok(Self { engine: Arc::new(ScriptEngine::new(deps)) })
    }

    /// Waits until no script is running, which includes runs whose future was dropped.
    pub async fn idle(&self) {
        self.engine.idle().await;
    }
}

impl Runner for Bare {
    fn name(&self) -> &'static str {
        "unsandboxed"
    }

    fn memory_accounting(&self) -> Option<&'static str> {
        Some("sampled")
    }

    fn run(&self, script: Script, run: Run) -> BoxFuture<'_, Result<Outcome, Error>> {
        Arc::clone(&self.engine).run(script, run).boxed()
    }
}
