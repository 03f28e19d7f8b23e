//! What is told of pods that do not answer in their time.

use super::*;
use crate::fake_cluster::{FakeCluster, Hearing, NAMESPACE};
use crate::pod_watch::PodWatch;

const LEFT: Duration = Duration::from_millis(9400);

#[tokio::test(start_paused = true)]
async fn a_pod_that_cannot_be_attached_to_is_given_up_in_its_time() {
    let check = async |hearing: Hearing, expected: &str| {
        let cluster = FakeCluster::default();
        cluster.is_watching(hearing);
        let start = Instant::now();
        let wait = PodStartup {
            client: &Client::new(cluster, NAMESPACE),
            namespace: NAMESPACE,
            name: "pod",
            nonce: "n0",
            by: start + LEFT,
            unscheduled: LEFT,
            cancelled: &CancellationToken::new(),
        };
        let ready = wait.wait_ready(&mut PodWatch::default().follow_pod("pod")).await;
        assert_eq!(start.elapsed(), LEFT);
        let Err(Error::Failed(why)) = ready else { panic!("it is born, or fails otherwise") };
        let within = "the pod did not start within 9.4s, and it cannot be attached to: ";
        assert!(why.starts_with(within) && why.contains(expected), "{why}");
    };
    check(Hearing::Well, "404").await;
    check(Hearing::Deaf, "no connection within 5s").await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_takes_a_minute_is_not_asked_hundreds_of_times() {
    let cluster = FakeCluster::default();
    let minute = Duration::from_secs(60);
    let wait = PodStartup {
        client: &Client::new(cluster.clone(), NAMESPACE),
        namespace: NAMESPACE,
        name: "pod",
        nonce: "n0",
        by: Instant::now() + minute,
        unscheduled: minute,
        cancelled: &CancellationToken::new(),
    };

    let ready = wait.wait_ready(&mut PodWatch::default().follow_pod("pod")).await;

    assert!(ready.is_err());
    let requests = cluster.requests();
    assert!((60..200).contains(&requests), "{requests}");
}

#[test]
fn what_the_cluster_says_of_a_pod_is_the_reason_why_it_is_late() {
    let check = |observed: ObservedPod, expected: Error| {
        assert_eq!(startup_timeout(&observed, LEFT, &StartupSigns::default()), expected);
    };
    let said = || Some("FailedMount: it says".to_owned());
    let failed = |text: &str| Error::Failed(text.to_owned());
    check(ObservedPod::default(), failed("the pod did not start within 9.4s"));
    let delayed = ObservedPod { start_delay: said(), scheduled: true, ..ObservedPod::default() };
    check(delayed, failed("the pod cannot start: FailedMount: it says"));
    let unschedulable = ObservedPod {
        unschedulable: Some("Insufficient cpu".to_owned()),
        ..ObservedPod::default()
    };
    check(unschedulable, Error::Busy("no node has room: Insufficient cpu".to_owned()));
}
