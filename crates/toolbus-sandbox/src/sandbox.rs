//! The sandboxed runner.

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use toolbus_scripts::runner::{Error, Outcome, Run, Runner, Script};
use toolbus_scripts::supervisor::seccomp::Network;

use crate::bubblewrap::Launcher;
use crate::cgroup::CgroupHierarchy;
use crate::config::{Config, MemoryAccounting};
use crate::engine::{EngineDeps, ScriptEngine};
use crate::interpreter::Interpreter;
use crate::packages::{InstallerEnv, InstallerSettings, PackageCache, PackageInstaller};
use crate::probe::{self, Unavailable};
use crate::recipe::{self, HostTree};
use crate::spawn::ProcessSpawner;
use crate::staging;
use crate::workspace;

/// Runs each script in a sandbox of its own: bubblewrap's namespaces, a filter of system calls,
/// and limits. Cheap to clone.
#[derive(Clone)]
pub struct Sandbox {
    engine: Arc<ScriptEngine>,
    found: Arc<Found>,
}

/// What the sandbox is made of here.
struct Found {
    bwrap: PathBuf,
    interpreter: Arc<Interpreter>,
}

impl Sandbox {
    /// Finds the kernel features, bubblewrap and the interpreter, and verifies with a canary script
    /// that the sandbox isolates as promised. Takes about as long as two scripts.
    ///
    /// # Errors
    /// [`Unavailable`] says what is missing and what to do. Nothing weaker is tried.
    pub async fn probe(config: Config) -> Result<Self, Unavailable> {
        check_config(&config)?;
        probe::check_kernel()?;

        let bwrap = probe::find_bwrap(config.bwrap.as_deref()).await?;
        let interpreter = Arc::new(Interpreter::find(config.python.as_deref()).await?);
        workspace::check_workspace(&config, &interpreter)?;
        let settings = InstallerSettings::detect_installer(&interpreter);
        let become_id = rustix::process::geteuid().is_root().then_some(config.unprivileged_id);
        let cache = open_cache(&config, become_id)?;
        let plan = HostTrees::plan(&config, &interpreter, &settings, cache.as_ref());
        let spawner = plan.start_spawner(become_id).await?;
        let found = Arc::new(Found { bwrap: bwrap.clone(), interpreter: Arc::clone(&interpreter) });
        let launcher = Arc::new(Launcher {
            spawner,
            bwrap,
            become_id,
            interpreter: interpreter.bootstrap_command(),
        });

        let hierarchy = match config.memory_accounting {
            MemoryAccounting::Automatic => CgroupHierarchy::find_writable(&config.limits),
            MemoryAccounting::Sampled => None,
        };
        let base = |network, trees: &[HostTree]| {
            let trees = plan.staged_trees(trees, become_id);
            recipe::base_options(network, &interpreter, &trees, &config.limits)
        };

        let packages = match cache {
            None => None,
            Some(cache) => {
                let program = recipe::place(Network::Allowed, true).program();
                let with = InstallerEnv {
                    launcher: Arc::clone(&launcher),
                    interpreter: Arc::clone(&interpreter),
                    settings,
                    base: base(Network::Allowed, &plan.installers),
                    program: interpreter.compile(&program).await?,
                    source: plan.bind_source(cache.directory(), become_id),
                };
                Some(PackageInstaller::new(cache, &config, with))
            }
        };

        let network = config.network;
        let mut base = base(network, &plan.scripts);
        if let Some(workspace) = &config.workspace {
            base.bind_workspace(workspace, &plan.bind_source(&workspace.path, become_id));
        }
        let program = recipe::place(network, hierarchy.is_none()).program();
        let program = interpreter.compile(&program).await?;
        let deps = EngineDeps { config, launcher, base, program, packages, hierarchy };
        let sandbox = Self { engine: Arc::new(ScriptEngine::new(deps)), found };

        let (script, run) = probe::canary_script();
        probe::check_canary(sandbox.run(script, run).await, network)?;
        Ok(sandbox)
    }

    /// How the memory of scripts is bounded: `control group` or `sampled`.
    pub fn memory_accounting(&self) -> &'static str {
        if self.engine.has_control_groups() { "control group" } else { "sampled" }
    }

    /// Implementation, version and path of the Python that runs scripts.
    #[must_use]
    pub fn describe_python(&self) -> String {
        let Interpreter { version, executable, .. } = &*self.found.interpreter;
        format!("{version} at {}", executable.display())
    }

    /// Where bubblewrap is.
    #[must_use]
    pub fn bwrap(&self) -> &std::path::Path {
        &self.found.bwrap
    }

    /// Waits until no script is running, which includes runs whose future was dropped.
    pub async fn idle(&self) {
        self.engine.idle().await;
    }
}

impl Runner for Sandbox {
    fn name(&self) -> &'static str {
        "bubblewrap"
    }

    fn memory_accounting(&self) -> Option<&'static str> {
        Some(Self::memory_accounting(self))
    }

    fn run(&self, script: Script, run: Run) -> BoxFuture<'_, Result<Outcome, Error>> {
        Arc::clone(&self.engine).run(script, run).boxed()
    }
}

/// Host trees that are bound into sandboxes: those for scripts and those for installers.
struct HostTrees {
    scripts: Vec<HostTree>,
    installers: Vec<HostTree>,
    /// All host paths, the cache of packages included, in the order in which they are staged.
    staged: Vec<PathBuf>,
}

impl HostTrees {
    fn plan(
        config: &Config,
        interpreter: &Interpreter,
        settings: &InstallerSettings,
        cache: Option<&PackageCache>,
    ) -> Self {
        let settings_shown = match config.network {
            Network::Denied => &[][..],
            Network::Allowed => &recipe::NETWORK_SETTINGS[..],
        };
        let network = settings_shown.iter().map(PathBuf::from).filter(|path| path.exists());
        let network: Vec<PathBuf> = network.collect();
        let shared = interpreter.trees.iter().chain(&config.read_only_paths).chain(&network);
        let scripts: Vec<HostTree> =
            shared.map(|path| HostTree { path: path.clone(), source: path.clone() }).collect();
        let installers: Vec<HostTree> = scripts.iter().chain(&settings.files).cloned().collect();
        let mut staged: Vec<PathBuf> = installers.iter().map(|tree| tree.source.clone()).collect();
        staged.extend(cache.map(|cache| cache.directory().to_path_buf()));
        staged.extend(config.workspace.as_ref().map(|workspace| workspace.path.clone()));
        Self { scripts, installers, staged }
    }

    /// Starts the thread that spawns processes, in a mount namespace of its own when it has to
    /// change its user.
    async fn start_spawner(&self, become_id: Option<u32>) -> Result<ProcessSpawner, Unavailable> {
        let staged = become_id.map(|_| self.staged.clone());
        ProcessSpawner::start(move || match staged {
            None => Ok(()),
            Some(trees) => staging::mount_trees(&trees).map_err(Unavailable::from),
        })
        .await
    }

    /// The same trees with where bubblewrap finds them.
    fn staged_trees(&self, trees: &[HostTree], become_id: Option<u32>) -> Vec<HostTree> {
        let trees = trees.iter().map(|tree| HostTree {
            path: tree.path.clone(),
            source: self.bind_source(&tree.source, become_id),
        });
        trees.collect()
    }

    fn bind_source(&self, path: &std::path::Path, become_id: Option<u32>) -> PathBuf {
        let index = self.staged.iter().position(|staged| staged == path);
        match (become_id, index) {
            (Some(_), Some(index)) => staging::staged_path(index),
            _ => path.to_path_buf(),
        }
    }
}

fn check_config(config: &Config) -> Result<(), Unavailable> {
    let wrong = |name, reason: &str| Err(Unavailable::Setting { name, reason: reason.to_owned() });
    if config.max_concurrent == 0 {
        return wrong("max_concurrent", "it must be at least 1");
    }

    if config.unprivileged_id == 0 {
        return wrong("unprivileged_id", "it must not be root's");
    }

    if let Some(path) = config.read_only_paths.iter().find(|path| !path.is_absolute()) {
        return wrong("read_only_paths", &format!("{} is not absolute", path.display()));
    }

    let limits = &config.limits;

    // Less than this and the interpreter itself does not start.
    if limits.memory_bytes < 16 << 20 || limits.processes < 4 || limits.open_files < 64 {
        return wrong(
            "limits",
            "at least 16 MiB of memory, 4 processes and 64 open files are needed",
        );
    }

    Ok(())
}

fn open_cache(
    config: &Config,
    become_id: Option<u32>,
) -> Result<Option<PackageCache>, Unavailable> {
    let Some(directory) = &config.packages.directory else { return Ok(None) };
    let mode = if become_id.is_some() { 0o711 } else { 0o700 };
    let cache = PackageCache::open(directory, mode, config.packages.cache_bytes);
    cache.map(Some).map_err(|error| Unavailable::Setting {
        name: "packages.directory",
        reason: format!("{}: {error}", directory.display()),
    })
}
