//! What is made of a container's log, on a cluster that is made up and in a time that the tests
//! pass.

use kube::Client;

use super::*;
use crate::fake_cluster::{FakeCluster, NAMESPACE};
use crate::pod_watch::PodWatch;

const WHOLE: &str = "n 0 ready \nn 1 started \nn 2 out aGk=\nn 3 over \nn 4 end \
     {\"elapsed_ms\": 5, \"cpu_ms\": 1, \"memory_peak\": 1, \"code\": 0}\n";

/// What becomes of a script whose session is resumed, where its pod's log says this.
async fn resumed(log: &str) -> Result<Outcome, Error> {
    let cluster = FakeCluster::default();
    cluster.log_says("pod", log);
    let client = Client::new(cluster, NAMESPACE);
    let pods = Api::namespaced(client.clone(), NAMESPACE);
    let session = ScriptSession {
        client: &client,
        pods: &pods,
        name: "pod",
        nonce: "n",
        timeout: Duration::from_secs(30),
        cancelled: &CancellationToken::new(),
        channel: None,
        live: None,
        pieces_forwarded: Arc::default(),
    };
    session.resume(&mut PodWatch::default().follow_pod("pod")).await
}

#[tokio::test(start_paused = true)]
async fn a_log_has_the_outcome() {
    let outcome = resumed(WHOLE).await.expect("an outcome");
    assert_eq!((outcome.ending, &*outcome.output.text), (Ending::Exited(0), "hi"));
}

/// A node keeps the newest part of a log: the script may well have ended within the rest.
#[tokio::test(start_paused = true)]
async fn a_script_whose_log_lost_its_beginning_is_not_told_as_timed_out() {
    let (_, rest) = WHOLE.split_once('\n').expect("lines");
    let error = resumed(rest).await.expect_err("no outcome");
    let is_told = |why: &str| why.contains("does not have all that it said");
    assert!(matches!(&error, Error::OutcomeUnknown(why) if is_told(why)), "{error}");
}
