//! `cargo xtask tidy`: what the compiler and clippy cannot check. [`laws`] are about who may depend
//! on whom, [`files`] about single files. Every mistake is listed, each with its place and how to
//! mend it.

mod files;
mod laws;

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::ensure;

use crate::workspace;

#[cfg(test)]
mod tests;

/// One thing to mend.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Mistake {
    path: String,
    /// Counted from 1.
    line: usize,
    /// What is wrong.
    what: String,
    /// What to do.
    mend: &'static str,
}

impl std::fmt::Display for Mistake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { path, line, what, mend } = self;
        write!(f, "{path}:{line}: {what}\n    {mend}")
    }
}

/// Checks and prints.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    check()?;
    Ok(ExitCode::SUCCESS)
}

/// Checks and prints; any mistake is an error.
pub(crate) fn check() -> anyhow::Result<()> {
    let files = tracked_files()?;
    let mut mistakes = laws::check()?;
    for path in &files {
        // Neither what was deleted and not yet committed nor what is not text is looked at.
        if let Ok(text) = fs::read_to_string(workspace::root().join(path)) {
            mistakes.extend(files::check(path, &text));
        }
    }
    mistakes.sort();
    for mistake in &mistakes {
        println!("{mistake}");
    }
    ensure!(mistakes.is_empty(), "{} things to mend", mistakes.len());
    println!("{} files are tidy", files.len());
    Ok(())
}

/// What git tracks, and what it would if all were added.
fn tracked_files() -> anyhow::Result<Vec<String>> {
    let mut git = Command::new("git");
    git.current_dir(workspace::root());
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let mut files: Vec<_> = workspace::read(&mut git)?
        .split_terminator('\0')
        .filter(|path| Path::new(path).is_relative())
        .map(str::to_owned)
        .collect();
    files.sort();
    files.dedup();
    Ok(files)
}
