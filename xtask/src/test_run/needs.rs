//! The parts that the tests of a package need, as its `Cargo.toml` declares them:
//!
//! ```toml
//! [package.metadata.tests]
//! programs = ["agent-host"]             # programs of the workspace that its tests start
//! services = ["rabbitmq", "postgresql"] # servers that a run shares
//! parts = ["everything"]                # parts that `dev/parts/fetch` brings
//! ```
//!
//! A test that uses a part which is not declared fails and names it.

use std::collections::BTreeSet;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::TestOptions;
use crate::workspace;

/// Test programs of this name need a cluster.
const CLUSTER_TESTS: &str = "cluster";
/// Test programs of this name need a container engine, our images, and a cluster that has them.
const SHIP_TESTS: &str = "ship";

/// The parts of a test run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct TestNeeds {
    /// Programs to build, each with its package.
    pub(crate) programs: BTreeSet<(String, String)>,
    /// Servers to start.
    pub(crate) services: BTreeSet<String>,
    /// Parts to fetch.
    pub(crate) parts: BTreeSet<String>,
    /// What each package declares, one `PACKAGE KIND NAME` a line.
    pub(crate) declared: String,
    pub(crate) has_cluster: bool,
    pub(crate) has_engine: bool,
}

impl TestNeeds {
    /// Reads the needs of the selected packages.
    pub(crate) fn read(options: &TestOptions) -> anyhow::Result<Self> {
        Self::from_metadata(&workspace::read_metadata()?, options)
    }

    /// Reads the needs of every package.
    pub(crate) fn read_all() -> anyhow::Result<Self> {
        Self::read(&TestOptions::default())
    }

    pub(super) fn from_metadata(metadata: &Value, options: &TestOptions) -> anyhow::Result<Self> {
        let packages = metadata["packages"].as_array().context("cargo metadata has no packages")?;
        let mut needs = Self::default();

        for name in &options.packages {
            let is_known = packages.iter().any(|package| package["name"] == name.as_str());
            ensure!(is_known, "the workspace has no package {name}");
        }

        for package in packages {
            let name = package["name"].as_str().context("a package has no name")?;
            if options.needs_package(name) {
                needs.add(package, packages).with_context(|| format!("tests of {name}"))?;
            }
        }

        if options.is_quick {
            (needs.has_cluster, needs.has_engine) = (false, false);
        }
        Ok(needs)
    }

    fn add(&mut self, package: &Value, packages: &[Value]) -> anyhow::Result<()> {
        let declared = &package["metadata"]["tests"];
        for program in strings(&declared["programs"]) {
            let owner =
                packages.iter().find(|package| targets(package, "bin").any(|bin| bin == program));
            let owner = owner.with_context(|| format!("no package has the program {program}"))?;
            let owner = owner["name"].as_str().context("a package has no name")?;
            self.programs.insert((owner.to_owned(), program.to_owned()));
        }

        for kind in ["programs", "services", "parts"] {
            for name in strings(&declared[kind]) {
                let package = package["name"].as_str().unwrap_or_default();
                self.declared.push_str(&format!("{package} {kind} {name}\n"));
            }
        }
        self.services.extend(strings(&declared["services"]).map(str::to_owned));
        self.parts.extend(strings(&declared["parts"]).map(str::to_owned));
        self.has_cluster |= targets(package, "test").any(|test| test == CLUSTER_TESTS);
        self.has_engine |= targets(package, "test").any(|test| test == SHIP_TESTS);
        Ok(())
    }
}

fn strings(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// The names of a package's targets of one kind.
fn targets<'a>(package: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a str> {
    let targets = package["targets"].as_array().into_iter().flatten();
    targets
        .filter(move |target| strings(&target["kind"]).any(|one| one == kind))
        .filter_map(|target| target["name"].as_str())
}
