//! Tools that others wrote and operators use: Helm, kubectl, and Docker with its `compose`.
//!
//! A cluster and an engine are had by naming them, for they take more than a machine that runs the
//! other tests may have: `TOOLBUS_TEST_KUBECONFIG` and `TOOLBUS_TEST_DOCKER`, and no other
//! variable, so that nobody's production is taken for one. Without the name, tests of them are
//! skipped.

use std::env;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

/// The program Helm, with or without a cluster.
#[derive(Debug, Clone)]
pub struct Helm {
    program: PathBuf,
}

/// Helm. `None` where it has not been fetched and may be missing.
///
/// # Panics
/// When it is missing and `TOOLBUS_REQUIRE_REAL` is `1`.
pub fn helm() -> Option<Helm> {
    crate::parts::folder("helm").map(|folder| Helm { program: folder.join("helm") })
}

impl Helm {
    /// Helm without a cluster.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env_remove("KUBECONFIG").env("HELM_NO_PLUGINS", "1");
        command
    }

    /// Helm for a cluster.
    pub fn on(&self, cluster: &Cluster) -> Command {
        let mut command = self.command();
        command.env("KUBECONFIG", &cluster.kubeconfig);
        command
    }
}

/// The folder of KEDA's definitions of objects, `keda.sh_NAME.yaml` each. `None` where they have
/// not been fetched and may be missing.
///
/// # Panics
/// When they are missing and `TOOLBUS_REQUIRE_REAL` is `1`.
pub fn keda() -> Option<PathBuf> {
    crate::parts::folder_beside_cluster("keda")
}

/// The cluster that the environment names.
#[derive(Debug, Clone)]
pub struct Cluster {
    kubeconfig: PathBuf,
    kubectl: PathBuf,
}

/// The cluster. `None`, said in a line, where none is named.
///
/// # Panics
/// When one is named and there is no kubectl.
pub fn cluster() -> Option<Cluster> {
    let Some(kubeconfig) = env::var_os("TOOLBUS_TEST_KUBECONFIG").map(PathBuf::from) else {
        print_skipped("TOOLBUS_TEST_KUBECONFIG names no cluster");
        return None;
    };
    // The cluster of dev/kube brings its own kubectl.
    let kubectl =
        crate::parts::folder_beside_cluster("kube").expect("a cluster needs dev/parts/fetch kube");
    Some(Cluster { kubeconfig, kubectl: kubectl.join("kube") })
}

impl Cluster {
    /// The file that says how it is reached, for `KUBECONFIG` of a program of ours.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// `kubectl`.
    pub fn kubectl(&self) -> Command {
        let mut command = Command::new(&self.kubectl);
        command.arg("kubectl").arg("--kubeconfig").arg(&self.kubeconfig);
        command
    }
}

/// Removes a namespace of the cluster with whatever is in it, if it is there.
///
/// # Errors
/// When the cluster does not do so.
pub fn remove_namespace(name: &str) -> anyhow::Result<()> {
    let Some(cluster) = cluster() else { return Ok(()) };
    let delete = ["delete", "namespace", "--ignore-not-found", name];
    output(cluster.kubectl().args(delete)).map(drop)
}

/// The images of the services, and which of them hold nothing but the program.
pub const IMAGES: [(&str, bool); 6] = [
    ("agent-host", true),
    ("mcp-bridge", true),
    ("scripts-manager", true),
    ("openrouter-mcp", true),
    ("mcp-bridge-tools", false),
    ("scripts-manager-local", false),
];

/// The tag of the images under test.
#[must_use]
pub fn tag() -> String {
    env::var("TOOLBUS_TAG").unwrap_or_else(|_| "dev".to_owned())
}

/// The Docker engine that the environment names.
#[derive(Debug)]
pub struct Docker {
    address: String,
    /// Where the client finds its plug-ins, and nothing of the user's.
    configuration: tempfile::TempDir,
}

/// The engine. `None`, said in a line, where none is named.
///
/// # Panics
/// When one is named and its `compose` is missing.
pub fn docker() -> Option<Docker> {
    let Ok(address) = env::var("TOOLBUS_TEST_DOCKER") else {
        print_skipped("TOOLBUS_TEST_DOCKER names no engine");
        return None;
    };
    let compose = crate::parts::folder_beside_cluster("compose")
        .expect("an engine needs dev/parts/fetch compose");
    let configuration = tempfile::tempdir().expect("a folder");
    let plugins = configuration.path().join("cli-plugins");
    std::fs::create_dir(&plugins).expect("a folder");
    let link = plugins.join("docker-compose");
    std::os::unix::fs::symlink(compose.join("docker-compose"), link).expect("a link");
    Some(Docker { address, configuration })
}

impl Docker {
    /// The client, or a script that calls it.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.env("DOCKER_HOST", &self.address).env("DOCKER_CONFIG", self.configuration.path());
        command.env_remove("DOCKER_CONTEXT");
        command
    }
}

/// Runs a command to its end and returns what it printed.
///
/// # Errors
/// When it fails or cannot be started; the error has all its output.
pub fn output(command: &mut Command) -> anyhow::Result<String> {
    let ended = command.stdin(Stdio::null()).output();
    let ended = ended.with_context(|| format!("starting {command:?}"))?;
    let printed = String::from_utf8_lossy(&ended.stdout);
    let said = String::from_utf8_lossy(&ended.stderr);
    ensure!(ended.status.success(), "{command:?}: {}\n{printed}\n{said}", ended.status);
    Ok(printed.into_owned())
}

fn print_skipped(reason: &str) {
    // Past the test harness, which hides what a passing test prints.
    let _ = writeln!(io::stderr(), "skipped: {reason}");
}
