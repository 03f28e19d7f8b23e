//! The tool `bash`: a command of a shell, in a sandbox that shares the working directory.
//!
//! The sandbox is that of scripts (`toolbus_sandbox`): a script of one line becomes the shell, so
//! that one supervisor keeps time, memory, output and processes for both. Without a sandbox
//! (`bare`) commands run only where the operator says so.

mod bare;
mod output;
mod settings;

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use rustix::process::geteuid;
use serde_json::{Map, Value, json};
use toolbus_sandbox::settings::ScriptsSettings;
use toolbus_sandbox::{Config, Limits, Network, PackagesConfig, Sandbox, Unavailable, Workspace};
use toolbus_scripts::runner::{Ending, Error, Run, Runner as _, Script};
use toolbus_tools::arguments::text;
use toolbus_tools::call::{CallError, Invocation, Output};
use toolbus_tools::registry::{self, Registry};
use toolbus_tools::tool::Risk;
use toolbus_tools::{Audience, Executor, Guide, Tool};
use toolbus_wire::ErrorCode;

use crate::arguments;
use crate::files::Access;
use bare::{BareCommand, BareShell};
use output::CommandOutcome;
pub use settings::{BashSettings, Isolation};

/// Name of the tool.
pub const NAME: &str = "bash";
const SOURCE: &str = "shell";
/// The shell, here and in the sandbox.
const SHELL: &str = "/bin/bash";
/// Longest command, in bytes: the kernel takes no argument of more than twice as much.
const COMMAND_BYTES_MAX: usize = 64 << 10;
/// How much longer than a command its call may take: for a place, the start, and what is left.
const CALL_GRACE: Duration = Duration::from_secs(30);
/// How long the first command may take, which looks at the working directory.
const TRY_TIMEOUT: Duration = Duration::from_secs(10);
/// What commands may use beyond scripts: compilers open more files and write larger ones.
const PROCESSES_MAX: u32 = 512;
const OPEN_FILES_MAX: u32 = 1024;
const FILE_BYTES_MAX: u64 = 1 << 30;
const TMP_BYTES_MAX: u64 = 256 << 20;

/// Runs commands. Clones are the same.
#[derive(Clone)]
pub struct Shell {
    inner: Arc<ShellInner>,
    audience: Audience,
}

struct ShellInner {
    runner: CommandRunner,
    directory: PathBuf,
    /// Device and number of the directory, which is another one when it was made anew.
    identity: (u64, u64),
    timeout: Duration,
    is_sandboxed: bool,
}

enum CommandRunner {
    Sandbox(Box<Sandbox>),
    Bare(BareShell),
}

/// The guide to the shell.
#[must_use]
pub fn guide(shell: &Shell) -> Guide {
    let place = if shell.inner.is_sandboxed {
        include_str!("shell/sandbox.md")
    } else {
        include_str!("shell/bare.md")
    };
    let timeout = format!("{} s", shell.inner.timeout.as_secs_f64());
    let document = include_str!("shell/guide.md");
    Guide {
        name: SOURCE.to_owned(),
        summary: "Run commands of a shell in the working directory".to_owned(),
        document: document.replace("{place}", place.trim_end()).replace("{timeout}", &timeout),
    }
}

/// Registers the tool.
///
/// # Errors
/// When its name is taken.
pub fn register(registry: &Registry, shell: Shell) -> Result<(), registry::Error> {
    let parameters = json!({
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": "The command, as bash takes it after -c"}
        },
        "required": ["command"]
    });

    let seconds = shell.inner.timeout.as_secs_f64();
    let description = format!(
        "Execute a shell command (bash) in the working directory and return what it prints: stdout, \
         then stderr. After {seconds} s it is killed with every process that it started."
    );
    let tool = Tool::new(NAME, description, SOURCE)
        .in_group(SOURCE)
        .destructive()
        .with_risk(Risk::Critical)
        .with_timeout(shell.inner.timeout + CALL_GRACE)
        .with_parameters(parameters)
        .for_audience(shell.audience.clone());
    registry.register(tool, shell)
}

impl Shell {
    /// Makes what commands run in, and tries it out. `scripts` says where Python and bubblewrap
    /// are; `directory` is the real path of the working directory.
    ///
    /// # Errors
    /// When it does not work here. There is nothing weaker in its stead.
    pub async fn start(
        settings: &BashSettings,
        scripts: &ScriptsSettings,
        directory: &Path,
    ) -> Result<Self, Unavailable> {
        let wrong = |reason: String| Unavailable::Setting { name: "working_directory", reason };
        let metadata = fs::metadata(directory).map_err(|error| wrong(error.to_string()))?;
        let is_sandboxed = settings.isolation == Isolation::Sandbox;

        let runner = if is_sandboxed {
            let id = unprivileged_id(&metadata, settings.access).map_err(wrong)?;
            let sandbox = Sandbox::probe(sandbox_config(settings, scripts, directory, id)).await?;
            try_directory(&sandbox, directory, settings.access).await.map_err(wrong)?;
            CommandRunner::Sandbox(Box::new(sandbox))
        } else {
            tracing::warn!("commands of models run without a sandbox, as `bash.isolation` says");
            CommandRunner::Bare(BareShell::new(usize::from(settings.max_concurrent.get())))
        };

        let inner = ShellInner {
            runner,
            directory: directory.to_path_buf(),
            identity: (metadata.dev(), metadata.ino()),
            timeout: settings.timeout.duration(),
            is_sandboxed,
        };
        Ok(Self { inner: Arc::new(inner), audience: Audience::everybody() })
    }

    /// The same commands, which are there for this audience alone.
    #[must_use]
    pub fn for_audience(self, audience: Audience) -> Self {
        Self { audience, ..self }
    }
}

/// Runs a command that looks whether commands can use the working directory. The error says why
/// not.
async fn try_directory(sandbox: &Sandbox, directory: &Path, access: Access) -> Result<(), String> {
    let command = match access {
        Access::ReadWrite => "test -r . -a -w . -a -x .",
        Access::ReadOnly => "test -r . -a -x .",
    };
    let script = command_script(command, directory, TRY_TIMEOUT);
    let outcome = sandbox.run(script, Run::alone("")).await.map_err(|error| error.to_string())?;

    match outcome.ending {
        Ending::Exited(0) => Ok(()),
        _ => {
            let said = outcome.output.text.trim().lines().last().unwrap_or("no access").to_owned();
            Err(format!("commands cannot use it: {said}"))
        }
    }
}

/// Whom commands run as, where this process is root's: who has the working directory.
fn unprivileged_id(directory: &fs::Metadata, access: Access) -> Result<u32, String> {
    let default = Config::default().unprivileged_id;
    if !geteuid().is_root() {
        return Ok(default);
    }
    if directory.uid() != 0 {
        return Ok(directory.uid());
    }

    let needed = if access == Access::ReadWrite { 0o007 } else { 0o005 };
    match directory.mode() & needed == needed {
        true => Ok(default),
        false => Err(format!(
            "it belongs to root, and commands run as user {default}: give it to another user \
             (`chown`), or run this program as one"
        )),
    }
}

fn sandbox_config(
    settings: &BashSettings,
    scripts: &ScriptsSettings,
    directory: &Path,
    unprivileged_id: u32,
) -> Config {
    let limits = Limits::default();
    let memory_bytes = settings.memory.bytes();
    let is_writable = settings.access == Access::ReadWrite;

    Config {
        bwrap: scripts.bwrap.clone(),
        python: scripts.python.clone(),
        read_only_paths: settings.readable_paths.clone(),
        workspace: Some(Workspace { path: directory.to_path_buf(), is_writable }),
        network: if settings.network { Network::Allowed } else { Network::Denied },
        limits: Limits {
            memory_bytes,
            // Programs reserve several times of what they use.
            address_space_bytes: limits.address_space_bytes.max(memory_bytes.saturating_mul(4)),
            processes: PROCESSES_MAX,
            open_files: OPEN_FILES_MAX,
            file_bytes: FILE_BYTES_MAX,
            tmp_bytes: TMP_BYTES_MAX,
            ..limits
        },
        max_concurrent: usize::from(settings.max_concurrent.get()),
        unprivileged_id,
        packages: PackagesConfig { directory: None, ..PackagesConfig::default() },
        ..Config::default()
    }
}

impl Executor for Shell {
    fn execute(&self, call: Invocation) -> BoxFuture<'_, Result<Output, CallError>> {
        Box::pin(async move {
            let command = text(&call.arguments, "command").unwrap_or_default();
            if let Err(reason) = self.inner.check(command) {
                return Ok(failure(&reason));
            }
            match self.inner.run(command, &call).await {
                Ok(outcome) => outcome.into_output(self.inner.timeout),
                Err(error) => output_of_error(error),
            }
        })
    }

    fn coerce(&self, arguments: &mut Map<String, Value>) {
        arguments::coerce(arguments);
    }
}

impl ShellInner {
    /// Says why a command cannot be started, where that shows before.
    fn check(&self, command: &str) -> Result<(), String> {
        if command.len() > COMMAND_BYTES_MAX {
            return Err(format!("it is longer than {COMMAND_BYTES_MAX} bytes: write it to a file"));
        }
        if command.contains('\0') {
            return Err("it has a zero byte in it".to_owned());
        }
        if !Path::new(SHELL).exists() {
            return Err(format!("{SHELL} is not there"));
        }

        let directory = self.directory.display();
        match fs::metadata(&self.directory) {
            Ok(found) if (found.dev(), found.ino()) == self.identity => Ok(()),
            Ok(_) => Err(format!("the working directory {directory} was replaced since the start")),
            Err(_) => Err(format!("the working directory {directory} is not there")),
        }
    }

    async fn run(&self, command: &str, call: &Invocation) -> Result<CommandOutcome, Error> {
        let cancelled = &call.context.cancelled;

        match &self.runner {
            CommandRunner::Sandbox(sandbox) => {
                let script = command_script(command, &self.directory, self.timeout);
                let run = Run {
                    deadline: call.context.deadline,
                    cancelled: cancelled.clone(),
                    ..Run::alone(call.id.as_str())
                };
                sandbox.run(script, run).await.map(CommandOutcome::from)
            }
            CommandRunner::Bare(shell) => {
                let (directory, timeout) = (self.directory.as_path(), self.timeout);
                let shell_path = Path::new(SHELL);
                let what = BareCommand { shell: shell_path, command, directory, timeout };
                shell.run(what, cancelled).await
            }
        }
    }
}

/// A command as the sandbox takes it.
fn command_script(command: &str, directory: &Path, timeout: Duration) -> Script {
    Script {
        source: script_source(command, directory),
        input: String::new(),
        timeout,
        packages: Vec::new(),
        files: Vec::new(),
        prelude: None,
    }
}

/// The script that becomes the shell. The interpreter ignores signals that programs count on, and
/// has variables of its own.
fn script_source(command: &str, directory: &Path) -> String {
    // A text of JSON is the same text in Python.
    let (command, directory) = (json!(command), json!(directory.to_string_lossy()));
    format!(
        "import os, _signal\n\
         for number in _signal.SIGPIPE, _signal.SIGXFSZ:\n    \
             _signal.signal(number, _signal.SIG_DFL)\n\
         for name in 'ROCKBOT_INPUT', 'PYTHONDONTWRITEBYTECODE', 'MALLOC_ARENA_MAX':\n    \
             os.environ.pop(name, None)\n\
         os.chdir({directory})\n\
         os.execv('{SHELL}', ['bash', '-c', {command}])\n"
    )
}

fn failure(reason: &str) -> Output {
    Output::error(format!("Error executing command: {reason}"))
}

/// What is told of a command that has no outcome. Who makes the call again has to know more than a
/// text where it may not be started, or may have been.
fn output_of_error(error: Error) -> Result<Output, CallError> {
    match error {
        Error::Cancelled => Err(CallError::cancelled()),
        Error::Busy(_) => Err(CallError::new(ErrorCode::Busy, error.to_string())),
        Error::OutcomeUnknown(_) => {
            Err(CallError::new(ErrorCode::OutcomeUnknown, error.to_string()))
        }
        error => Ok(failure(&error.to_string())),
    }
}

#[cfg(test)]
mod tests;
