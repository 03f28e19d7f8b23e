//! The programs that are compared with.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

/// Runs a program on a file: how long it took, and what it wrote.
pub(crate) fn run(
    program: &str,
    arguments: &[&str],
    path: &Path,
) -> anyhow::Result<(Duration, String)> {
    let started = Instant::now();
    let output = Command::new(program)
        .args(arguments)
        .arg(path)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{program} is needed"))?;
    let took = started.elapsed();
    ensure!(output.status.success(), "{program}: {}", output.status);
    Ok((took, String::from_utf8(output.stdout)?))
}

/// The first line of what a program says of itself.
pub(crate) fn version(program: &str) -> anyhow::Result<String> {
    let output = Command::new(program).arg("--version").output();
    let output = output.with_context(|| format!("{program} is needed"))?;
    let text = String::from_utf8(output.stdout)?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}
