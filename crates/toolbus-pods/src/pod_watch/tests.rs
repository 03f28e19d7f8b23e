//! What events make of the hope for a pod.

use std::collections::HashSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, ObjectReference, Pod};
use kube::runtime::watcher;
use serde_json::json;
use tokio::time::timeout;
use toolbus_scripts::runner::Error;

use super::PodWatch;
use crate::pod_startup::{StartGraces, wait_for_failure};

/// Longer than any of these tests waits on purpose.
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(100);

fn event(reason: &str) -> Event {
    let pod = ObjectReference { name: Some("pod".to_owned()), ..ObjectReference::default() };
    Event {
        involved_object: pod,
        reason: Some(reason.to_owned()),
        message: Some("it says".to_owned()),
        ..Event::default()
    }
}

/// How long a volume or a sandbox may be missing.
fn graces(delay: Duration) -> StartGraces {
    StartGraces { delay, unscheduled: LONG }
}

/// What becomes of a pod after an event, where what it waits for may be missing for so long; `None`
/// while there is hope.
async fn after(reason: &str, delay: Duration, patience: Duration) -> Option<String> {
    let watch = PodWatch::default();
    let mut follower = watch.follow_pod("pod");
    watch.apply_warning(&event(reason));
    let told = timeout(patience, wait_for_failure(&mut follower, graces(delay))).await.ok()?;
    assert!(matches!(told, Error::Failed(_)), "{told:?}");
    Some(told.to_string())
}

#[tokio::test(start_paused = true)]
async fn what_the_node_tries_again_is_waited_for() {
    for reason in ["FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox"] {
        assert_eq!(after(reason, LONG, SHORT).await, None);
        let told = after(reason, SHORT, LONG).await.expect("it is told at last");
        assert!(told.contains(&format!("the pod cannot start: {reason}: it says")), "{told}");
    }
    assert_eq!(after("BackOff", SHORT, SHORT * 2).await, None);
}

/// A pod with this version and status.
fn pod(version: &str, status: serde_json::Value) -> Pod {
    let pod = json!({"metadata": {"name": "pod", "resourceVersion": version}, "status": status});
    serde_json::from_value(pod).expect("a pod")
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_was_made_after_all_is_no_failure() {
    let watch = PodWatch::default();
    let mut follower = watch.follow_pod("pod");
    watch.apply_warning(&event("FailedCreatePodSandBox"));
    let made = json!({"conditions": [{"type": "PodReadyToStartContainers", "status": "True"}]});
    watch.apply_pod(watcher::Event::Apply(pod("2", made)));

    let told = timeout(SHORT * 2, wait_for_failure(&mut follower, graces(SHORT))).await;
    assert!(told.is_err(), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_worse_than_a_missing_volume_is_told_meanwhile() {
    let watch = PodWatch::default();
    let mut follower = watch.follow_pod("pod");
    watch.apply_warning(&event("FailedMount"));
    let waiting = json!({"reason": "ErrImagePull", "message": "it says"});
    let container = json!({
        "name": "script", "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": waiting},
    });
    let worse = async {
        tokio::time::sleep(SHORT).await;
        let status = json!({"containerStatuses": [container]});
        watch.apply_pod(watcher::Event::Apply(pod("2", status)));
    };
    let told = timeout(LONG, wait_for_failure(&mut follower, graces(LONG * 2)));
    let (told, ()) = tokio::join!(told, worse);
    let told = told.expect("it is told").to_string();
    assert!(told.contains("ErrImagePull"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_comes_in_its_time_is_waited_for() {
    let watch = PodWatch::default();
    let mut follower = watch.follow_pod("pod");
    let condition = json!({
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room",
    });
    let unschedulable = json!({"conditions": [condition]});
    watch.apply_pod(watcher::Event::Apply(pod("2", unschedulable)));

    let graces = StartGraces { delay: LONG, unscheduled: 2 * SHORT };
    let told = timeout(SHORT, wait_for_failure(&mut follower, graces)).await;
    assert!(told.is_err(), "{told:?}");
    let told = timeout(LONG, wait_for_failure(&mut follower, graces)).await;
    assert!(matches!(told, Ok(Error::Busy(_))), "{told:?}");
}

/// The watch broke, and the pod was deleted before the next listing.
#[test]
fn a_pod_that_a_new_listing_leaves_out_is_gone() {
    let watch = PodWatch::default();
    let seen = watch.follow_pod("pod");
    let not_yet = watch.follow_pod("not-yet");
    let mut listed = HashSet::new();
    let mut list = |pods: Vec<Pod>| {
        let pods = pods.into_iter().map(watcher::Event::InitApply);
        let events = [watcher::Event::Init].into_iter().chain(pods);
        for event in events.chain([watcher::Event::InitDone]) {
            watch.track_listing(&event, &mut listed);
            watch.apply_pod(event);
        }
    };

    list(vec![pod("2", json!({}))]);
    assert!(!seen.observed.borrow().deleted);
    list(vec![]);
    assert!(seen.observed.borrow().deleted);
    assert!(!not_yet.observed.borrow().deleted, "it was never there");
}

#[test]
fn whoever_follows_a_pod_anew_is_not_cut_off_by_who_did_before() {
    let watch = PodWatch::default();
    let before = watch.follow_pod("pod");
    let now = watch.follow_pod("pod");
    drop(before);
    watch.apply_pod(watcher::Event::Apply(pod("2", json!({}))));
    assert_eq!(now.observed.borrow().version.as_deref(), Some("2"));
    drop(now);
    assert!(watch.followed.lock().is_empty());
}
