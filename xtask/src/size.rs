//! `cargo xtask size`: compares the size of each program with its limit.
//!
//! The limits of the shipped build (profile `dist`) are those that users see. That build takes too
//! long for CI, so CI compares the programs that its tests have built, without their symbols: a
//! dependency that makes the shipped program larger makes these larger, too.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, bail, ensure};

use crate::workspace;

/// One program and its limits in megabytes (10⁶ bytes).
struct SizeLimit {
    program: &'static str,
    /// Of the file that is shipped.
    dist: u64,
    /// Of code and data in the development build.
    dev: u64,
}

const LIMITS: [SizeLimit; 4] = [
    SizeLimit { program: "agent-host", dist: 50, dev: 155 },
    SizeLimit { program: "mcp-bridge", dist: 24, dev: 70 },
    SizeLimit { program: "openrouter-mcp", dist: 13, dev: 44 },
    SizeLimit { program: "scripts-manager", dist: 20, dev: 68 },
];

/// A build of which the sizes are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SizedBuild {
    /// The programs that the tests have built.
    Dev,
    /// The programs that are shipped; they are built first.
    Dist,
}

/// Compares the sizes of the shipped build, or with `--dev` of the development build.
pub(crate) fn run(arguments: &[&str]) -> anyhow::Result<ExitCode> {
    match arguments {
        [] => check(SizedBuild::Dist)?,
        ["--dev"] => check(SizedBuild::Dev)?,
        _ => bail!("usage: cargo xtask size [--dev]"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the size of each program. An error names those that exceed their limits.
pub(crate) fn check(build: SizedBuild) -> anyhow::Result<()> {
    if build == SizedBuild::Dist {
        let arguments = ["build", "--profile", "dist", "--locked", "--workspace", "--bins"];
        workspace::run_command(&mut workspace::cargo_command(&arguments))?;
    }

    let mut too_large = Vec::new();
    for SizeLimit { program, dist, dev } in &LIMITS {
        let (bytes, limit) = match build {
            SizedBuild::Dev => (loaded_bytes(&program_path("debug", program)?)?, *dev),
            SizedBuild::Dist => (file_bytes(&program_path("dist", program)?)?, *dist),
        };
        let size = bytes as f64 / 1e6;
        println!("{program:16} {size:6.1} MB  limit {limit} MB");
        if bytes > limit * 1_000_000 {
            too_large.push(format!("{program}: {size:.1} MB exceeds the limit of {limit} MB"));
        }
    }

    if too_large.is_empty() {
        return Ok(());
    }
    bail!("{}; cargo tree -p PROGRAM --duplicates shows what came in", too_large.join(", "))
}

fn program_path(profile: &str, program: &str) -> anyhow::Result<std::path::PathBuf> {
    Ok(workspace::target_folder()?.join(profile).join(program))
}

fn file_bytes(path: &Path) -> anyhow::Result<u64> {
    let metadata = std::fs::metadata(path).with_context(|| path.display().to_string())?;
    Ok(metadata.len())
}

/// The bytes of code and data: what of a program is loaded, without symbols and line tables.
fn loaded_bytes(path: &Path) -> anyhow::Result<u64> {
    ensure!(path.exists(), "{} has not been built: cargo xtask test", path.display());
    let printed = workspace::read_output(Command::new("size").arg("--format=sysv").arg(path))?;
    sum_sections(&printed).with_context(|| format!("sections of {}", path.display()))
}

/// Adds up the sections that `size --format=sysv` lists, without those of the debugger.
fn sum_sections(listed: &str) -> anyhow::Result<u64> {
    let mut sum = 0;
    for line in listed.lines().filter(|line| line.starts_with('.')) {
        let mut columns = line.split_whitespace();
        let (name, size) = (columns.next(), columns.next());
        let (Some(name), Some(size)) = (name, size) else { bail!("no size in \"{line}\"") };
        if !name.starts_with(".debug") {
            sum += size.parse::<u64>().with_context(|| format!("size in \"{line}\""))?;
        }
    }
    ensure!(sum > 0, "there are none");
    Ok(sum)
}

#[cfg(test)]
mod tests;
