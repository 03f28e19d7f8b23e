//! The cluster and the container engine that the tests of a run share.
//!
//! They start with the run and end with it. If the environment names a cluster or an engine, that
//! one is used. Without one, the tests that need it are left out with a line that says so; with
//! `TOOLBUS_REQUIRE_REAL=1` the run fails.

mod docker_engine;

use std::path::Path;

use anyhow::Context as _;

use crate::kept_process::KeptProcess;
use crate::test_run::TestNeeds;
use crate::workspace;
use docker_engine::DockerEngine;

/// Names the cluster for the tests.
pub(crate) const KUBECONFIG: &str = "TOOLBUS_TEST_KUBECONFIG";
/// Set by the user: fail if there is no cluster. Tests always see `1`.
const REQUIRED: &str = "TOOLBUS_REQUIRE_REAL";
/// Images that a cluster holds in addition to the usual ones: the one of its package index.
const IMAGES: [&str; 1] = ["image-science"];

/// The cluster and the engine of a run, each only if its tests need one.
#[derive(Default)]
pub(crate) struct ClusterParts {
    // The engine has put its images into the cluster: it is dropped first.
    engine: Option<DockerEngine>,
    cluster: Option<Cluster>,
    is_missing: bool,
}

impl ClusterParts {
    /// Starts what the needs ask for. The engine's images hold the programs in `programs`.
    pub(crate) fn start(needs: &TestNeeds, programs: &Path) -> anyhow::Result<Self> {
        if !(needs.has_cluster || needs.has_engine) {
            return Ok(Self::default());
        }
        match Self::try_start(needs, programs) {
            Ok(parts) => Ok(parts),
            Err(error) if std::env::var_os(REQUIRED).is_some_and(|value| value == "1") => {
                Err(error.context("the tests that need a cluster have none"))
            }
            Err(error) => {
                eprintln!("SKIPPED: the tests that need a cluster have none: {error:#}");
                Ok(Self { is_missing: true, ..Self::default() })
            }
        }
    }

    fn try_start(needs: &TestNeeds, programs: &Path) -> anyhow::Result<Self> {
        let cluster = Some(Cluster::connect_or_start()?);
        let engine = match needs.has_engine {
            true => Some(DockerEngine::start_with_images(programs)?),
            false => None,
        };
        Ok(Self { engine, cluster, is_missing: false })
    }

    /// True if the tests that need these parts must be left out.
    pub(crate) fn is_missing(&self) -> bool {
        self.is_missing
    }

    /// Builds images of another commit's programs with the Dockerfile in its sources, and loads
    /// them into the cluster too.
    pub(crate) fn add_images(
        &self,
        source: &Path,
        programs: &Path,
        tag: &str,
    ) -> anyhow::Result<()> {
        let engine = self.engine.as_ref().context("there is no container engine")?;
        engine.add_images(source, programs, tag)
    }

    /// The variables by which tests find the parts.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        let cluster = self.cluster.as_ref().map(|cluster| (KUBECONFIG, cluster.kubeconfig()));
        let engine = self.engine.as_ref().map(|engine| (docker_engine::VARIABLE, engine.address()));
        let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        cluster.into_iter().chain(engine).map(own).collect()
    }
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
