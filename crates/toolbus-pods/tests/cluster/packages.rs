//! Packages in pods: from an index in the cluster, onto a volume of the node.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, LogParams};
use kube::{Api, Client, ResourceExt as _};
use tokio::task::JoinSet;
use toolbus_config::{ByteSize, Secret, TimeSpan};
use toolbus_pods::KubernetesRunner;
use toolbus_pods::settings::{KubernetesSettings, PackagesSettings};
use toolbus_scripts::conformance::honest;
use toolbus_scripts::runner::{CallKey, Ending, Error, Outcome, Run, Runner, Script};
use toolbus_testkit::eventually;

use crate::begun::{dismiss, greet};
use crate::fault_proxy::{Fate, FaultProxy};
use crate::index::{IMAGE, Index};
use crate::once::{LIMIT, Place, same};
use crate::support::{client, observer, script, settings};

/// An index of the test's own, and what was seen there.
struct Stage {
    client: Client,
    index: Index,
}

impl Stage {
    async fn start(namespace: &str) -> Option<Self> {
        let client = observer().await?;
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
        let runner = KubernetesRunner::start(client().await.expect("a cluster"), settings).await;
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
    let again = a_call_that_comes_again_unbegun_has_its_packages(&stage, (source, expected));
    Box::pin(again).await;

    // What was not asked for lately makes room for what is new; what was stays.
    stage.ask("age").await;
    let tiny = PackagesSettings { cache_bytes: ByteSize::of_bytes(1), ..stage.settings() };
    let tiny = stage.runner(tiny).await;
    let other = "import toolbus_other\nprint(toolbus_other.value)";
    let outcome = run(&tiny, other, &["toolbus-other"]).await.expect("it runs");
    assert_eq!(outcome.output.text, "another\n");
    let left = stage.volume().await;
    assert!(left.len() == 1 && left != sets, "{left:?}");
    let refused = run(&tiny, source, &["toolbus-good"]).await.expect_err("there is no room");
    assert!(format!("{refused:?}").contains("used a short while ago"), "{refused:?}");
    assert_eq!(stage.volume().await, left);
    tiny.idle().await;
    stage.end(&runner).await;
}

/// Two managers of which neither gets through to the call's pod, which ends without having begun.
async fn a_call_that_comes_again_unbegun_has_its_packages(
    stage: &Stage,
    (source, expected): (&str, &str),
) {
    let deaf = |_: &str, path: &str| {
        let is_script = path.contains("/rockbot-script-") && path.ends_with("/attach");
        if is_script { Fate::Silent } else { Fate::Pass }
    };
    let namespace = stage.index.namespace.clone();
    let pods: Api<Pod> = Api::namespaced(stage.client.clone(), &namespace);
    let settings = KubernetesSettings { namespace, packages: stage.settings(), ..settings() };
    let start = async |fault_proxy: &FaultProxy| {
        fault_proxy.judge(deaf);
        let client = fault_proxy.client(None).await.expect("a cluster");
        KubernetesRunner::start(client, settings.clone()).await.expect("a runner")
    };
    let (one, other) = (FaultProxy::new(), FaultProxy::new());
    let (first, second) = (start(&one).await, start(&other).await);
    // Another than that of a run before this one, of which something may be left.
    let call = Run::alone(&CallKey::unique().to_string());
    let call_id = call.call_id.clone();
    let again = same(&call, true);
    let wanted = Script { packages: vec!["toolbus-good".to_owned()], ..script(source) };
    let (mut trying, lost) = (JoinSet::new(), wanted.clone());
    trying.spawn(async move { drop(first.run(lost, call).await) });
    let of_call = async || {
        let all = pods.list(&ListParams::default()).await.expect("pods").items;
        let id = |pod: &Pod| pod.annotations().get("rockbot.dev/tool-call-id").cloned();
        all.into_iter().find(|pod| id(pod).as_ref() == Some(&call_id)).ok_or("no pod")
    };
    let pod = eventually(LIMIT, async || of_call().await).await;
    greet(&pods, &pod).await;
    let manager = |pod: &Pod| pod.labels().get("toolbus.dev/manager").cloned();
    let ending = async {
        eventually(LIMIT, async || match of_call().await {
            Ok(seen) if manager(&seen) != manager(&pod) => Ok(()),
            Ok(_) => Err("it is the first one's"),
            Err(error) => Err(error),
        })
        .await;
        dismiss(&pods, &pod.name_any()).await;
        other.judge(|_, _| Fate::Pass);
    };
    let (outcome, ()) = tokio::join!(second.run(wanted, again), ending);
    assert_eq!(outcome.expect("it runs").output.text, expected);
    second.idle().await;
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
    // A wheel that requires a source by its address, which pip fetches and would build.
    let lured = run(&runner, "print(1)", &["toolbus-lure"]).await;
    let Err(Error::Packages(text)) = &lured else { panic!("{lured:?}") };
    assert!(text.contains("pip install failed") && !text.contains("was built"), "{text}");
    assert_eq!(stage.asked().await.get("toolbus-sdist-1.0.tar.gz"), Some(&1), "{text}");
    check("toolbus-hostile", &["pip install failed", "outside the target directory"]).await;
    check("toolbus-huge", &["pip install failed"]).await;
    check("toolbus-busy", &["429"]).await;
    assert_eq!(stage.volume().await, [""; 0]);
    let pods: Api<Pod> = Api::namespaced(stage.client.clone(), &stage.index.namespace);
    runner.idle().await;
    let losing = async {
        let of_packages = ListParams::default().labels("app=toolbus-packages");
        let name = eventually(LIMIT, async || {
            for pod in pods.list(&of_packages).await.expect("pods").items {
                let log = pods.logs(&pod.name_any(), &LogParams::default()).await;
                if log.is_ok_and(|log| log.contains(" started ")) {
                    return Ok(pod.name_any());
                }
            }
            Err("nothing is being installed")
        });
        let now = DeleteParams::default().grace_period(0);
        pods.delete(&name.await, &now).await.expect("deleted");
    };
    let (lost, ()) = tokio::join!(run(&runner, "print(1)", &["toolbus-slow"]), losing);
    let told = matches!(&lost, Err(Error::Packages(text)) if text.starts_with("the packages could not be"));
    assert!(told, "{lost:?}");
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
    let left = pods.list(&ListParams::default()).await.expect("pods").items;
    let left = left.iter().flat_map(|pod| &pod.spec).flat_map(|spec| spec.volumes.iter().flatten());
    let claims = left.filter_map(|volume| volume.persistent_volume_claim.as_ref());
    assert_eq!(claims.filter(|claim| claim.claim_name == stage.index.name).count(), 0);
    stage.end(&runner).await;
}

/// The index is the same, and where it is; only the policy takes others for it.
#[tokio::test]
async fn an_index_that_the_policy_does_not_name_is_out_of_reach() {
    let Some(stage) = Stage::start("toolbus-test-packages-closed").await else { return };
    let labels = Some("test=another".to_owned());
    let closed = PackagesSettings { index_labels: labels, ..stage.settings() };
    let runner = stage.runner(closed).await;
    let refused = run(&runner, "print(1)", &["toolbus-good"]).await;
    let Err(Error::Packages(text)) = &refused else { panic!("{refused:?}") };
    assert!(text.contains("the index cannot be asked for toolbus-good"), "{text}");
    assert_eq!((stage.asked().await.len(), stage.volume().await.len()), (0, 0));
    runner.idle().await;

    let runner = stage.runner(stage.settings()).await;
    let outcome = run(&runner, "print(1)", &["toolbus-good"]).await;
    assert_eq!(outcome.expect("it runs").output.text, "1\n");
    stage.end(&runner).await;
}

#[tokio::test]
async fn no_pod_is_made_for_what_is_no_requirement() {
    let Some(place) = Place::new("no-requirement").await else { return };
    let runner = place.runner(client().await.expect("a cluster")).await;
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
    // Whatever was made before this one was seen before it.
    run(&runner, "print(1)", &[]).await.expect("it runs");
    eventually(LIMIT, async || if place.ever() > 0 { Ok(()) } else { Err("none was seen") }).await;
    assert_eq!(place.ever(), 1);
    runner.idle().await;
}
