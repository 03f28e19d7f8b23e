//! One call, one script, one pod: whatever becomes of its manager.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, LogParams, PostParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt};
use parking_lot::Mutex;
use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use toolbus_pods::settings::KubernetesSettings;
use toolbus_pods::{KubernetesRunner, PolicyStatus};
use toolbus_scripts::runner::{Ending, Error, Run, Runner, Script};
use toolbus_testkit::eventually;

use crate::fault_proxy::{Fate, FaultProxy};
use crate::support::{client, observer, script, settings};

/// Longer than anything here takes on a machine that is busy.
pub(crate) const LIMIT: Duration = Duration::from_secs(90);

/// What the pods that probe the network policy are called, which no call has to do with.
const PROBE: &str = "rockbot-probe-";

/// All pods that ever were, and by the call's id those that were of one; apart from them the
/// probes.
#[derive(Default)]
struct Ever {
    pods: BTreeSet<String>,
    calls: BTreeMap<String, BTreeSet<String>>,
    probes: BTreeSet<String>,
}

/// A namespace of a test's own, and all pods that ever were in it.
pub(crate) struct Place {
    pub(crate) settings: KubernetesSettings,
    pub(crate) pods: Api<Pod>,
    pub(crate) leases: Api<Lease>,
    ever: Arc<Mutex<Ever>>,
    _watching: JoinSet<()>,
}

impl Place {
    /// An empty one. `None` without a cluster.
    pub(crate) async fn new(name: &str) -> Option<Self> {
        let (client, observer) = (client().await?, observer().await?);
        let settings =
            KubernetesSettings { namespace: format!("toolbus-test-{name}"), ..settings() };
        let pods: Api<Pod> = Api::namespaced(observer.clone(), &settings.namespace);
        let here = KubernetesRunner::start(client, settings.clone()).await;
        here.expect("a namespace").leave().await.expect("left");
        let all = ListParams::default();
        let now = DeleteParams::default().grace_period(0);
        pods.delete_collection(&now, &all).await.expect("an empty namespace");
        let leases: Api<Lease> = Api::namespaced(observer, &settings.namespace);
        leases.delete_collection(&now, &all).await.expect("no managers");
        let ever = Arc::new(Mutex::new(Ever::default()));
        let mut watching = JoinSet::new();
        let (seen, of) = (Arc::clone(&ever), pods.clone());
        watching.spawn(async move {
            let stream = watcher(of, watcher::Config::default()).default_backoff();
            let mut stream = pin!(stream.touched_objects());
            while let Some(pod) = stream.next().await {
                // A watch that broke is begun again.
                let Ok(pod) = pod else { continue };
                let uid = pod.uid().expect("a uid");
                let mut seen = seen.lock();
                if pod.name_any().starts_with(PROBE) {
                    seen.probes.insert(uid);
                    continue;
                }
                if let Some(call) = pod.annotations().get("rockbot.dev/tool-call-id") {
                    seen.calls.entry(call.clone()).or_default().insert(uid.clone());
                }
                seen.pods.insert(uid);
            }
        });
        let place = Self { settings, pods, leases, ever, _watching: watching };
        place.is_empty(LIMIT).await;
        *place.ever.lock() = Ever::default();
        Some(place)
    }

    /// A manager's runner, in this process.
    pub(crate) async fn runner(&self, client: Client) -> KubernetesRunner {
        KubernetesRunner::start(client, self.settings.clone()).await.expect("a runner")
    }

    /// Waits until a pod runs a script, and gives it.
    pub(crate) async fn started(&self) -> Pod {
        eventually(LIMIT, async || {
            let list = self.pods.list(&ListParams::default()).await.map_err(|e| e.to_string())?;
            for pod in list.items {
                let log = self.pods.logs(&pod.name_any(), &LogParams::default()).await;
                if log.is_ok_and(|log| log.contains(" started ")) {
                    return Ok(pod);
                }
            }
            Err("no script runs".to_owned())
        })
        .await
    }

    /// The names of the pods that there are for scripts.
    pub(crate) async fn of_scripts(&self) -> Vec<String> {
        self.all().await.into_iter().filter(|name| !name.starts_with(PROBE)).collect()
    }

    /// The names of all pods that there are.
    pub(crate) async fn all(&self) -> Vec<String> {
        let list = self.pods.list(&ListParams::default()).await.expect("pods");
        list.items.iter().map(ResourceExt::name_any).collect()
    }

    /// Waits until no pod is left.
    pub(crate) async fn is_empty(&self, limit: Duration) {
        self.is_down_to(0, limit).await;
    }

    /// Waits until there are no more than so many pods.
    pub(crate) async fn is_down_to(&self, count: usize, limit: Duration) {
        eventually(limit, async || {
            let names = self.all().await;
            if names.len() <= count { Ok(()) } else { Err(names) }
        })
        .await;
    }

    /// How many pods there ever were, probes of the network policy not counted.
    pub(crate) fn ever(&self) -> usize {
        self.ever.lock().pods.len()
    }

    /// How many probes of the network policy there ever were.
    pub(crate) fn probes(&self) -> usize {
        self.ever.lock().probes.len()
    }

    /// The pods that calls ever had, by the call's id.
    pub(crate) fn calls(&self) -> BTreeMap<String, BTreeSet<String>> {
        self.ever.lock().calls.clone()
    }

    /// How the pods that wait are described, each of them.
    pub(crate) async fn templates(&self) -> Vec<String> {
        let list = self.pods.list(&ListParams::default()).await.expect("pods");
        let label = |pod: &Pod| pod.labels().get("toolbus.dev/warm").cloned();
        list.items.iter().filter_map(label).collect()
    }
}

/// A call that is the same wherever it runs.
pub(crate) fn same(run: &Run, redelivered: bool) -> Run {
    Run { key: run.key, redelivered, ..Run::alone(&run.call_id) }
}

#[tokio::test]
async fn a_call_that_comes_again_gets_the_outcome_of_its_first_pod() {
    let Some(place) = Place::new("again").await else { return };
    let client = client().await.expect("a cluster");
    let (first, second) = (place.runner(client.clone()).await, place.runner(client).await);
    let run = Run::alone("call_1");
    let (again, twice) = (same(&run, true), same(&run, false));
    let source = "import time\nprint('one')\ntime.sleep(6)\nprint('two')\nexit(3)";
    // What one hears that takes over: all of it, as it comes.
    let heard: Arc<Mutex<Vec<(Instant, String)>>> = Arc::default();
    let hearing = Arc::clone(&heard);
    let live = move |_, text: &str| hearing.lock().push((Instant::now(), text.to_owned()));
    let again = Run { live: Some(Arc::new(live)), ..again };
    let others = async {
        place.started().await;
        // Sent twice, and redelivered.
        let twice = second.run(script(source), twice);
        let again = async {
            // sleeps: the other is sent while the first runs.
            tokio::time::sleep(Duration::from_secs(1)).await;
            second.run(script(source), again).await
        };
        tokio::join!(twice, again)
    };
    let (outcome, (twice, again)) = tokio::join!(first.run(script(source), run), others);
    for outcome in [outcome, twice, again] {
        let outcome = outcome.expect("an outcome");
        assert_eq!(outcome.output.text, "one\ntwo\n");
        assert_eq!(outcome.ending, Ending::Exited(3));
    }
    let heard = std::mem::take(&mut *heard.lock());
    let texts: Vec<&str> = heard.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts, ["one\n", "two\n"]);
    assert!(heard[1].0 - heard[0].0 > Duration::from_secs(1), "it was not live");
    first.idle().await;
    second.idle().await;
    place.is_empty(LIMIT).await;
    assert_eq!(place.ever(), 1);
}

#[tokio::test]
async fn a_call_that_comes_again_and_has_no_pod_is_not_run() {
    let Some(place) = Place::new("gone").await else { return };
    let runner = place.runner(client().await.expect("a cluster")).await;
    let run = Run { redelivered: true, ..Run::alone("call_1") };
    let outcome = runner.run(script("print(1)"), run).await;
    assert!(matches!(outcome, Err(Error::OutcomeUnknown(_))), "{outcome:?}");
    assert_eq!(place.ever(), 0);
}

/// Two managers, of which the first has a call and never reaches its pod, for as long as what it
/// tries is held. The call is given as it comes again.
pub(crate) async fn unreached(place: &Place) -> (JoinSet<()>, KubernetesRunner, Run) {
    let fault_proxy = FaultProxy::new();
    fault_proxy.judge(|_, path| if path.ends_with("/attach") { Fate::Silent } else { Fate::Pass });
    let first = place.runner(fault_proxy.client(None).await.expect("a cluster")).await;
    let second = place.runner(client().await.expect("a cluster")).await;
    let run = Run::alone("call_1");
    let again = same(&run, true);
    let mut trying = JoinSet::new();
    trying.spawn(async move { drop(first.run(script("print('ran')"), run).await) });
    (trying, second, again)
}

#[tokio::test]
async fn a_pod_whose_script_was_not_handed_over_gets_it_from_the_next_manager() {
    let Some(place) = Place::new("handed").await else { return };
    let (_trying, second, again) = unreached(&place).await;
    eventually(LIMIT, async || if place.ever() == 1 { Ok(()) } else { Err("no pod yet") }).await;
    let outcome = second.run(script("print('ran')"), again).await.expect("an outcome");
    assert_eq!(outcome.output.text, "ran\n");
    second.idle().await;
    place.is_empty(LIMIT).await;
    assert_eq!(place.ever(), 1);
}

#[tokio::test]
async fn a_pod_that_is_made_after_its_call_was_cancelled_is_deleted() {
    let Some(place) = Place::new("late").await else { return };
    let fault_proxy = FaultProxy::new();
    let runner = place.runner(fault_proxy.client(None).await.expect("a cluster")).await;
    for fate in [Fate::Late(Duration::from_secs(8)), Fate::Lost] {
        fault_proxy.judge(move |method, path| {
            if method == "POST" && path.ends_with("/pods") { fate } else { Fate::Pass }
        });
        let before = place.ever();
        let cancelled = CancellationToken::new();
        let run = Run { cancelled: cancelled.clone(), ..Run::alone("call_1") };
        let cancelling = async {
            let made = async || if place.ever() > before { Ok(()) } else { Err("no pod yet") };
            eventually(LIMIT, made).await;
            cancelled.cancel();
            Instant::now()
        };
        let (outcome, at) = tokio::join!(runner.run(script("print(1)"), run), cancelling);
        assert_eq!(outcome, Err(Error::Cancelled));
        assert!(at.elapsed() < Duration::from_secs(6), "{:?}", at.elapsed());
        runner.idle().await;
        place.is_empty(LIMIT).await;
    }
}

#[tokio::test]
async fn a_pod_that_cannot_be_deleted_for_a_while_is_deleted_later() {
    let Some(place) = Place::new("stray").await else { return };
    let fault_proxy = FaultProxy::new();
    let runner = place.runner(fault_proxy.client(None).await.expect("a cluster")).await;
    fault_proxy.judge(|method, _| if method == "DELETE" { Fate::Refused(500) } else { Fate::Pass });
    runner.run(script("print(1)"), Run::alone("call_1")).await.expect("an outcome");
    // The manager itself has given up.
    runner.idle().await;
    assert_eq!(place.all().await.len(), 1);
    fault_proxy.judge(|_, _| Fate::Pass);
    place.is_empty(LIMIT).await;
}

#[tokio::test]
async fn what_a_dead_manager_left_is_deleted_and_what_a_living_one_has_is_not() {
    let Some(place) = Place::new("dead").await else { return };
    let client = client().await.expect("a cluster");
    let (living, other) = (place.runner(client.clone()).await, place.runner(client).await);
    let left = json!({
        "metadata": {"name": "left", "labels": {
            "app.kubernetes.io/managed-by": "toolbus-scripts-manager",
            "toolbus.dev/manager": "dead",
        }},
        "spec": {
            "restartPolicy": "Never",
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{
                "name": "script", "image": place.settings.image, "command": ["sleep", "600"],
                "securityContext": {"allowPrivilegeEscalation": false, "runAsUser": 1000,
                                    "capabilities": {"drop": ["ALL"]}},
            }],
        },
    });
    let left: Pod = serde_json::from_value(left).expect("a pod");
    place.pods.create(&PostParams::default(), &left).await.expect("a pod");
    let start = Instant::now();
    let mut gone = None;
    let long = Script {
        timeout: Duration::from_secs(60),
        ..script("import time\ntime.sleep(40)\nprint('lived')")
    };
    let running = living.run(long, Run::alone("call_1"));
    let looking = eventually(LIMIT, async || match place.pods.get_opt("left").await {
        Ok(None) => {
            gone = Some(start.elapsed());
            Ok(())
        }
        _ => Err("it is there"),
    });
    let (outcome, ()) = tokio::join!(running, looking);
    assert_eq!(outcome.expect("an outcome").output.text, "lived\n");
    assert!(gone.expect("it is gone") < Duration::from_secs(60), "{gone:?}");
    living.idle().await;
    other.idle().await;
}

/// What the manager does to the cluster, all told, is what its Role allows, and the other way
/// round.
#[tokio::test]
async fn the_role_is_what_is_used() {
    let Some(place) = Place::new("role").await else { return };
    let namespace = place.settings.namespace.clone();
    let admin = client().await.expect("a cluster");
    let role: serde_json::Value =
        serde_json::from_str(include_str!("../../src/role.json")).expect("a Role");
    grant(&admin, &namespace, &role).await;
    let user = format!("system:serviceaccount:{namespace}:scripts-manager");
    let fault_proxy = FaultProxy::new();
    let settings = KubernetesSettings { prepare_namespace: false, ..place.settings.clone() };
    let start = async || {
        let client = fault_proxy.client(Some(&user)).await.expect("a cluster");
        KubernetesRunner::start(client, settings.clone()).await
    };
    // A role takes a moment to be known.
    let first = eventually(LIMIT, async || start().await.map_err(|e| e.to_string())).await;
    let second = start().await.expect("a runner");
    first.probe_policy();
    // A pod that is run, one that is adopted, and one whose making had to be asked for.
    let run = Run::alone("call_1");
    let again = same(&run, true);
    let source = "import time\ntime.sleep(3)\nprint('done')";
    let adopting = async {
        place.started().await;
        second.run(script(source), again).await
    };
    let (one, two) = tokio::join!(first.run(script(source), run), adopting);
    assert_eq!(one.expect("an outcome").output.text, "done\n");
    assert_eq!(two.expect("an outcome").output.text, "done\n");
    fault_proxy.judge(|method, path| {
        if method == "POST" && path.ends_with("/pods") { Fate::Lost } else { Fate::Pass }
    });
    let stop = CancellationToken::new();
    let run = Run { cancelled: stop.clone(), ..Run::alone("call_2") };
    let stopping = async {
        eventually(LIMIT, async || if place.ever() == 2 { Ok(()) } else { Err("no pod") }).await;
        stop.cancel();
    };
    let _ = tokio::join!(first.run(script(source), run), stopping);
    eventually(LIMIT, async || match first.policy() {
        PolicyStatus::Enforced => Ok(()),
        other => Err(other),
    })
    .await;
    first.idle().await;
    second.idle().await;
    first.leave().await.expect("left");
    second.leave().await.expect("left");

    let mut allowed = BTreeSet::new();
    for rule in role["rules"].as_array().expect("rules") {
        let group = rule["apiGroups"][0].as_str().expect("a group");
        let group = if group.is_empty() { String::new() } else { format!(".{group}") };
        let resource = rule["resources"][0].as_str().expect("a resource");
        let (resource, subresource) = match resource.split_once('/') {
            Some((resource, subresource)) => (resource, format!("/{subresource}")),
            None => (resource, String::new()),
        };
        for verb in rule["verbs"].as_array().expect("verbs") {
            let verb = verb.as_str().expect("a verb");
            allowed.insert(format!("{verb} {resource}{group}{subresource}"));
        }
    }
    let mut used = fault_proxy.calls();
    // Everybody may ask what he may do.
    used.retain(|call| !call.starts_with("create selfsubject"));
    // Attaching is asked for as one, and checked as the other, by how new the cluster is.
    if used.contains("get pods/attach") {
        used.insert("create pods/attach".to_owned());
    }
    assert_eq!(used, allowed);
}

/// Gives the service account `scripts-manager` these rights in a namespace, and no others.
async fn grant(client: &Client, namespace: &str, role: &serde_json::Value) {
    use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
    use kube::api::{Patch, PatchParams};

    let apply = PatchParams::apply("toolbus-test").force();
    let mut role = role.clone();
    role["metadata"]["namespace"] = json!(namespace);
    let roles: Api<Role> = Api::namespaced(client.clone(), namespace);
    roles.patch("scripts-manager", &apply, &Patch::Apply(&role)).await.expect("a Role");
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "scripts-manager"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "scripts-manager"},
        "subjects": [{"kind": "ServiceAccount", "name": "scripts-manager", "namespace": namespace}],
    });
    let bindings: Api<RoleBinding> = Api::namespaced(client.clone(), namespace);
    bindings.patch("scripts-manager", &apply, &Patch::Apply(&binding)).await.expect("a binding");
}
