//! What the tests share: the cluster, a runner in a namespace of its own, and short ways to run
//! scripts.

use std::path::PathBuf;
use std::time::Duration;

use http::{Method, Request};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use toolbus_pods::KubernetesRunner;
use toolbus_pods::settings::KubernetesSettings;
use toolbus_scripts::runner::{Ending, Outcome, Run, Runner, Script};

use crate::proxy::Proxy;

/// The tests' namespace. It stays between runs; the pods in it do not.
pub(crate) const NAMESPACE: &str = "toolbus-test-scripts";
/// How often an observer asks one question.
const ASKED_MAX: usize = 3;

/// How the cluster is reached. `None` skips the test, unless real parts are required.
#[allow(clippy::print_stderr)]
pub(crate) async fn config() -> Option<Config> {
    let Some(path) = std::env::var_os("TOOLBUS_TEST_KUBECONFIG").map(PathBuf::from) else {
        let required = std::env::var_os("TOOLBUS_REQUIRE_REAL").is_some_and(|value| value == "1");
        assert!(!required, "TOOLBUS_TEST_KUBECONFIG names no cluster, though one is required");
        eprintln!("skipped: TOOLBUS_TEST_KUBECONFIG names no cluster");
        return None;
    };
    let kubeconfig = Kubeconfig::read_from(&path).expect("the kubeconfig can be read");
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    Some(config.expect("a configuration"))
}

impl Proxy {
    /// One in front of the tests' cluster, with a client that goes through it. `None` without one.
    pub(crate) async fn to_cluster() -> Option<(Self, Client)> {
        let (proxy, through) = Self::in_front_of(config().await?).await;
        Some((proxy, toolbus_pods::connect(through).expect("a client")))
    }
}

pub(crate) async fn client() -> Option<Client> {
    Some(toolbus_pods::connect(config().await?).expect("a client"))
}

pub(crate) fn settings() -> KubernetesSettings {
    KubernetesSettings {
        namespace: NAMESPACE.to_owned(),
        prepare_namespace: true,
        // Two processors share the tests' node with the cluster itself.
        cpu_request: "10m".to_owned(),
        ..KubernetesSettings::default()
    }
}

/// A client for tests to look with, which asks again where the answer is lost: an API server may
/// end a connection in the moment that a question is on its way.
pub(crate) async fn observer() -> Option<Client> {
    let client = client().await?;
    let namespace = client.default_namespace().to_owned();
    let asking = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move {
            if request.method() != Method::GET {
                return client.send(request).await;
            }
            let (question, _) = request.into_parts();
            let mut asked = 0;
            loop {
                asked += 1;
                let question = Request::from_parts(question.clone(), Body::empty());
                let answer = client.send(question).await;
                if answer.is_ok() || asked == ASKED_MAX {
                    return answer;
                }
            }
        }
    });
    Some(Client::new(asking, namespace))
}

/// A runner with the tests' settings.
pub(crate) async fn runner() -> Option<KubernetesRunner> {
    let runner = KubernetesRunner::start(client().await?, settings()).await;
    Some(runner.expect("the cluster takes scripts"))
}

pub(crate) fn script(source: &str) -> Script {
    Script {
        source: source.to_owned(),
        input: String::new(),
        timeout: Duration::from_secs(20),
        packages: Vec::new(),
        files: Vec::new(),
        prelude: None,
    }
}

pub(crate) fn unwatched() -> Run {
    Run::alone("call_AbC/ü ")
}

pub(crate) async fn run(runner: &impl Runner, source: &str) -> Outcome {
    runner.run(script(source), unwatched()).await.expect("the script runs")
}

/// Runs a script and checks its merged output and its ending.
pub(crate) async fn check(runner: &impl Runner, source: &str, output: &str, ending: Ending) {
    let outcome = run(runner, source).await;
    assert_eq!((outcome.output.text.as_str(), &outcome.ending), (output, &ending), "{source}");
}

/// Runs a plain script by a manager of its own, in another namespace than most tests have: whatever
/// goes wrong beside it, it has its outcome.
pub(crate) async fn bystander() {
    let runner = runner().await.expect("a cluster");
    check(&runner, "print('undisturbed')", "undisturbed\n", Ending::Exited(0)).await;
    runner.idle().await;
}

/// The pods of calls with this id.
pub(crate) async fn pods_of(client: &Client, call_id: &str) -> Vec<Pod> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let pods = pods.list(&ListParams::default()).await.expect("pods").items;
    let is_of = |pod: &Pod| {
        let annotations = pod.metadata.annotations.as_ref();
        annotations
            .and_then(|all| all.get("rockbot.dev/tool-call-id"))
            .is_some_and(|id| id == call_id)
    };
    pods.into_iter().filter(is_of).collect()
}
