//! The settings of local scripts, for every program that runs them.

use std::num::NonZeroU16;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolbus_config::{ByteSize, Mistakes, TimeSpan};
use toolbus_scripts::{Runner, ScriptAllowance};

use crate::{Config, Limits, PackagesConfig, Sandbox, Unavailable};

/// How scripts run on this machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ScriptsSettings {
    /// How many scripts run at a time.
    #[schemars(range(min = 1, max = 256))]
    pub max_concurrent: NonZeroU16,
    /// Memory of one script, all its processes and files together. Agents tell models of it, also
    /// where scripts run elsewhere.
    pub memory: ByteSize,
    /// The longest time that a script may ask for, from a second to twenty minutes. Agents tell
    /// models of it, and a `scripts-manager` keeps scripts to it.
    pub timeout_max: TimeSpan,
    /// The Python interpreter. When not set: the `python3` that `PATH` finds.
    pub python: Option<PathBuf>,
    /// Where bubblewrap is, when it is not `/usr/bin/bwrap`.
    pub bwrap: Option<PathBuf>,
    /// Where installed packages are kept. When not set: `toolbus/packages` in the user's cache
    /// folder.
    pub packages_directory: Option<PathBuf>,
    /// How long installing packages may take.
    pub packages_timeout: TimeSpan,
}

impl Default for ScriptsSettings {
    fn default() -> Self {
        Self {
            max_concurrent: NonZeroU16::new(4).expect("4 is not zero"),
            memory: ByteSize::mebibytes(256),
            timeout_max: TimeSpan::seconds(300),
            python: None,
            bwrap: None,
            packages_directory: None,
            packages_timeout: TimeSpan::seconds(110),
        }
    }
}

impl ScriptsSettings {
    /// Adds what is wrong with them to the mistakes of a program that has them as `scripts`.
    pub fn check(&self, mistakes: &mut Mistakes<'_>) {
        let timeouts = Duration::from_secs(1)..=ScriptAllowance::TIMEOUT_MAX;
        if !timeouts.contains(&self.timeout_max.duration()) {
            mistakes.add("scripts.timeout_max", "between one second and twenty minutes");
        }
    }

    /// What one script may take, as models are told.
    #[must_use]
    pub fn allowance(&self) -> ScriptAllowance {
        ScriptAllowance {
            timeout_max: self.timeout_max.duration(),
            memory_bytes: self.memory.bytes(),
        }
    }

    /// The runner that these settings ask for, tried out.
    ///
    /// # Errors
    /// When it does not work here. There is no other runner in its stead.
    pub async fn runner(&self) -> Result<Arc<dyn Runner>, Unavailable> {
        let sandbox = self.sandbox().await?;
        tracing::info!(memory = sandbox.memory_accounting(), "scripts run in the local sandbox");
        Ok(Arc::new(sandbox))
    }

    /// The sandbox that these settings ask for, tried out.
    pub(crate) async fn sandbox(&self) -> Result<Sandbox, Unavailable> {
        Sandbox::probe(self.config()).await
    }

    fn config(&self) -> Config {
        let defaults = PackagesConfig::default();
        let limits = Limits::default();
        let memory_bytes = self.memory.bytes();

        Config {
            bwrap: self.bwrap.clone(),
            python: self.python.clone(),
            limits: Limits {
                memory_bytes,
                // Libraries reserve several times of what they use.
                address_space_bytes: limits.address_space_bytes.max(memory_bytes * 4),
                ..limits
            },
            max_concurrent: usize::from(self.max_concurrent.get()),
            packages: PackagesConfig {
                directory: self.packages_directory.clone().or(defaults.directory.clone()),
                install_timeout: self.packages_timeout.duration(),
                ..defaults
            },
            ..Config::default()
        }
    }
}
