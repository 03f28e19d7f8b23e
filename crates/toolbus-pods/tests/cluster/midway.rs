//! What befalls a cluster while a script runs: outages, delays, refusals, an eviction.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use kube::ResourceExt as _;
use kube::api::{EvictParams, Patch, PatchParams};
use serde_json::json;
use tokio::time::sleep;
use toolbus_scripts::runner::{Ending, Error, Run, Runner, Script};

use crate::fault_proxy::{Fate, FaultProxy};
use crate::once::{LIMIT, Place};
use crate::proxy::{Proxy, Way};
use crate::support::{bystander, client, script};

/// Runs for long enough that something can happen meanwhile.
const SLOW: &str = "import time\nprint('before', flush=True)\ntime.sleep(5)\nprint('after')";

#[tokio::test]
async fn an_outage_in_the_middle_of_a_script_loses_nothing() {
    let Some((proxy, through)) = Proxy::to_cluster().await else { return };
    let Some(place) = Place::new("outage").await else { return };
    let runner = place.runner(through).await;
    let outage = async {
        place.started().await;
        proxy.set(Way::Closed);
        // sleeps: the length of the outage.
        sleep(Duration::from_secs(2)).await;
        proxy.set(Way::Open);
    };
    let running = runner.run(script(SLOW), Run::alone("call_1"));
    let (outcome, (), ()) = tokio::join!(running, outage, bystander());
    let outcome = outcome.expect("an outcome");
    assert_eq!((&*outcome.output.text, outcome.ending), ("before\nafter\n", Ending::Exited(0)));
    runner.close().await;
    place.is_empty(LIMIT).await;
}

#[tokio::test]
async fn of_a_script_that_is_lost_sight_of_for_good_the_outcome_is_unknown() {
    let Some((proxy, through)) = Proxy::to_cluster().await else { return };
    let Some(place) = Place::new("lost-sight").await else { return };
    let runner = place.runner(through).await;
    let outage = async {
        place.started().await;
        proxy.set(Way::Closed);
    };
    let quick = Script {
        timeout: Duration::from_secs(3),
        ..script("print('done')\nimport time\ntime.sleep(1)")
    };
    let began = Instant::now();
    let running = runner.run(quick, Run::alone("call_1"));
    let (outcome, (), ()) = tokio::join!(running, outage, bystander());
    // It may have ended well: that its time was over is not known either.
    let is_told =
        matches!(&outcome, Err(Error::OutcomeUnknown(why)) if why.contains("nor its log"));
    assert!(is_told, "{outcome:?}");
    assert!(began.elapsed() < LIMIT, "{:?}", began.elapsed());
    proxy.set(Way::Open);
    runner.close().await;
    place.is_empty(LIMIT).await;
}

#[tokio::test]
async fn a_slow_cluster_is_waited_for() {
    let Some((proxy, through)) = Proxy::to_cluster().await else { return };
    let Some(place) = Place::new("slow").await else { return };
    let runner = place.runner(through).await;
    proxy.set(Way::Slow(Duration::from_millis(100)));
    let running = runner.run(script("print(6 * 7)"), Run::alone("call_1"));
    let (outcome, ()) = tokio::join!(running, bystander());
    assert_eq!(outcome.expect("an outcome").output.text, "42\n");
    proxy.set(Way::Open);
    runner.close().await;
    place.is_empty(LIMIT).await;
}

#[tokio::test]
async fn refusals_to_attach_and_to_read_the_log_are_tried_again() {
    let Some((proxy, attaching)) = Proxy::to_cluster().await else { return };
    let Some(place) = Place::new("refusals").await else { return };
    let fault_proxy = FaultProxy::attaching_by(attaching);
    let (attaches, logs) = (AtomicU32::new(0), AtomicU32::new(0));
    fault_proxy.judge(move |_, path| {
        let (refused, code) = match path {
            path if path.ends_with("/attach") => (&attaches, 429),
            path if path.ends_with("/log") => (&logs, 500),
            _ => return Fate::Pass,
        };
        if refused.fetch_add(1, Ordering::Relaxed) < 3 { Fate::Refused(code) } else { Fate::Pass }
    });
    let runner = place.runner(fault_proxy.client(None).await.expect("a cluster")).await;
    let cutting = async {
        place.started().await;
        proxy.set(Way::Closed);
    };
    let running = runner.run(script(SLOW), Run::alone("call_1"));
    let (outcome, (), ()) = tokio::join!(running, cutting, bystander());
    assert_eq!(outcome.expect("an outcome").output.text, "before\nafter\n");
    runner.close().await;
    place.is_empty(LIMIT).await;
}

#[tokio::test]
async fn a_pod_that_is_evicted_is_told_at_once() {
    let Some(client) = client().await else { return };
    let Some(place) = Place::new("evicted").await else { return };
    let runner = place.runner(client).await;
    let evicting = async {
        let pod = place.started().await.name_any();
        place.pods.evict(&pod, &EvictParams::default()).await.expect("evicted");
        Instant::now()
    };
    let long = script("import time\ntime.sleep(15)");
    let running = async { (runner.run(long, Run::alone("call_1")).await, Instant::now()) };
    let ((outcome, told), evicted, ()) = tokio::join!(running, evicting, bystander());
    assert!(matches!(outcome, Err(Error::OutcomeUnknown(_))), "{outcome:?}");
    assert!(told - evicted < Duration::from_secs(10), "{:?}", told - evicted);
    runner.close().await;
    place.is_empty(LIMIT).await;
}

/// The node's clock jumps ahead: the time of a pod is over for the cluster before it is over for
/// its script. Shortening it does the same.
#[tokio::test]
async fn a_script_whose_pod_is_ended_before_its_time_has_not_timed_out() {
    let Some(client) = client().await else { return };
    let Some(place) = Place::new("clock").await else { return };
    let runner = place.runner(client).await;
    let jumping = async {
        let pod = place.started().await.name_any();
        let over = Patch::Merge(json!({"spec": {"activeDeadlineSeconds": 1}}));
        place.pods.patch(&pod, &PatchParams::default(), &over).await.expect("shortened");
    };
    let long = script("import time\ntime.sleep(15)");
    let running = runner.run(long, Run::alone("call_1"));
    let (outcome, (), ()) = tokio::join!(running, jumping, bystander());
    let told =
        matches!(&outcome, Err(Error::OutcomeUnknown(why)) if why.contains("DeadlineExceeded"));
    assert!(told, "{outcome:?}");
    runner.close().await;
    place.is_empty(LIMIT).await;
}
