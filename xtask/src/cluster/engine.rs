//! A Docker engine that has our images, for the tests of what is shipped; the cluster gets them too.
//!
//! The images are made by the same recipe as those that others get, out of the programs that the run
//! of tests has built anyway: to compile them once more takes longer than all tests together.

use std::env;
use std::path::Path;
use std::process::Stdio;

use crate::keeper::Keeper;
use crate::workspace;

/// Names the engine for the tests.
pub(crate) const VARIABLE: &str = "TOOLBUS_TEST_DOCKER";

/// What the larger images are built on: these are made of packages, by `dev/docker/up`.
const BASES: [(&str, &str); 3] = [
    ("TOOLBUS_NODE_IMAGE", "toolbus.local/node:1"),
    ("TOOLBUS_UV_IMAGE", "toolbus.local/uv:1"),
    ("TOOLBUS_PYTHON_IMAGE", "toolbus.local/python-sandbox:1"),
];

/// A running engine. Ended at drop, if it was started for this.
pub(crate) struct Engine {
    address: String,
    _keeper: Option<Keeper>,
}

impl Engine {
    /// The one that the environment names, else one that is started, or joined where it runs; with
    /// images of the programs in `folder`, which the cluster of `dev/kube` has then, too. From an
    /// empty cache this takes minutes.
    pub(crate) fn with_images(folder: &Path) -> anyhow::Result<Self> {
        let fetch = ["compose", "helm", "keda", "kube"];
        workspace::run(workspace::script("dev/parts/fetch").args(fetch).stdout(Stdio::null()))?;
        let engine = Self::there()?;
        let mut build = workspace::script("docker/images");
        build.env("DOCKER_HOST", &engine.address).env("TOOLBUS_PROGRAMS", folder);
        build.stdout(Stdio::null());
        for (name, base) in BASES {
            if env::var_os(name).is_none() {
                build.env(name, base);
            }
        }
        workspace::run(&mut build)?;
        workspace::run(
            workspace::script("dev/docker/to-cluster").env("DOCKER_HOST", &engine.address),
        )?;
        Ok(engine)
    }

    fn there() -> anyhow::Result<Self> {
        if let Ok(address) = env::var(VARIABLE) {
            return Ok(Self { address, _keeper: None });
        }
        let (keeper, address) = Keeper::of_one(&mut workspace::script("dev/docker/keep"))?;
        Ok(Self { address, _keeper: Some(keeper) })
    }

    /// Where clients reach it.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }
}
