//! Pods and streams that are lost between the handing over of a script and its start.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{AttachParams, AttachedProcess, LogParams};
use kube::{Api, ResourceExt as _};
use tokio::io::AsyncWriteExt as _;
use toolbus_pods::KubernetesRunner;
use toolbus_pods::settings::{KubernetesSettings, WarmSettings};
use toolbus_scripts::runner::{Ending, Error, Run, Runner};
use toolbus_testkit::eventually;

use crate::fault_proxy::{Fate, FaultProxy};
use crate::once::{LIMIT, Place, same, unreached};
use crate::proxy::{Proxy, Way};
use crate::support::{client, run, script};
use crate::warm::{full, until};

/// Tells its user, of which each pod has one of its own.
const WHO: &str = "import os\nprint(os.getuid())";
/// The label of a pod's manager.
const MANAGER: &str = "toolbus.dev/manager";
/// What a busy machine may be too late for is tried again.
const ATTEMPTS: u32 = 5;

/// A manager with one warm pod, whose streams go through a proxy.
struct Stage {
    place: Place,
    proxy: Proxy,
    fault_proxy: FaultProxy,
    runner: KubernetesRunner,
}

impl Stage {
    async fn new(name: &str) -> Option<Self> {
        let (proxy, attaching) = Proxy::to_cluster().await?;
        let mut place = Place::new(name).await?;
        place.settings.warm.size = 1;
        let fault_proxy = FaultProxy::attaching_by(attaching);
        let runner = place.runner(fault_proxy.client(None).await.expect("a cluster")).await;
        Some(Self { place, proxy, fault_proxy, runner })
    }

    /// The pod that waits: its name and its user.
    async fn waiting(&self) -> (String, i64) {
        full(&self.runner).await;
        self.place.is_down_to(1, LIMIT).await;
        let name = self.place.all().await.pop().expect("a pod");
        let spec = self.place.pods.get(&name).await.expect("a pod").spec.expect("a spec");
        (name, spec.security_context.and_then(|context| context.run_as_user).expect("a user"))
    }

    /// Waits until the pod has said that it has a script, which the manager has not heard. Not so
    /// when the manager has given it up before that was seen.
    async fn has_script(&self, name: &str) -> bool {
        let parameters = LogParams::default();
        eventually(LIMIT, async || match self.place.pods.logs(name, &parameters).await {
            Ok(log) if log.contains(" taken ") => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
            other => Err(other.map_err(|error| error.to_string())),
        })
        .await
    }

    /// Ends the first process of the pod once it has a script that its manager has not heard of.
    async fn kill(&self, name: &str, streams: &mut AttachedProcess) {
        if self.has_script(name).await {
            // That its end was heard, which is when a first process ends.
            let mut stdin = streams.stdin().expect("standard input");
            stdin.write_all(b"A\0\0\0\0").await.expect("sent");
            stdin.flush().await.expect("sent");
            let _ = streams.take_status().expect("a status").await;
        }
        self.proxy.set(Way::Open);
    }

    async fn end(self) {
        self.runner.close().await;
        self.place.is_empty(LIMIT).await;
    }
}

async fn attached(pods: &Api<Pod>, name: &str) -> Result<AttachedProcess, String> {
    let parameters = AttachParams::default().stdin(true).stderr(false);
    pods.attach(name, &parameters).await.map_err(|error| error.to_string())
}

/// Says this to the first process of a pod, until it has answered a greeting.
async fn say(pods: &Api<Pod>, name: &str, what: &[u8]) {
    eventually(LIMIT, async || {
        let mut streams = attached(pods, name).await?;
        let mut stdin = streams.stdin().expect("standard input");
        let _ = stdin.write_all(what).await;
        let _ = stdin.flush().await;
        let _ =
            tokio::time::timeout(Duration::from_secs(2), streams.take_status().expect("one")).await;
        let log = pods.logs(name, &LogParams::default()).await.unwrap_or_default();
        if log.contains(" ready ") { Ok(()) } else { Err(log) }
    })
    .await;
}

/// Greets the first process of a pod whose manager does not get through to it.
pub(crate) async fn greet(pods: &Api<Pod>, pod: &Pod) {
    let nonce = &pod.annotations()["toolbus.dev/nonce"];
    let mut greeting = vec![b'H'];
    greeting.extend_from_slice(&u32::try_from(nonce.len()).expect("short").to_be_bytes());
    greeting.extend_from_slice(nonce.as_bytes());
    say(pods, &pod.name_any(), &greeting).await;
}

/// Tells the first process of a pod that its end was heard, which is when it ends.
pub(crate) async fn dismiss(pods: &Api<Pod>, name: &str) {
    let Ok(mut streams) = attached(pods, name).await else { return };
    let mut stdin = streams.stdin().expect("standard input");
    stdin.write_all(b"A\0\0\0\0").await.expect("sent");
    stdin.flush().await.expect("sent");
    let _ = streams.take_status().expect("a status").await;
}

#[tokio::test]
async fn a_pod_that_dies_with_a_script_that_has_not_started_is_made_good_by_another() {
    let Some(stage) = Stage::new("unbegun").await else { return };
    for attempt in 1.. {
        let before = stage.runner.warm();
        let (name, user) = stage.waiting().await;
        let mut streams = attached(&stage.place.pods, &name).await.expect("attached");
        stage.proxy.set(Way::AnswersHeld);
        let killing = stage.kill(&name, &mut streams);
        let (outcome, ()) = tokio::join!(run(&stage.runner, WHO), killing);
        assert_eq!(outcome.ending, Ending::Exited(0));
        assert_ne!(outcome.output.text.trim(), user.to_string(), "it ran in the pod that died");
        let after = stage.runner.warm();
        // Both the pod that died and the one after it were asked for.
        if after.hits + after.misses == before.hits + before.misses + 2 {
            break;
        }
        assert!(attempt < ATTEMPTS, "the pod was never seen to have the script: {after:?}");
    }
    stage.end().await;
}

/// Another manager may have found the same, and begin it.
#[tokio::test]
async fn a_script_gets_no_other_pod_while_it_is_unknown_whose_the_first_one_is() {
    let Some(stage) = Stage::new("whose").await else { return };
    for attempt in 1.. {
        let before = stage.runner.warm();
        let (name, _) = stage.waiting().await;
        let mut streams = attached(&stage.place.pods, &name).await.expect("attached");
        let silent = format!("/pods/{name}");
        stage.fault_proxy.judge(move |method, path| {
            let is_it = path.ends_with(&silent) && method != "PATCH";
            if is_it { Fate::Silent } else { Fate::Pass }
        });
        stage.proxy.set(Way::AnswersHeld);
        let call_id = format!("call_{attempt}");
        let running = stage.runner.run(script(WHO), Run::alone(&call_id));
        let (outcome, ()) = tokio::join!(running, stage.kill(&name, &mut streams));
        stage.fault_proxy.judge(|_, _| Fate::Pass);
        // Its claim was granted, and it had the script.
        if stage.runner.warm().hits > before.hits && outcome.is_err() {
            assert!(matches!(outcome, Err(Error::OutcomeUnknown(_))), "{outcome:?}");
            assert_eq!(stage.place.calls()[&call_id].len(), 1, "it got another pod");
            break;
        }
        assert!(attempt < ATTEMPTS, "the pod was never seen to have the script: {outcome:?}");
    }
    stage.end().await;
}

/// The claim is granted, its answer is lost, and the cluster says nothing more to the manager that
/// asked. The call comes to another manager, which finds the pod.
#[tokio::test]
async fn a_script_whose_pod_may_have_been_claimed_begins_in_no_other() {
    let Some(mut place) = Place::new("unheard-claim").await else { return };
    let second = place.runner(client().await.expect("a cluster")).await;
    place.settings.warm.size = 1;
    let fault_proxy = FaultProxy::new();
    let first = place.runner(fault_proxy.client(None).await.expect("a cluster")).await;
    full(&first).await;
    // The cluster itself may change the pod at this moment, and refuse the first claim for that.
    static IS_GRANTED: AtomicBool = AtomicBool::new(false);
    // Another pod could be made and attached to.
    fault_proxy.judge(|method, path| {
        let of_a_pod = path.contains("/pods/rockbot-script-") && !path.ends_with("/attach");
        match method {
            _ if !of_a_pod => Fate::Pass,
            _ if IS_GRANTED.load(Ordering::Relaxed) => Fate::Silent,
            "PATCH" => Fate::LostWhenGranted(&IS_GRANTED),
            _ => Fate::Pass,
        }
    });
    let source = "import time\nprint('once')\ntime.sleep(14)\nprint('whole')";
    let call = Run::alone("call_1");
    let again = same(&call, true);
    let adopting = async {
        let claimed = async || if place.calls().is_empty() { Err("not claimed") } else { Ok(()) };
        eventually(LIMIT, claimed).await;
        second.run(script(source), again).await
    };
    let asking = async {
        let outcome = first.run(script(source), call).await;
        // It may delete again what is its own.
        fault_proxy.judge(|_, _| Fate::Pass);
        outcome
    };
    let (unknown, adopted) = tokio::join!(asking, adopting);
    let told =
        matches!(&unknown, Err(Error::OutcomeUnknown(why)) if why.contains("another manager"));
    assert!(told, "{unknown:?}");
    assert_eq!(adopted.expect("an outcome").output.text, "once\nwhole\n");
    assert_eq!(place.calls()["call_1"].len(), 1, "it had two pods");
    first.close().await;
    second.close().await;
    place.is_empty(LIMIT).await;
}

#[tokio::test]
async fn a_script_whose_start_was_lost_on_its_way_starts_in_the_same_pod() {
    let Some(stage) = Stage::new("unheard").await else { return };
    for attempt in 1.. {
        let before = stage.runner.warm();
        let (name, user) = stage.waiting().await;
        stage.proxy.set(Way::AnswersHeld);
        let cutting = async {
            if stage.has_script(&name).await {
                stage.proxy.set(Way::RequestsHeld);
                // The word to start, or a farewell where it was too late for that.
                until(async || stage.proxy.held() > 0).await;
                stage.proxy.set(Way::Closed);
            }
            stage.proxy.set(Way::Open);
        };
        let (outcome, ()) = tokio::join!(run(&stage.runner, WHO), cutting);
        assert_eq!(outcome.ending, Ending::Exited(0), "{outcome:?}");
        if stage.runner.warm().hits == before.hits + 1 {
            assert_eq!(outcome.output.text.trim(), user.to_string());
            break;
        }
        assert!(attempt < ATTEMPTS, "the pod was never seen to have the script");
    }
    stage.end().await;
}

#[tokio::test]
async fn half_a_script_of_a_manager_that_is_lost_is_forgotten() {
    let Some(place) = Place::new("half").await else { return };
    let (_trying, second, again) = unreached(&place).await;
    let pod = eventually(LIMIT, async || {
        let list = place.pods.list(&kube::api::ListParams::default()).await;
        list.expect("pods").items.pop().ok_or("no pod yet")
    })
    .await;
    let name = pod.name_any();
    let nonce = &pod.annotations()["toolbus.dev/nonce"];
    // What a manager sends that is killed half way: settings, a file, and the beginning of a
    // script.
    let mut half = Vec::new();
    for (kind, body) in
        [(b'H', nonce.as_bytes()), (b'F', b"left.txt\0behind"), (b'S', &[b'x'; 900])]
    {
        half.push(kind);
        half.extend_from_slice(&u32::try_from(body.len()).expect("short").to_be_bytes());
        half.extend_from_slice(body);
    }
    half.truncate(half.len() - 500);
    say(&place.pods, &name, &half).await;
    let source = "import os\nprint('ran', os.listdir('input') if os.path.exists('input') else [])";
    let outcome = second.run(script(source), again).await.expect("an outcome");
    assert_eq!(outcome.output.text, "ran []\n");
    second.idle().await;
    place.is_empty(LIMIT).await;
    assert_eq!(place.ever(), 1);
}

/// The call has come again while its first manager has it, and its pod ends before either gets
/// through to it: both find that the script has not begun, and one of them begins it.
#[tokio::test]
async fn of_two_managers_that_find_a_script_unbegun_one_begins_it() {
    let Some(stage) = Stage::new("both").await else { return };
    let deaf = FaultProxy::new();
    let warm = WarmSettings::default();
    let settings = KubernetesSettings { warm, ..stage.place.settings.clone() };
    let client = deaf.client(None).await.expect("a cluster");
    let other = KubernetesRunner::start(client, settings).await.expect("a runner");
    for attempt in 1.. {
        let (name, _) = stage.waiting().await;
        deaf.judge(|_, path| if path.ends_with("/attach") { Fate::Silent } else { Fate::Pass });
        stage.proxy.set(Way::AnswersHeld);
        let labels = async |is_so: fn(&Labels, &Labels) -> bool, before: &Labels| {
            eventually(LIMIT, async || match stage.place.pods.get_opt(&name).await {
                Ok(Some(pod)) if !is_so(before, pod.labels()) => Err("not yet"),
                Ok(_) => Ok(()),
                Err(_) => Err("no answer"),
            })
            .await;
        };
        let before = stage.place.pods.get(&name).await.expect("a pod").labels().clone();
        let call = Run::alone(&format!("call_{attempt}"));
        let again = same(&call, true);
        let second = async {
            labels(|_, now| now.contains_key("toolbus.dev/call"), &before).await;
            other.run(script(WHO), again).await
        };
        let ending = async {
            labels(|before, now| before[MANAGER] != now[MANAGER], &before).await;
            dismiss(&stage.place.pods, &name).await;
            stage.proxy.set(Way::Open);
            deaf.judge(|_, _| Fate::Pass);
        };
        let first = stage.runner.run(script(WHO), call);
        let (first, second, ()) = tokio::join!(first, second, ending);
        let began_anew = second.is_ok();
        let users: BTreeSet<String> =
            [first, second].into_iter().flatten().map(|outcome| outcome.output.text).collect();
        assert!(users.len() <= 1, "it ran twice: {users:?}");
        if began_anew {
            break;
        }
        assert!(attempt < ATTEMPTS, "the first one never let the other begin it");
    }
    other.close().await;
    stage.end().await;
}

type Labels = BTreeMap<String, String>;
