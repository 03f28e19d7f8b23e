//! A Docker engine that has our images, for the tests of what is shipped; the cluster gets them
//! too.
//!
//! The images are made by the same recipe as those that others get, out of the programs that the
//! run of tests has built anyway: to compile them once more takes longer than all tests together.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::kept_process::KeptProcess;
use crate::workspace;

/// Names the engine for the tests.
pub(crate) const VARIABLE: &str = "TOOLBUS_TEST_DOCKER";

/// What the larger images are built on: these are made of packages, by `dev/docker/up`.
const BASES: [(&str, &str); 3] = [
    ("TOOLBUS_NODE_IMAGE", "toolbus.local/node:1"),
    ("TOOLBUS_UV_IMAGE", "toolbus.local/uv:1"),
    ("TOOLBUS_PYTHON_IMAGE", "toolbus.local/python-sandbox:1"),
];

/// A running engine. Stopped at drop if it was started here.
pub(crate) struct DockerEngine {
    address: String,
    _keeper: Option<KeptProcess>,
}

impl DockerEngine {
    /// Connects to the engine that the environment names, else to one that runs on this machine or
    /// is started now, and builds images of the programs in `folder`, for it and for the cluster of
    /// `dev/kube`. From an empty cache this takes minutes.
    pub(crate) fn start_with_images(folder: &Path) -> anyhow::Result<Self> {
        let fetch = ["compose", "helm", "keda", "kube"];
        workspace::run_command(
            workspace::script_command("dev/parts/fetch").args(fetch).stdout(Stdio::null()),
        )?;
        let engine = Self::connect_or_start()?;
        engine.build_images(&mut workspace::script_command("docker/images"), folder)?;
        engine.give_to_cluster(&mut workspace::script_command("dev/docker/to-cluster"))?;
        Ok(engine)
    }

    /// Builds images of the programs in `folder` with the Dockerfile in the sources of their
    /// commit, for the engine and for the cluster.
    pub(crate) fn add_images(&self, source: &Path, folder: &Path, tag: &str) -> anyhow::Result<()> {
        let mut build = Command::new(source.join("docker/images"));
        // The output goes beside the programs, so it replaces nothing of this commit.
        let target = folder.parent().unwrap_or(folder);
        build.current_dir(source).env("CARGO_TARGET_DIR", target).env("TOOLBUS_TAG", tag);
        self.build_images(&mut build, folder)?;

        let mut give = workspace::script_command("dev/docker/to-cluster");
        self.give_to_cluster(give.env("TOOLBUS_TAG", tag))
    }

    fn build_images(&self, build: &mut Command, folder: &Path) -> anyhow::Result<()> {
        build.env("DOCKER_HOST", &self.address).env("TOOLBUS_PROGRAMS", folder);
        for (name, base) in BASES {
            if env::var_os(name).is_none() {
                build.env(name, base);
            }
        }
        workspace::run_command(build.stdout(Stdio::null()))
    }

    fn give_to_cluster(&self, give: &mut Command) -> anyhow::Result<()> {
        workspace::run_command(give.env("DOCKER_HOST", &self.address))
    }

    fn connect_or_start() -> anyhow::Result<Self> {
        if let Ok(address) = env::var(VARIABLE) {
            return Ok(Self { address, _keeper: None });
        }
        let (keeper, address) =
            KeptProcess::start_and_read_line(&mut workspace::script_command("dev/docker/keep"))?;
        Ok(Self { address, _keeper: Some(keeper) })
    }

    /// The address that clients connect to.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }
}
