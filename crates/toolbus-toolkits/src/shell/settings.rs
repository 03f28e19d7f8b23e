//! The settings of the shell.

use std::num::NonZeroU16;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolbus_config::{ByteSize, Mistakes, TimeSpan};

use crate::files::Access;

/// The least memory with which a sandbox starts.
const MEMORY_BYTES_MIN: u64 = 16 << 20;
/// The longest time that a command may take.
const TIMEOUT_MAX: Duration = Duration::from_secs(20 * 60);

/// How commands of models run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BashSettings {
    /// Whether models have the tool `bash`. It needs `files.working_directory`, where commands run.
    pub enabled: bool,
    /// What commands are kept in. Where a sandbox does not work, there are no commands: nothing
    /// weaker takes its place.
    pub isolation: Isolation,
    /// What commands may do in the working directory. In a sandbox only: without one they may do
    /// what the program may.
    pub access: Access,
    /// Whether commands in a sandbox reach the network, and with it the services of this machine.
    pub network: bool,
    /// Further folders that commands in a sandbox may read, such as those of compilers: absolute
    /// paths, none within the working directory. Nothing secret may be in them.
    pub readable_paths: Vec<PathBuf>,
    /// How long a command may take, from a second to twenty minutes.
    pub timeout: TimeSpan,
    /// Memory of one command in a sandbox, all its processes together: 16 MiB or more.
    pub memory: ByteSize,
    /// How many commands run at a time.
    #[schemars(range(min = 1, max = 64))]
    pub max_concurrent: NonZeroU16,
}

/// What commands are kept in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// A sandbox of bubblewrap, which shows the working directory and the programs of the system.
    #[default]
    Sandbox,
    /// None: commands have all rights of the program itself, on all files and on the network. For a
    /// machine that is a sandbox.
    None,
}

impl Default for BashSettings {
    fn default() -> Self {
        Self {
            enabled: false,
            isolation: Isolation::Sandbox,
            access: Access::ReadWrite,
            network: false,
            readable_paths: Vec::new(),
            timeout: TimeSpan::seconds(30),
            memory: ByteSize::mebibytes(1024),
            max_concurrent: NonZeroU16::new(4).expect("4 is not zero"),
        }
    }
}

impl BashSettings {
    /// Adds what is wrong with them to the mistakes of a program that has them as `bash`.
    pub fn check(&self, mistakes: &mut Mistakes<'_>) {
        if !(Duration::from_secs(1)..=TIMEOUT_MAX).contains(&self.timeout.duration()) {
            mistakes.add("bash.timeout", "between one second and twenty minutes");
        }
        if self.memory.bytes() < MEMORY_BYTES_MIN {
            mistakes.add("bash.memory", "16 MiB or more");
        }
        if let Some(path) = self.readable_paths.iter().find(|path| !path.is_absolute()) {
            let reason = format!("{} is not an absolute path", path.display());
            mistakes.add("bash.readable_paths", reason);
        }
        if self.isolation == Isolation::None && self.access == Access::ReadOnly {
            mistakes.add("bash.access", "only a sandbox can keep commands from writing");
        }
    }
}
