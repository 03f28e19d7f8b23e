//! How scripts and their pods end, as the node sees it.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use k8s_openapi::jiff::SignedDuration;
use kube::api::ListParams;
use tokio_util::sync::CancellationToken;
use toolbus_scripts::runner::{Ending, Run, Runner, Script};
use toolbus_testkit::{eventually, process};

use crate::fault_proxy::{Fate, FaultProxy};
use crate::once::{LIMIT, Place};
use crate::support::script;

/// Ignores what can be ignored, and is not alone.
const STUBBORN: &str = "print('here', flush=True)\nimport signal, subprocess, time\n\
    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n\
    subprocess.Popen(['sleep', '600'], start_new_session=True)\ntime.sleep(600)";
/// A clock by which a process has not run for a while whenever it looks.
const LEAPS: &str = "import time\nclock = time.monotonic\nlooks = 0\ndef leap():\n    global looks\n    \
    looks += 1\n    return clock() + looks * 0.06\ntime.monotonic = leap\n";
/// How long one may run whose time is to be over: long enough to be found on the node.
const SHORT: Duration = Duration::from_secs(10);
/// Less than the cluster leaves a pod whose time is over. How soon all is dead is what the
/// benchmark of scripts measures.
const SOON: Duration = Duration::from_secs(9);

#[tokio::test]
async fn a_script_that_is_cancelled_is_dead_at_once() {
    is_dead_at_once("dead-cancelled", Ending::Cancelled).await;
}

#[tokio::test]
async fn a_script_whose_time_is_over_is_dead_at_once() {
    is_dead_at_once("dead-timed-out", Ending::TimedOut).await;
}

/// None of a script's processes is left after its end, though its pod cannot be deleted. They are
/// looked for on the node, by the user id that no other pod has, so where the node is another
/// machine this shows nothing.
async fn is_dead_at_once(name: &str, ending: Ending) {
    if !std::path::Path::new("/run/toolbus-kube").exists() {
        return;
    }
    let Some(place) = Place::new(name).await else { return };
    let fault_proxy = FaultProxy::new();
    let runner = place.runner(fault_proxy.client(None).await.expect("a cluster")).await;
    fault_proxy.judge(|method, _| if method == "DELETE" { Fate::Refused(500) } else { Fate::Pass });
    let times_out = ending == Ending::TimedOut;
    let (cancelled, begun) = (CancellationToken::new(), Arc::new(OnceLock::new()));
    let hearing = Arc::clone(&begun);
    let live = move |_, _: &str| _ = hearing.set(Instant::now());
    let run =
        Run { cancelled: cancelled.clone(), live: Some(Arc::new(live)), ..Run::alone("call_1") };
    let watching = async {
        let begun =
            eventually(LIMIT, async || begun.get().copied().ok_or("it has not begun")).await;
        let user = user_of_one(&place).await;
        eventually(SHORT, async || match process::count_of_user(user) {
            3.. => Ok(()),
            fewer => Err(fewer),
        })
        .await;
        let end = if times_out { begun + SHORT } else { Instant::now() };
        if !times_out {
            cancelled.cancel();
        }
        // The first process of the pod is left.
        let limit = end + SOON - Instant::now();
        eventually(limit, async || match process::count_of_user(user) {
            0..=1 => Ok(()),
            more => Err(more),
        })
        .await;
    };
    let script = Script { timeout: if times_out { SHORT } else { LIMIT }, ..script(STUBBORN) };
    let (outcome, ()) = tokio::join!(runner.run(script, run), watching);
    assert_eq!(outcome.expect("an outcome").ending, ending);
    fault_proxy.judge(|_, _| Fate::Pass);
    runner.idle().await;
    place.is_empty(LIMIT).await;
}

/// The user of the only pod.
async fn user_of_one(place: &Place) -> i64 {
    let pod = place.pods.list(&ListParams::default()).await.expect("pods").items.pop();
    let spec = pod.and_then(|pod| pod.spec).expect("a pod");
    spec.security_context.and_then(|context| context.run_as_user).expect("a user")
}

/// One that is not told waits for a quarter of a minute, in vain.
#[tokio::test]
async fn a_pod_is_told_that_its_end_was_heard() {
    let Some(place) = Place::new("told").await else { return };
    let fault_proxy = FaultProxy::new();
    let runner = place.runner(fault_proxy.client(None).await.expect("a cluster")).await;
    // It ends by itself or not at all.
    fault_proxy.judge(|method, _| if method == "DELETE" { Fate::Refused(500) } else { Fate::Pass });
    runner.run(script("print(1)"), Run::alone("call_1")).await.expect("an outcome");
    let ended = eventually(LIMIT, async || {
        let pods = place.pods.list(&ListParams::default()).await.map_err(|e| e.to_string())?;
        let status = pods.items.into_iter().next().and_then(|pod| pod.status);
        let containers = status.and_then(|status| status.container_statuses);
        let states = containers.into_iter().flatten().filter_map(|container| container.state);
        states.filter_map(|state| state.terminated).next().ok_or("it runs".to_owned())
    })
    .await;
    assert_eq!((ended.exit_code, ended.reason.as_deref()), (0, Some("Completed")));
    let (from, to) = (ended.started_at.expect("a time"), ended.finished_at.expect("a time"));
    // By the cluster's own clock, in whole seconds.
    let lived = to.0.duration_since(from.0);
    assert!(lived < SignedDuration::from_secs(12), "{lived:?}");
    fault_proxy.judge(|_, _| Fate::Pass);
    runner.idle().await;
    place.is_empty(LIMIT).await;
}

/// What it waits for may have come while it was kept from running, between looking and waiting.
#[tokio::test]
async fn a_first_process_that_is_kept_from_running_misses_no_time() {
    let Some(place) = Place::new("leaps").await else { return };
    let fault_proxy = FaultProxy::new();
    let runner = place.runner(fault_proxy.client(None).await.expect("a cluster")).await;
    fault_proxy.run_before(LEAPS);
    // By that clock they are soon over; by the manager's, who would end it else, they are not.
    let timeout = Duration::from_secs(600);
    let source = "import time\nprint('here', flush=True)\ntime.sleep(600)";
    let running = runner.run(Script { timeout, ..script(source) }, Run::alone("call_1"));
    let outcome = tokio::time::timeout(LIMIT, running).await.expect("it ended").expect("it ran");
    assert_eq!((outcome.ending, outcome.output.text.as_str()), (Ending::TimedOut, "here\n"));
    runner.close().await;
    place.is_empty(LIMIT).await;
}
