//! The sources and programs of the earlier commit, in the user's cache folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::clean;
use crate::workspace;

/// Commit from which fleets are upgraded.
const COMMIT: &str = "34f55748a90b2e6e2b5462b4c7d215e2071429d2";
/// Tag of its images.
const TAG: &str = "earlier-34f5574";
/// Programs of the commit. Each has the name of its package.
const PROGRAMS: [&str; 4] = ["agent-host", "mcp-bridge", "scripts-manager", "openrouter-mcp"];

/// The sources and programs of the commit.
pub(super) struct EarlierCommit {
    source: PathBuf,
    programs: PathBuf,
}

impl EarlierCommit {
    /// Exports the sources from this clone and builds the programs, unless both exist.
    pub(super) fn build() -> anyhow::Result<Self> {
        let cache = clean::cache_folder().context("neither XDG_CACHE_HOME nor HOME is set")?;
        let folder = cache.join(clean::EARLIER_FOLDER).join(&COMMIT[..12]);
        let (source, target) = (folder.join("source"), folder.join("target"));
        if !source.exists() {
            export(&folder, &source)?;
        }

        let earlier = Self { source, programs: target.join("debug") };
        if PROGRAMS.iter().any(|program| !earlier.programs.join(program).exists()) {
            earlier.compile(&target)?;
        }
        Ok(earlier)
    }

    /// Builds with the test settings of the workspace. Downloads nothing: the two commits share
    /// most dependencies.
    fn compile(&self, target: &Path) -> anyhow::Result<()> {
        let mut build = workspace::cargo_command(&["build", "--locked", "--offline"]);
        for program in PROGRAMS {
            build.args(["--package", program, "--bin", program]);
        }
        build.current_dir(&self.source).arg("--target-dir").arg(target);
        workspace::run_command(&mut build).with_context(|| {
            let source = self.source.display();
            format!(
                "the programs of {COMMIT} cannot be built; if a dependency is missing, run \
                 cargo fetch --locked in {source}"
            )
        })
    }

    pub(super) fn source(&self) -> &Path {
        &self.source
    }

    pub(super) fn programs(&self) -> &Path {
        &self.programs
    }

    pub(super) fn tag(&self) -> &'static str {
        TAG
    }

    /// Returns the variables with which tests find them.
    pub(super) fn environment(&self) -> Vec<(String, String)> {
        let own = |name: &str, value: String| (name.to_owned(), value);
        vec![
            own("TOOLBUS_TEST_EARLIER", self.programs.display().to_string()),
            own("TOOLBUS_TEST_EARLIER_SOURCE", self.source.display().to_string()),
            own("TOOLBUS_TEST_EARLIER_TAG", TAG.to_owned()),
        ]
    }
}

/// Writes all files of the commit to `source`, or none.
fn export(folder: &Path, source: &Path) -> anyhow::Result<()> {
    let mut look = git(&["cat-file", "-e", &format!("{COMMIT}^{{commit}}")]);
    let has_commit = look.output().context("starting git")?.status.success();
    ensure!(
        has_commit,
        "this clone does not have the commit {COMMIT}, which fleets are upgraded from: run git fetch \
         --unshallow"
    );

    let partial = folder.join("source.partial");
    if partial.exists() {
        fs::remove_dir_all(&partial).with_context(|| partial.display().to_string())?;
    }
    fs::create_dir_all(&partial).with_context(|| partial.display().to_string())?;
    let archive = folder.join("source.tar");
    let mut write = git(&["archive", "--format=tar", COMMIT, "--output"]);
    workspace::run_command(write.arg(&archive))?;
    let mut unpack = Command::new("tar");
    workspace::run_command(unpack.arg("-xf").arg(&archive).arg("-C").arg(&partial))?;

    fs::remove_file(&archive).with_context(|| archive.display().to_string())?;
    fs::rename(&partial, source).with_context(|| source.display().to_string())
}

fn git(arguments: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.current_dir(workspace::root()).args(arguments);
    command
}
