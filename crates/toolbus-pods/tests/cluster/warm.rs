//! Pods that wait for a script.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::time::Duration;

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use kube::api::{AttachParams, ListParams, LogParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use tokio::io::AsyncWriteExt as _;
use toolbus_config::TimeSpan;
use toolbus_pods::KubernetesRunner;
use toolbus_pods::settings::{KubernetesSettings, WarmSettings};
use toolbus_scripts::runner::{Ending, Error, Run, Runner, Script};
use toolbus_testkit::eventually;

use crate::fault_proxy::{Fate, FaultProxy};
use crate::once::Place;
use crate::support::{client, observer, run, script, settings, unwatched};

/// Long enough for a pod on a machine that has much else to do.
const SOON: Duration = Duration::from_secs(60);
/// Tells its user, of which each pod has one of its own, and whether another script was here
/// before.
const WHO: &str =
    "import os\nprint(os.getuid(), os.path.exists('/dev/shm/mark'))\nopen('/dev/shm/mark', 'w')";

/// Settings with a namespace of the test's own, so that its pods can be counted.
fn warm(name: &str, size: u16) -> KubernetesSettings {
    KubernetesSettings {
        namespace: format!("toolbus-test-warm-{name}"),
        warm: WarmSettings { size, ..WarmSettings::default() },
        ..settings()
    }
}

async fn start(settings: &KubernetesSettings) -> Option<KubernetesRunner> {
    let runner = KubernetesRunner::start(client().await?, settings.clone()).await;
    Some(runner.expect("the cluster takes scripts"))
}

/// Waits until it is so.
pub(crate) async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    eventually(SOON, async || if is_so().await { Ok(()) } else { Err("not yet") }).await;
}

/// Waits until as many pods wait as are to.
pub(crate) async fn full(runner: &KubernetesRunner) {
    until(async || runner.warm().waiting == usize::from(runner.warm().size)).await;
}

async fn pods(settings: &KubernetesSettings) -> Vec<Pod> {
    let client = observer().await.expect("a cluster");
    let pods: Api<Pod> = Api::namespaced(client, &settings.namespace);
    pods.list(&ListParams::default()).await.expect("pods").items
}

async fn names(settings: &KubernetesSettings) -> BTreeSet<String> {
    pods(settings).await.iter().map(ResourceExt::name_any).collect()
}

/// Runs as many scripts at once, each of which must be the first in its pod; gives the pods' users.
async fn burst(runner: &KubernetesRunner, count: usize) -> BTreeSet<String> {
    let outcomes = join_all((0..count).map(|_| run(runner, WHO))).await;
    let users = outcomes.into_iter().map(|outcome| {
        let text = outcome.output.text;
        text.strip_suffix(" False\n").unwrap_or_else(|| panic!("{text}")).to_owned()
    });
    users.collect()
}

#[tokio::test]
async fn a_burst_of_the_pools_size_is_all_hits_and_no_pod_runs_two_scripts() {
    let settings = warm("burst", 3);
    let Some(runner) = start(&settings).await else { return };
    full(&runner).await;
    let first = burst(&runner, 3).await;
    assert_eq!((runner.warm().hits, runner.warm().misses), (3, 0));
    // Made anew.
    full(&runner).await;
    let second = burst(&runner, 3).await;
    assert_eq!((runner.warm().hits, runner.warm().misses), (6, 0));
    assert_eq!(first.union(&second).count(), 6, "{first:?} {second:?}");
    runner.close().await;
    assert_eq!(names(&settings).await, BTreeSet::new());
}

/// While the script that has the last one runs, not after it. Scripts are shorter than the pause
/// between two looks at the pool, of which not all can be lucky.
#[tokio::test]
async fn the_next_pod_is_asked_for_right_after_a_claim() {
    let Some(mut place) = Place::new("refill").await else { return };
    place.settings.warm.size = 1;
    let fault_proxy = FaultProxy::new();
    let runner = place.runner(fault_proxy.client(None).await.expect("a cluster")).await;
    for round in 1..=6 {
        full(&runner).await;
        runner.idle().await;
        fault_proxy.changes();
        run(&runner, "import time\ntime.sleep(0.4)").await;
        runner.idle().await;
        let mut changes = fault_proxy.changes();
        // The claim and the deletion are made again where the cluster itself changed the pod, and the
        // next pod may be born, and eased, before this one is gone.
        let mut is_claimed = false;
        changes.retain(|change| change != "patch pods" || !mem::replace(&mut is_claimed, true));
        changes.dedup_by(|change, previous| change == previous && change == "delete pods");
        assert_eq!(changes, ["patch pods", "create pods", "delete pods"], "{round}");
        assert_eq!(runner.warm().hits, round);
    }
    runner.close().await;
}

#[tokio::test]
async fn more_scripts_than_pods_that_wait_get_pods_of_their_own() {
    let settings = warm("more", 1);
    let Some(runner) = start(&settings).await else { return };
    full(&runner).await;
    assert_eq!(burst(&runner, 3).await.len(), 3);
    let status = runner.warm();
    assert_eq!(status.hits + status.misses, 3);
    assert!(status.hits >= 1 && status.misses >= 1, "{status:?}");
    runner.close().await;
}

/// Each claim would have to bring it up to date. It is not begun again when the node tells of the
/// pod.
#[tokio::test]
async fn no_account_is_kept_of_who_set_the_fields_of_a_pod_that_waits() {
    let settings = warm("eased", 1);
    let Some(runner) = start(&settings).await else { return };
    full(&runner).await;
    let is_told_of = |pod: &Pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        phase == Some("Running")
    };
    until(async || pods(&settings).await.iter().all(is_told_of)).await;
    let waiting = pods(&settings).await.pop().expect("a pod");
    assert_eq!(waiting.managed_fields(), []);
    runner.close().await;
}

#[tokio::test]
async fn a_claimed_pod_is_its_calls_and_its_time_is_shortened() {
    let settings = warm("claim", 1);
    let Some(runner) = start(&settings).await else { return };
    full(&runner).await;
    let waiting = pods(&settings).await.pop().expect("a pod");
    let deadline = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.active_deadline_seconds);
    assert!(waiting.labels().contains_key("toolbus.dev/warm"));
    let name = waiting.name_any();
    let looking = async {
        let api: Api<Pod> = Api::namespaced(observer().await.expect("one"), &settings.namespace);
        let mut claimed = None;
        for _ in 0..600 {
            let pod = api.get(&name).await.expect("it is there");
            if pod.labels().contains_key("toolbus.dev/call") {
                claimed = Some(pod);
                break;
            }
            // sleeps: looks again, within a limit.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        claimed.expect("it is claimed")
    };
    let slow = "import time\ntime.sleep(5)\nprint('done')";
    let (outcome, claimed) = tokio::join!(run(&runner, slow), looking);
    assert_eq!(outcome.output.text, "done\n");
    assert!(!claimed.labels().contains_key("toolbus.dev/warm"));
    assert!(claimed.annotations().contains_key("rockbot.dev/tool-call-id"));
    assert!(deadline(&claimed) < deadline(&waiting) && deadline(&claimed) > Some(20));
    runner.close().await;
}

#[tokio::test]
async fn a_pod_that_dies_between_claim_and_script_is_made_good_by_a_cold_one() {
    let settings = warm("dies", 1);
    let Some(runner) = start(&settings).await else { return };
    full(&runner).await;
    let name = names(&settings).await.pop_first().expect("a pod");
    let client = client().await.expect("a cluster");
    let api: Api<Pod> = Api::namespaced(client, &settings.namespace);
    let parameters = AttachParams::default().stdin(true).stderr(false);
    let mut attached = api.attach(&name, &parameters).await.expect("attached");
    let mut stdin = attached.stdin().expect("standard input");
    // That its end was heard, which is when a first process ends.
    stdin.write_all(b"A\0\0\0\0").await.expect("sent");
    stdin.flush().await.expect("sent");
    let _ = attached.take_status().expect("a status").await;
    // The cluster hears of it a moment later: until then it can be claimed.
    let outcome = run(&runner, WHO).await;
    assert_eq!(outcome.ending, Ending::Exited(0));
    assert!(outcome.output.text.ends_with(" False\n"), "{outcome:?}");
    assert_eq!((runner.warm().hits, runner.warm().misses), (0, 1));
    full(&runner).await;
    runner.close().await;
}

/// The script is on its way to the pod while the cluster is asked for the claim.
#[tokio::test]
async fn a_script_does_not_start_in_a_pod_that_was_not_claimed_for_it() {
    let Some(mut place) = Place::new("unclaimed").await else { return };
    place.settings.warm.size = 1;
    let fault_proxy = FaultProxy::new();
    let runner = place.runner(fault_proxy.client(None).await.expect("a cluster")).await;
    full(&runner).await;
    fault_proxy.judge(|method, path| match method {
        _ if !path.contains("/pods/rockbot-script-warm-") => Fate::Pass,
        "PATCH" => Fate::Silent,
        // It stays, so that it can be asked.
        "DELETE" => Fate::Refused(500),
        _ => Fate::Pass,
    });
    let logs = async || {
        let names = place.all().await;
        // The cluster gives none before it has noticed that the container runs.
        let logs = names.iter().filter(|name| name.contains("-warm-")).map(async |name| {
            place.pods.logs(name, &LogParams::default()).await.unwrap_or_default()
        });
        join_all(logs).await
    };
    let has_taken = |logs: &[String]| logs.iter().any(|log| log.contains(" taken "));
    let has_started = |logs: &[String]| logs.iter().any(|log| log.contains(" started "));
    let looking = until(async || has_taken(&logs().await));
    let claiming = runner.run(script(WHO), unwatched());
    let (outcome, ()) = tokio::join!(claiming, looking);
    // The request may arrive at last, as far as anybody knows, and another manager find the pod.
    assert!(matches!(outcome, Err(Error::OutcomeUnknown(_))), "{outcome:?}");
    assert_eq!((runner.warm().hits, runner.warm().misses), (0, 1));
    let unclaimed = logs().await;
    assert!(has_taken(&unclaimed) && !has_started(&unclaimed), "{unclaimed:?}");
    assert_eq!(place.calls(), BTreeMap::new(), "no pod was made for it");

    // Where it was refused nobody finds the pod by this call, so the script gets another.
    full(&runner).await;
    fault_proxy.judge(|method, path| match method {
        "PATCH" | "DELETE" if path.contains("/pods/rockbot-script-warm-") => Fate::Refused(403),
        _ => Fate::Pass,
    });
    let outcome = run(&runner, WHO).await;
    assert!(outcome.output.text.ends_with(" False\n"), "{outcome:?}");
    assert_eq!((runner.warm().hits, runner.warm().misses), (0, 2));
    let unclaimed = logs().await;
    assert!(has_taken(&unclaimed) && !has_started(&unclaimed), "{unclaimed:?}");
    fault_proxy.judge(|_, _| Fate::Pass);
    runner.close().await;
    place.is_empty(SOON).await;
}

#[tokio::test]
async fn two_managers_have_pods_of_their_own() {
    let settings = warm("two", 2);
    let (Some(one), Some(other)) = (start(&settings).await, start(&settings).await) else { return };
    full(&one).await;
    full(&other).await;
    let (first, second) = tokio::join!(burst(&one, 2), burst(&other, 2));
    assert_eq!(first.union(&second).count(), 4, "{first:?} {second:?}");
    assert_eq!((one.warm().hits, other.warm().hits), (2, 2));
    full(&one).await;
    full(&other).await;
    one.close().await;
    // What is left is the other's, and of use.
    assert_eq!(names(&settings).await.len(), 2);
    assert_eq!(burst(&other, 2).await.len(), 2);
    assert_eq!(other.warm().hits, 4);
    other.close().await;
    assert_eq!(names(&settings).await, BTreeSet::new());
}

#[tokio::test]
async fn a_pod_that_has_waited_too_long_is_replaced_before_it_goes() {
    let mut settings = warm("age", 1);
    settings.warm.max_age = TimeSpan::seconds(3);
    let Some(runner) = start(&settings).await else { return };
    full(&runner).await;
    let first = names(&settings).await;
    until(async || {
        assert!(runner.warm().waiting >= 1, "none waits while the next is made");
        names(&settings).await.is_disjoint(&first)
    })
    .await;
    assert_eq!(burst(&runner, 1).await.len(), 1);
    assert_eq!(runner.warm().hits, 1);
    runner.close().await;
}

#[tokio::test]
async fn a_new_template_comes_while_a_script_of_the_old_one_runs() {
    let old_settings = warm("template", 1);
    let new_settings =
        KubernetesSettings { memory_limit: "200Mi".to_owned(), ..old_settings.clone() };
    let Some(old) = start(&old_settings).await else { return };
    full(&old).await;
    let changing = async {
        let new = start(&new_settings).await.expect("a runner");
        full(&new).await;
        until(async || templates(&new_settings).await.len() == 2).await;
        assert_eq!(burst(&new, 1).await.len(), 1);
        assert_eq!(new.warm().hits, 1);
        new
    };
    let slow = "import time\ntime.sleep(15)\nprint('done')";
    let in_flight = async {
        let outcome = run(&old, slow).await;
        assert_eq!((outcome.output.text.as_str(), old.warm().hits), ("done\n", 1));
        old.close().await;
    };
    let (new, ()) = tokio::join!(changing, in_flight);
    full(&new).await;
    assert_eq!(templates(&new_settings).await.len(), 1, "what waited under the old one is gone");
    new.close().await;
}

/// How the pods that wait are described.
async fn templates(settings: &KubernetesSettings) -> BTreeSet<String> {
    let label = |pod: &Pod| pod.labels().get("toolbus.dev/warm").cloned();
    pods(settings).await.iter().filter_map(label).collect()
}

#[tokio::test]
async fn pods_that_wait_make_room_for_a_script_that_none_of_them_suits() {
    let settings = warm("room", 2);
    let Some(client) = client().await else { return };
    // The namespace first.
    let nothing = KubernetesSettings { warm: WarmSettings::default(), ..settings.clone() };
    start(&nothing).await.expect("a runner").close().await;
    limit_pods(&client, &settings.namespace, 2).await;
    let runner = start(&settings).await.expect("a runner");
    full(&runner).await;
    let long = Script { timeout: Duration::from_secs(301), ..script(WHO) };
    let outcome = runner.run(long, Run::alone("long")).await.expect("there is room");
    assert!(outcome.output.text.ends_with(" False\n"), "{outcome:?}");
    assert_eq!((runner.warm().hits, runner.warm().misses), (0, 1));
    runner.close().await;
}

async fn limit_pods(client: &Client, namespace: &str, count: u32) {
    let quotas: Api<ResourceQuota> = Api::namespaced(client.clone(), namespace);
    let quota = serde_json::json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"},
        "spec": {"hard": {"pods": count.to_string()}},
    });
    let apply = PatchParams::apply("toolbus-test");
    quotas.patch("few", &apply, &Patch::Apply(&quota)).await.expect("a quota");
    // Counted by then.
    until(async || {
        let quota = quotas.get("few").await.expect("a quota");
        quota.status.and_then(|status| status.hard).is_some()
    })
    .await;
}

#[tokio::test]
async fn a_script_that_is_cancelled_while_it_is_handed_over_leaves_no_pod() {
    let settings = warm("cancelled", 1);
    let Some(runner) = start(&settings).await else { return };
    full(&runner).await;
    let run = unwatched();
    run.cancelled.cancel();
    let outcome = runner.run(script(WHO), run).await;
    assert!(outcome.is_err(), "{outcome:?}");
    full(&runner).await;
    runner.close().await;
    assert_eq!(names(&settings).await, BTreeSet::new());
}
