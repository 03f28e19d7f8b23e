//! `cargo xtask clean`: shows what this project has put outside of its folder, and removes it.
//!
//! Everything that is downloaded or built once is in the user's cache folder: the parts of the
//! tests, and the build folder of CI.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, bail};

use crate::workspace;

/// Folder of the programs of earlier commits.
pub(crate) const EARLIER_FOLDER: &str = "toolbus-earlier";
/// Folders in the user's cache folder, and what is in each.
const FOLDERS: [(&str, &str); 3] = [
    ("toolbus-test", "parts that tests use: servers, images, Kubernetes"),
    (EARLIER_FOLDER, "sources and programs of an earlier commit, for accept upgrade"),
    ("toolbus-ci", "the build folder and the package caches of .ci/run"),
];

/// What to do with the folders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CacheAction {
    Show,
    Remove,
}

/// Lists the folders with their sizes, or removes them with `--remove`.
pub(crate) fn run(arguments: &[&str]) -> anyhow::Result<ExitCode> {
    let action = match arguments {
        [] => CacheAction::Show,
        ["--remove"] => CacheAction::Remove,
        _ => bail!("usage: cargo xtask clean [--remove]"),
    };
    let cache = cache_folder().context("neither XDG_CACHE_HOME nor HOME is set")?;
    for (name, content) in FOLDERS {
        let folder = cache.join(name);
        if !folder.exists() {
            println!("{}: absent", folder.display());
            continue;
        }
        let size = disk_usage(&folder)?;
        if action == CacheAction::Remove {
            std::fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
            println!("{}: removed {size} ({content})", folder.display());
        } else {
            println!("{}: {size} ({content})", folder.display());
        }
    }

    if action == CacheAction::Show {
        println!("cargo xtask clean --remove removes these; cargo clean removes the build folder");
    }
    Ok(ExitCode::SUCCESS)
}

/// The user's cache folder, as the scripts of `dev` find it.
pub(crate) fn cache_folder() -> Option<PathBuf> {
    let own = std::env::var_os("XDG_CACHE_HOME").filter(|value| !value.is_empty());
    own.map(PathBuf::from).or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cache")))
}

fn disk_usage(folder: &Path) -> anyhow::Result<String> {
    let printed = workspace::read_output(Command::new("du").arg("-sh").arg(folder))?;
    Ok(printed.split_whitespace().next().unwrap_or_default().to_owned())
}
