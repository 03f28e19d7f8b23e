//! `cargo xtask tidy`: checks what the compiler and clippy cannot check.
//!
//! [`laws`] are about dependencies between crates, [`files`] about single files, [`sleeps`] about
//! tests, [`style`] about production code and [`history`] about commits. Every mistake is listed
//! with its place and the way to fix it.

mod figures;
mod files;
mod history;
mod laws;
mod sleeps;
mod source;
mod style;
mod tokens;

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::ensure;

use crate::workspace;
use figures::Figures;
use source::Source;

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
pub(crate) fn run_checks() -> anyhow::Result<ExitCode> {
    check_tree()?;
    Ok(ExitCode::SUCCESS)
}

/// Checks and prints; any mistake is an error.
pub(crate) fn check_tree() -> anyhow::Result<()> {
    let files = read_files()?;
    let sources = production_sources(&files);

    let mut mistakes = laws::check_workspace()?;
    mistakes.extend(history::check_subjects());
    for (path, text) in &files {
        mistakes.extend(files::check_file(path, text));
        mistakes.extend(sleeps::check_file(path, text));
    }

    for source in &sources {
        mistakes.extend(style::check_rules(source));
    }

    mistakes.sort();
    for mistake in &mistakes {
        println!("{mistake}");
    }

    ensure!(mistakes.is_empty(), "{} things to mend", mistakes.len());
    println!("{} files are tidy", files.len());
    Ok(())
}

/// Prints how the production code is written, in numbers.
pub(crate) fn print_figures() -> anyhow::Result<ExitCode> {
    let files = read_files()?;
    let mut all = Figures::default();
    let mut shipped = Figures::default();

    for source in production_sources(&files) {
        all.add(&source);
        if figures::is_shipped(source.path) {
            shipped.add(&source);
        }
    }
    print!("{}", figures::table(&all, &shipped));
    Ok(ExitCode::SUCCESS)
}

/// All Rust files of `src` folders but those that are compiled for tests only.
fn production_sources(files: &[(String, String)]) -> Vec<Source<'_>> {
    let is_production =
        |path: &str| path.ends_with(".rs") && path.contains("/src/") && !Source::is_test_path(path);
    let files = files.iter().filter(|(path, _)| is_production(path));
    let mut sources: Vec<_> = files.map(|(path, text)| Source::read(path, text)).collect();

    let test_modules: Vec<_> = sources.iter().flat_map(Source::test_module_paths).collect();
    let is_test = |path: &str| {
        test_modules.iter().any(|module| {
            path.strip_prefix(module.as_str())
                .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        })
    };
    sources.retain(|source| !is_test(source.path));
    sources
}

/// Paths and texts of all files. Neither what was deleted and not yet committed nor what is not
/// text is among them.
fn read_files() -> anyhow::Result<Vec<(String, String)>> {
    let read = |path: String| {
        let text = fs::read_to_string(workspace::root().join(&path)).ok()?;
        Some((path, text))
    };
    Ok(tracked_files()?.into_iter().filter_map(read).collect())
}

/// What git tracks, and what it would if all were added.
fn tracked_files() -> anyhow::Result<Vec<String>> {
    let mut git = Command::new("git");
    git.current_dir(workspace::root());
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let mut files: Vec<_> = workspace::read_output(&mut git)?
        .split_terminator('\0')
        .filter(|path| Path::new(path).is_relative())
        .map(str::to_owned)
        .collect();
    files.sort();
    files.dedup();
    Ok(files)
}
