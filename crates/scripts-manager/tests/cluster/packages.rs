//! Packages in pods: from an index in the cluster, onto a volume of the node.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::{Namespace, PersistentVolume, PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, GetParams, ListParams, PostParams};
use kube::core::Request;
use kube::{Api, Client};
use scripts_manager::kubernetes::KubernetesRunner;
use scripts_manager::kubernetes::settings::{KubernetesSettings, PackagesSettings};
use serde_json::json;
use toolbus_runtime::config::{ByteSize, Secret, TimeSpan};
use toolbus_scripts::runner::{Ending, Error, Outcome, Run, Runner, Script};
use uuid::Uuid;

use crate::support::{client, script, settings};

/// Where indexes are, which need a namespace without levels.
const INDEXES: &str = "toolbus-test-index";

/// An index, and a volume with its claim; gone when [`Stage::end`] was called.
struct Stage {
    client: Client,
    /// Of the scripts' pods. Each test has its own, because a namespace has one way out.
    namespace: &'static str,
    name: String,
    address: String,
}

impl Stage {
    async fn start(namespace: &'static str) -> Option<Self> {
        let client = client().await?;
        let name = format!("toolbus-test-{}", &Uuid::new_v4().simple().to_string()[..12]);
        for name in [namespace, INDEXES] {
            let described = json!({"metadata": {"name": name}});
            let described: Namespace = serde_json::from_value(described).expect("a namespace");
            // That it is there already is as good.
            let _ = Api::all(client.clone()).create(&PostParams::default(), &described).await;
        }
        let mut stage = Self { client, namespace, name, address: String::new() };
        stage.make_volume().await;
        stage.address = stage.make_index().await;
        Some(stage)
    }

    /// A folder of the node.
    async fn make_volume(&self) {
        let volume = json!({
            "metadata": {"name": self.name},
            "spec": {
                "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"],
                "storageClassName": "", "persistentVolumeReclaimPolicy": "Retain",
                "hostPath": {"path": format!("/tmp/{}", self.name), "type": "DirectoryOrCreate"},
                "claimRef": {"namespace": self.namespace, "name": self.name},
            },
        });
        let volume: PersistentVolume = serde_json::from_value(volume).expect("a volume");
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        volumes.create(&PostParams::default(), &volume).await.expect("a volume");
        let claim = json!({
            "metadata": {"name": self.name},
            "spec": {
                "accessModes": ["ReadWriteMany"], "storageClassName": "",
                "volumeName": self.name, "resources": {"requests": {"storage": "1Gi"}},
            },
        });
        let claim: PersistentVolumeClaim = serde_json::from_value(claim).expect("a claim");
        let claims: Api<PersistentVolumeClaim> =
            Api::namespaced(self.client.clone(), self.namespace);
        claims.create(&PostParams::default(), &claim).await.expect("a claim");
        let limit = Instant::now() + Duration::from_secs(60);
        let is_bound = |claim: PersistentVolumeClaim| {
            claim.status.and_then(|status| status.phase).is_some_and(|phase| phase == "Bound")
        };
        while !is_bound(claims.get(&self.name).await.expect("the claim")) {
            assert!(Instant::now() < limit, "the claim is not bound");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Starts the index and waits until it answers; gives its address.
    async fn make_index(&self) -> String {
        let pod = json!({
            "metadata": {"name": self.name, "labels": {"app": "toolbus-test-index", "test": self.name}},
            "spec": {
                "restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
                "containers": [{
                    "name": "index", "image": "python:3.12-slim", "imagePullPolicy": "IfNotPresent",
                    "command": ["python3", "-c", include_str!("index.py")],
                    "volumeMounts": [{"name": "volume", "mountPath": "/volume"}],
                }],
                "volumes": [{"name": "volume", "hostPath": {
                    "path": format!("/tmp/{}", self.name), "type": "DirectoryOrCreate",
                }}],
            },
        });
        let pod: Pod = serde_json::from_value(pod).expect("a pod");
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), INDEXES);
        pods.create(&PostParams::default(), &pod).await.expect("an index");
        let limit = Instant::now() + Duration::from_secs(60);
        while self.try_ask("asked").await.is_err() {
            assert!(Instant::now() < limit, "the index does not answer");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let pod = pods.get(&self.name).await.expect("the index");
        pod.status.and_then(|status| status.pod_ip).expect("an address")
    }

    async fn try_ask(&self, what: &str) -> Result<String, kube::Error> {
        let path = format!("/api/v1/namespaces/{INDEXES}/pods/{}:8080/proxy", self.name);
        let request = Request::new(path).get(what, &GetParams::default()).expect("a request");
        self.client.request_text(request).await
    }

    async fn ask(&self, what: &str) -> String {
        self.try_ask(what).await.expect("the index answers")
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
        PackagesSettings {
            index: Some(Secret::from(format!("http://{}:8080/simple", self.address))),
            index_labels: Some(format!("test={}", self.name)),
            index_port: 8080,
            claim: Some(self.name.clone()),
            timeout: TimeSpan::seconds(60),
            ..PackagesSettings::default()
        }
    }

    async fn runner(&self, packages: PackagesSettings) -> KubernetesRunner {
        let namespace = self.namespace.to_owned();
        let settings = KubernetesSettings { namespace, packages, ..settings() };
        let runner = KubernetesRunner::start(self.client.clone(), settings, 8).await;
        runner.expect("the cluster takes scripts")
    }

    async fn end(self, runner: &KubernetesRunner) {
        runner.idle().await;
        let now = DeleteParams::default().grace_period(0);
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), INDEXES);
        let claims: Api<PersistentVolumeClaim> =
            Api::namespaced(self.client.clone(), self.namespace);
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        pods.delete(&self.name, &now).await.expect("deleted");
        claims.delete(&self.name, &now).await.expect("deleted");
        volumes.delete(&self.name, &now).await.expect("deleted");
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
    let address = format!("http://{}:8081/simple", stage.address);
    let gone = PackagesSettings { index: Some(Secret::from(address)), ..stage.settings() };
    let gone = stage.runner(PackagesSettings { index_port: 8081, ..gone }).await;
    let refused = run(&gone, "print(1)", &["toolbus-good"]).await;
    let told = matches!(&refused, Err(Error::Packages(text)) if text.contains("the index cannot be asked"));
    assert!(told, "{refused:?}");
    for runner in [&runner, &hasty, &gone] {
        runner.idle().await;
    }
    let pods: Api<Pod> = Api::namespaced(stage.client.clone(), stage.namespace);
    let left = pods.list(&ListParams::default()).await.expect("pods").items;
    let left = left.iter().flat_map(|pod| &pod.spec).flat_map(|spec| spec.volumes.iter().flatten());
    let claims = left.filter_map(|volume| volume.persistent_volume_claim.as_ref());
    assert_eq!(claims.filter(|claim| claim.claim_name == stage.name).count(), 0);
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
    let nowhere = run(&runner, "print(1)", &["six"]).await;
    let told = matches!(&nowhere, Err(Error::Packages(text)) if text.contains("packages.index"));
    assert!(told, "{nowhere:?}");
}
