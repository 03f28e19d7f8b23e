//! Tools that others wrote and operators use: Helm.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

/// Helm.
#[derive(Debug, Clone)]
pub struct Helm {
    program: PathBuf,
}

/// Helm. `None` where it has not been fetched and may be missing.
///
/// # Panics
/// When it is missing and `TOOLBUS_REQUIRE_REAL` is `1`.
pub fn helm() -> Option<Helm> {
    crate::parts::folder("helm").map(|folder| Helm { program: folder.join("helm") })
}

impl Helm {
    /// Helm without a cluster.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env_remove("KUBECONFIG").env("HELM_NO_PLUGINS", "1");
        command
    }
}

/// Runs a command to its end and gives what it printed.
///
/// # Errors
/// With all that it said, when it fails or cannot be started.
pub fn output(command: &mut Command) -> anyhow::Result<String> {
    let ended = command.stdin(Stdio::null()).output();
    let ended = ended.with_context(|| format!("starting {command:?}"))?;
    let (printed, said) =
        (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    ensure!(ended.status.success(), "{command:?}: {}\n{printed}\n{said}", ended.status);
    Ok(printed.into_owned())
}
