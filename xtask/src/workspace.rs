//! The workspace as the other tasks see it: its folder, its packages, cargo and the scripts in it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

/// The folder of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the workspace")
}

/// Returns a command of the cargo that runs this task, in the workspace's folder.
pub(crate) fn cargo_command(arguments: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = without_package_variables(Command::new(cargo));
    command.current_dir(root()).args(arguments);
    command
}

/// Removes the variables of the package that started this task: some build scripts watch them, and
/// would rebuild whenever cargo is run by hand after a task, and the other way round.
pub(crate) fn without_package_variables(mut command: Command) -> Command {
    for (name, _) in std::env::vars_os() {
        if name
            .to_str()
            .is_some_and(|name| PACKAGE_VARIABLES.iter().any(|prefix| name.starts_with(prefix)))
        {
            command.env_remove(name);
        }
    }
    command
}

/// Prefixes of the variables by which cargo tells a program its own package.
const PACKAGE_VARIABLES: [&str; 2] = ["CARGO_PKG_", "CARGO_MANIFEST_"];

/// A command that runs a script of the workspace.
pub(crate) fn script_command(path: &str) -> Command {
    let mut command = Command::new(root().join(path));
    command.current_dir(root());
    command
}

/// The output of `cargo metadata` for the workspace's own packages.
pub(crate) fn read_metadata() -> anyhow::Result<Value> {
    let arguments = ["metadata", "--format-version", "1", "--no-deps", "--locked"];
    serde_json::from_str(&read_output(&mut cargo_command(&arguments))?).context("cargo metadata")
}

/// Where cargo puts what it builds.
pub(crate) fn target_folder() -> anyhow::Result<PathBuf> {
    let metadata = read_metadata()?;
    metadata["target_directory"].as_str().map(PathBuf::from).context("no target_directory")
}

/// Runs a command with the terminal's input and output.
pub(crate) fn run_command(command: &mut Command) -> anyhow::Result<()> {
    let status =
        command.status().with_context(|| format!("starting {}", describe_command(command)))?;
    ensure!(status.success(), "{}: {status}", describe_command(command));
    Ok(())
}

/// Runs a command and returns its standard output; its standard error goes to the terminal.
pub(crate) fn read_visibly(command: &mut Command) -> anyhow::Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("starting {}", describe_command(command)))?;
    ensure!(output.status.success(), "{}: {}", describe_command(command), output.status);
    String::from_utf8(output.stdout)
        .with_context(|| format!("output of {}", describe_command(command)))
}

/// Runs a command and returns what it printed.
pub(crate) fn read_output(command: &mut Command) -> anyhow::Result<String> {
    let output =
        command.output().with_context(|| format!("starting {}", describe_command(command)))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{}: {}\n{said}", describe_command(command), output.status);
    }
    String::from_utf8(output.stdout)
        .with_context(|| format!("output of {}", describe_command(command)))
}

fn describe_command(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy();
    let arguments = command.get_args().map(|argument| argument.to_string_lossy());
    std::iter::once(name).chain(arguments).collect::<Vec<_>>().join(" ")
}
