//! Packages in pods: from an index in the cluster, onto a volume of the node.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client};
use scripts_manager::kubernetes::KubernetesRunner;
use scripts_manager::kubernetes::settings::{KubernetesSettings, PackagesSettings};
use toolbus_runtime::config::{ByteSize, Secret, TimeSpan};
use toolbus_scripts::conformance::honest;
use toolbus_scripts::runner::{Ending, Error, Outcome, Run, Runner, Script};

use crate::index::{IMAGE, Index};
use crate::support::{client, script, settings};

/// An index of the test's own, and what was seen there.
struct Stage {
    client: Client,
    index: Index,
}

impl Stage {
    async fn start(namespace: &str) -> Option<Self> {
        let client = client().await?;
        let index = Index::start(client.clone(), namespace).await;
        Some(Self { client, index })
    }

    async fn ask(&self, what: &str) -> String {
        self.index.try_ask(what).await.expect("the index answers")
    }

    /// How often the index was asked for each file.
    async fn asked(&self) -> BTreeMap<String, u32> {
        serde_json::from_str(&self.ask("asked").await).expect("JSON")
    }

    /// What is on the volume.
    async fn volume(&self) -> Vec<String> {
        serde_json::from_str(&self.ask("volume").await).expect("JSON")
    }

    fn settings(&self) -> PackagesSettings {
        self.index.settings()
    }

    async fn runner(&self, packages: PackagesSettings) -> KubernetesRunner {
        self.start_runner(KubernetesSettings { packages, ..settings() }).await
    }

    async fn start_runner(&self, settings: KubernetesSettings) -> KubernetesRunner {
        let namespace = self.index.namespace.clone();
        let settings = KubernetesSettings { namespace, ..settings };
        let runner = KubernetesRunner::start(self.client.clone(), settings, 8).await;
        runner.expect("the cluster takes scripts")
    }

    async fn end(self, runner: &KubernetesRunner) {
        runner.idle().await;
        self.index.end().await;
    }
}

async fn run(runner: &KubernetesRunner, source: &str, packages: &[&str]) -> Result<Outcome, Error> {
    let packages = packages.iter().map(|package| (*package).to_owned()).collect();
    let script = Script { packages, ..script(source) };
    runner.run(script, Run::alone("packages")).await
}

#[tokio::test]
async fn a_set_is_installed_once_and_kept() {
    let Some(stage) = Stage::start("toolbus-test-packages").await else { return };
    let runner = stage.runner(stage.settings()).await;
    let source = "import toolbus_good, socket, subprocess, sys\n\
                  print(toolbus_good.value, toolbus_good.__file__, sys.path[:2])\n\
                  subprocess.run([sys.executable, '-c', 'import toolbus_good as g; print(g.value)'])\n\
                  try: open('/packages/x', 'w')\nexcept OSError: print('read-only')\n\
                  try: socket.socket()\nexcept OSError: print('no network')";
    let expected = "from a wheel /packages/toolbus_good.py ['', '/packages']\nfrom a wheel\n\
                    read-only\nno network\n";
    let ways = [["toolbus-good"], ["Toolbus_Good"], ["toolbus.good"]];
    for outcome in join_all(ways.iter().map(|way| run(&runner, source, way))).await {
        let outcome = outcome.expect("it runs");
        assert_eq!((outcome.output.text.as_str(), outcome.ending), (expected, Ending::Exited(0)));
    }
    let asked = BTreeMap::from([("toolbus_good-1.0-py3-none-any.whl".to_owned(), 1)]);
    assert_eq!(stage.asked().await, asked);
    let sets = stage.volume().await;
    assert_eq!(sets.len(), 1, "{sets:?}");

    // Another manager finds it, and so does one whose index is gone.
    let other = stage.runner(stage.settings()).await;
    let outcome = run(&other, source, &["toolbus-good"]).await.expect("it runs");
    assert_eq!(outcome.output.text, expected);
    assert_eq!((stage.asked().await, stage.volume().await), (asked, sets.clone()));
    other.idle().await;

    // What was not asked for lately makes room for what is new; what was stays.
    stage.ask("age").await;
    let tiny = PackagesSettings { cache_bytes: ByteSize::of_bytes(1), ..stage.settings() };
    let tiny = stage.runner(tiny).await;
    let other = "import toolbus_other\nprint(toolbus_other.value)";
    let outcome = run(&tiny, other, &["toolbus-other"]).await.expect("it runs");
    assert_eq!(outcome.output.text, "another\n");
    let left = stage.volume().await;
    assert!(left.len() == 1 && left != sets, "{left:?}");
    run(&tiny, source, &["toolbus-good"]).await.expect("it runs");
    assert_eq!(stage.volume().await.len(), 2);
    tiny.idle().await;
    stage.end(&runner).await;
}

/// Numerical packages, as scripts ask for them.
#[tokio::test]
async fn scientific_scripts_are_not_disturbed() {
    let Some(stage) = Stage::start("toolbus-test-packages-science").await else { return };
    // Their wheels take some time on a busy machine, and are for the Python of this image.
    let packages = PackagesSettings { timeout: TimeSpan::seconds(300), ..stage.settings() };
    let image = IMAGE.to_owned();
    let runner = stage.start_runner(KubernetesSettings { packages, image, ..settings() }).await;
    honest::scientific_scripts_are_not_disturbed(&runner).await;
    stage.end(&runner).await;
}

#[tokio::test]
async fn what_cannot_be_installed_is_told_and_leaves_nothing() {
    let Some(stage) = Stage::start("toolbus-test-packages-bad").await else { return };
    let small = PackagesSettings { set_bytes: ByteSize::mebibytes(16), ..stage.settings() };
    let runner = stage.runner(small).await;
    let check =
        async |package: &str, expected: &[&str]| match run(&runner, "print(1)", &[package]).await {
            Err(Error::Packages(text)) => {
                let missing = expected.iter().find(|part| !text.contains(**part));
                assert_eq!(missing, None, "{package}: {text}");
            }
            other => panic!("{package}: {other:?}"),
        };
    check("toolbus-missing", &["pip install failed (exit 1)", "404", "toolbus-missing"]).await;
    check("toolbus-sdist", &["No matching distribution found for toolbus-sdist"]).await;
    check("toolbus-hostile", &["pip install failed", "outside the target directory"]).await;
    check("toolbus-huge", &["pip install failed"]).await;
    check("toolbus-busy", &["429"]).await;
    assert_eq!(stage.volume().await, [""; 0]);
    let hasty = PackagesSettings { timeout: TimeSpan::seconds(4), ..stage.settings() };
    let hasty = stage.runner(hasty).await;
    let late = run(&hasty, "print(1)", &["toolbus-slow"]).await;
    assert_eq!(late, Err(Error::Packages("pip install timed out after 4s".to_owned())));
    let address = format!("http://{}:8081/simple", stage.index.address);
    let gone = PackagesSettings { index: Some(Secret::from(address)), ..stage.settings() };
    let gone = stage.runner(PackagesSettings { index_port: 8081, ..gone }).await;
    let refused = run(&gone, "print(1)", &["toolbus-good"]).await;
    let told = matches!(&refused, Err(Error::Packages(text)) if text.contains("the index cannot be asked"));
    assert!(told, "{refused:?}");
    for runner in [&runner, &hasty, &gone] {
        runner.idle().await;
    }
    let pods: Api<Pod> = Api::namespaced(stage.client.clone(), &stage.index.namespace);
    let left = pods.list(&ListParams::default()).await.expect("pods").items;
    let left = left.iter().flat_map(|pod| &pod.spec).flat_map(|spec| spec.volumes.iter().flatten());
    let claims = left.filter_map(|volume| volume.persistent_volume_claim.as_ref());
    assert_eq!(claims.filter(|claim| claim.claim_name == stage.index.name).count(), 0);
    stage.end(&runner).await;
}

#[tokio::test]
async fn no_pod_is_made_for_what_is_no_requirement() {
    let Some(runner) = crate::support::runner().await else { return };
    for package in
        ["x; touch /tmp/mark", "--index-url=http://x", "-r/etc/passwd", "git+https://x/y", "../x"]
    {
        let refused = run(&runner, "print(1)", &[package]).await;
        assert!(matches!(refused, Err(Error::Invalid(_))), "{package}: {refused:?}");
    }
    let Err(Error::Packages(nowhere)) = run(&runner, "print(1)", &["six"]).await else {
        panic!("there is no index");
    };
    for part in ["packages.index", "packages.claim", "without pip_packages"] {
        assert!(nowhere.contains(part), "{nowhere}");
    }
}
