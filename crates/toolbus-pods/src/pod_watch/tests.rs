//! What events make of the hope for a pod.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, ObjectReference};
use tokio::time::timeout;
use toolbus_scripts::runner::Error;

use super::PodWatch;
use crate::pod_startup::wait_for_failure;

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

/// What becomes of a pod after an event, where a volume may be missing for so long; `None` while
/// there is hope.
async fn after(reason: &str, volumes: Duration, patience: Duration) -> Option<String> {
    let watch = PodWatch::default();
    let mut follower = watch.follow_pod("pod");
    watch.apply_warning(&event(reason));
    let told = timeout(patience, wait_for_failure(&mut follower, volumes)).await.ok()?;
    assert!(matches!(told, Error::Failed(_)), "{told:?}");
    Some(told.to_string())
}

#[tokio::test]
async fn a_missing_volume_is_waited_for_and_a_missing_sandbox_is_not() {
    for reason in ["FailedMount", "FailedAttachVolume"] {
        assert_eq!(after(reason, LONG, SHORT).await, None);
        let told = after(reason, SHORT, LONG).await.expect("it is told at last");
        assert!(told.contains(&format!("the pod cannot start: {reason}: it says")), "{told}");
    }
    let told = after("FailedCreatePodSandBox", LONG, LONG).await;
    assert!(told.is_some_and(|told| told.contains("FailedCreatePodSandBox: it says")));
    assert_eq!(after("BackOff", SHORT, SHORT * 2).await, None);
}

#[tokio::test]
async fn what_is_worse_than_a_missing_volume_is_told_meanwhile() {
    let watch = PodWatch::default();
    let mut follower = watch.follow_pod("pod");
    watch.apply_warning(&event("FailedMount"));
    let worse = async {
        tokio::time::sleep(SHORT).await;
        watch.apply_warning(&event("FailedCreatePodSandBox"));
    };
    let told = timeout(LONG, wait_for_failure(&mut follower, LONG * 2));
    let (told, ()) = tokio::join!(told, worse);
    let told = told.expect("it is told").to_string();
    assert!(told.contains("FailedCreatePodSandBox"), "{told}");
}
