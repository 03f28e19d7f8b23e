//! The tests that need a cluster, and the cluster for them.
//!
//! Cargo is told to start every test program through [`run_program`]. Those called `cluster` get a
//! Kubernetes, which is there while they run and no longer: the others have the machine to
//! themselves, and no run pays for a cluster that it has no use for. Where the environment names one
//! already, that one is used.

use std::ffi::OsStr;
use std::io::BufRead as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, ensure};

use crate::keeper::Keeper;
use crate::workspace;

/// Names the cluster for the tests.
const KUBECONFIG: &str = "TOOLBUS_TEST_KUBECONFIG";
/// Set by whoever runs the tests: a cluster that cannot be had is a failure. Not the variable that
/// the tests themselves read, which is always set for them.
const REQUIRED: &str = "TOOLBUS_REQUIRE_REAL";
/// How [`run_program`] is told what its caller's [`REQUIRED`] was.
const CLUSTER_REQUIRED: &str = "TOOLBUS_REQUIRE_CLUSTER";
/// Test programs of this name need a cluster.
const PROGRAM: &str = "cluster";
/// What a cluster holds beside what it always does: the image with numerical packages.
const IMAGES: [&str; 1] = ["image-science"];

/// Makes cargo start test programs by [`run_program`] of the xtask in `folder`, where programs were
/// built. That need not be the file that runs here: the build may have put another in its place.
pub(crate) fn start_programs_by_us(cargo: &mut Command, folder: &Path) -> anyhow::Result<()> {
    let own = folder.join("xtask");
    let own = own.to_str().context("the path of xtask is not UTF-8")?;
    // Quoted as JSON, which TOML reads as well.
    let runner = serde_json::json!([own, "run-program"]);
    cargo.arg("--config").arg(format!("target.'cfg(all())'.runner = {runner}"));
    if std::env::var_os(REQUIRED).is_some_and(|value| value == "1") {
        cargo.env(CLUSTER_REQUIRED, "1");
    }
    Ok(())
}

/// Runs a test program, with a cluster where it needs one. Without one where it must have one is a
/// failure; else the program is left out, and that is said.
pub(crate) fn run_program(program: &str, arguments: &[&str]) -> anyhow::Result<ExitCode> {
    let mut command = Command::new(program);
    command.args(arguments);
    let is_named = std::env::var_os(KUBECONFIG).is_some();
    if is_named || !needs_cluster(Path::new(program)) {
        return Err(command.exec()).context("starting a test program");
    }
    match Cluster::start() {
        Ok(cluster) => {
            let status = command.env(KUBECONFIG, &cluster.kubeconfig).status();
            drop(cluster);
            let status = status.context("starting a test program")?;
            ensure!(status.success(), "{program}: {status}");
            Ok(ExitCode::SUCCESS)
        }
        Err(error) if std::env::var_os(CLUSTER_REQUIRED).is_some() => {
            Err(error.context("the tests that need a cluster have none"))
        }
        Err(error) => {
            eprintln!("SKIPPED: the tests that need a cluster have none: {error:#}");
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Whether a test program, as cargo names its file (the target's name, a dash and a digest), is one
/// of those for the cluster.
fn needs_cluster(program: &Path) -> bool {
    let stem = program.file_stem().and_then(OsStr::to_str).unwrap_or_default();
    stem.rsplit_once('-').is_some_and(|(name, _)| name == PROGRAM)
}

/// A running cluster. Ended at drop, if it was started for this.
pub(crate) struct Cluster {
    kubeconfig: String,
    _keeper: Keeper,
}

impl Cluster {
    /// Starts it, or joins the one that runs. From an empty cache this takes minutes.
    pub(crate) fn start() -> anyhow::Result<Self> {
        let (keeper, mut stdout) = Keeper::start(workspace::script("dev/kube/keep").args(IMAGES))?;
        let mut kubeconfig = String::new();
        stdout.read_line(&mut kubeconfig).context("output of dev/kube/keep")?;
        let kubeconfig = kubeconfig.trim_end().to_owned();
        ensure!(!kubeconfig.is_empty(), "dev/kube/up could not start one, and says above why");
        Ok(Self { kubeconfig, _keeper: keeper })
    }
}

#[cfg(test)]
mod tests;
