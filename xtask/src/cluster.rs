//! The tests that need a cluster, and the cluster for them.
//!
//! Cargo is told to start every test program through [`run_program`]. Those called `cluster` get a
//! Kubernetes, which is there while they run and no longer: the others have the machine to
//! themselves, and no run pays for a cluster that it has no use for. Where the environment names
//! one already, that one is used. Those called `ship` get a Docker engine with our images beside
//! it.

mod docker_engine;

use std::ffi::OsStr;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, ensure};

use crate::kept_process::KeptProcess;
use crate::test_lanes;
use crate::workspace;
use docker_engine::DockerEngine;

/// Names the cluster for the tests.
pub(crate) const KUBECONFIG: &str = "TOOLBUS_TEST_KUBECONFIG";
/// Set by whoever runs the tests: a cluster that cannot be had is a failure. Not the variable that
/// the tests themselves read, which is always set for them.
const REQUIRED: &str = "TOOLBUS_REQUIRE_REAL";
/// How [`run_program`] is told what its caller's [`REQUIRED`] was.
const CLUSTER_REQUIRED: &str = "TOOLBUS_REQUIRE_CLUSTER";
/// Test programs of this name need a cluster.
const CLUSTER_TESTS: &str = "cluster";
/// Test programs of this name need an engine, our images, and a cluster that has them too.
const SHIP_TESTS: &str = "ship";
/// Says how many tests of a program run at a time; without it as many as there are cores.
const TEST_THREADS: &str = "RUST_TEST_THREADS";
/// What a cluster holds beside what it always does: the image of its package index.
const IMAGES: [&str; 1] = ["image-science"];

/// Makes cargo start test programs by [`run_program`] of the xtask in `folder`, where programs were
/// built. That need not be the file that runs here: the build may have put another in its place.
pub(crate) fn set_test_runner(cargo: &mut Command, folder: &Path) -> anyhow::Result<()> {
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

/// Runs a test program that no other lane has begun, with a cluster where it needs one. Where none
/// can be had, that is a failure if clusters are required; else the program is skipped with a line
/// that says so.
pub(crate) fn run_program(program: &str, arguments: &[&str]) -> anyhow::Result<ExitCode> {
    if !test_lanes::claim(Path::new(program))? {
        return Ok(ExitCode::SUCCESS);
    }
    let mut command = Command::new(program);
    command.args(arguments);
    let name = target_name(Path::new(program));

    if !matches!(name, Some(CLUSTER_TESTS | SHIP_TESTS)) {
        return Err(command.exec()).context("starting a test program");
    }

    let parts = Cluster::connect_or_start().and_then(|cluster| {
        if name != Some(SHIP_TESTS) {
            return Ok((cluster, None));
        }
        let own = std::env::current_exe().context("where xtask is")?;
        let programs = own.parent().context("where the programs are")?;
        Ok((cluster, Some(DockerEngine::start_with_images(programs)?)))
    });

    match parts {
        Ok((cluster, engine)) => {
            command.env(KUBECONFIG, cluster.kubeconfig());
            if name == Some(CLUSTER_TESTS) && std::env::var_os(TEST_THREADS).is_none() {
                // They mostly wait for pods.
                let cores = std::thread::available_parallelism().map_or(1, usize::from);
                command.env(TEST_THREADS, (2 * cores).to_string());
            }
            if let Some(engine) = &engine {
                command.env(docker_engine::VARIABLE, engine.address());
            }
            let status = command.status();
            drop((engine, cluster));
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

/// The name of a test program's target. Cargo names its file by that, a dash and a digest.
fn target_name(program: &Path) -> Option<&str> {
    let stem = program.file_stem().and_then(OsStr::to_str)?;
    stem.rsplit_once('-').map(|(name, _)| name)
}

/// A running cluster. Stopped at drop if it was started here.
pub(crate) struct Cluster {
    kubeconfig: String,
    _keeper: Option<KeptProcess>,
}

impl Cluster {
    /// Connects to the cluster that the environment names, else to one that runs on this machine or
    /// is started now. From an empty cache this takes minutes.
    pub(crate) fn connect_or_start() -> anyhow::Result<Self> {
        if let Ok(kubeconfig) = std::env::var(KUBECONFIG) {
            return Ok(Self { kubeconfig, _keeper: None });
        }
        let keep = &mut workspace::script_command("dev/kube/keep");
        let (keeper, kubeconfig) = KeptProcess::start_and_read_line(keep.args(IMAGES))?;
        Ok(Self { kubeconfig, _keeper: Some(keeper) })
    }

    /// The path of the file that says how to reach it.
    pub(crate) fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }
}

#[cfg(test)]
mod tests;
