//! Requests that nobody answers: the API server closes a connection that was quiet for long in the
//! very moment at which it is used again.

use std::collections::BTreeSet;
use std::time::Duration;

use toolbus_scripts::runner::{Error, Run, Runner, Script};

use crate::fault_proxy::{Fate, FaultProxy};
use crate::once::{Place, same};
use crate::proxy::Proxy;
use crate::support::{client, run, script};
use crate::warm::full;

/// The requests of one thing that a manager does, of which the first of each kind has no answer.
struct Stage {
    fault_proxy: FaultProxy,
    fate: Fate,
}

impl Stage {
    /// From now on.
    fn begin(&self) {
        self.fault_proxy.first_of_each(self.fate);
    }

    /// These kinds of requests met with it, and what was done is done all the same.
    fn end(&self, what: &str, expected: &[&str]) {
        let met = self.fault_proxy.first_of_each(self.fate);
        let expected: BTreeSet<String> = expected.iter().map(|kind| (*kind).to_owned()).collect();
        let missing: Vec<_> = expected.difference(&met).collect();
        assert!(missing.is_empty(), "{what}, {:?}: without {missing:?} in {met:?}", self.fate);
    }
}

/// All that a manager asks of the cluster, with the first request of each kind without an answer.
async fn everything(name: &str, fate: Fate) {
    let Some(mut place) = Place::new(name).await else { return };
    let stage = Stage { fault_proxy: FaultProxy::new(), fate };
    let other = place.runner(client().await.expect("a cluster")).await;
    place.settings.warm.size = 1;

    stage.begin();
    let runner = place.runner(stage.fault_proxy.client(None).await.expect("a cluster")).await;
    full(&runner).await;
    let start = [
        "create namespaces",
        "create resourcequotas",
        "create limitranges",
        "create networkpolicies.networking.k8s.io",
        "create selfsubjectrulesreviews.authorization.k8s.io",
        "get namespaces",
        "list networkpolicies.networking.k8s.io",
        "list resourcequotas",
        "patch leases.coordination.k8s.io",
        "create leases.coordination.k8s.io",
        "list leases.coordination.k8s.io",
        "list pods",
        "list events",
        "create pods",
        "get pods/attach",
    ];
    stage.end("start", &start);

    // It runs in the pod that waited, whatever became of the first attempt to claim that.
    stage.begin();
    assert_eq!(run(&runner, "print('warm')").await.output.text, "warm\n");
    assert_eq!((runner.warm().hits, runner.warm().misses), (1, 0), "{fate:?}");
    stage.end("warm", &["patch pods"]);

    // Longer than warm pods are for.
    stage.begin();
    let long = Script { timeout: Duration::from_secs(301), ..script("print('cold')") };
    let outcome = runner.run(long, Run::alone("call_cold")).await.expect("it runs");
    assert_eq!(outcome.output.text, "cold\n");
    runner.idle().await;
    stage.end("cold", &["create pods", "get pods/attach", "delete pods"]);

    let call = Run::alone("call_adopted");
    let again = same(&call, true);
    let source = "import time\nprint('one')\ntime.sleep(3)\nprint('two')";
    let adopting = async {
        place.started().await;
        stage.begin();
        let outcome = runner.run(script(source), again).await;
        stage.end("adopting", &["list pods", "patch pods", "get pods/log"]);
        outcome
    };
    let (first, second) = tokio::join!(other.run(script(source), call), adopting);
    for outcome in [first, second] {
        assert_eq!(outcome.expect("an outcome").output.text, "one\ntwo\n", "{fate:?}");
    }

    full(&runner).await;
    stage.begin();
    runner.close().await;
    runner.leave().await.expect("left");
    stage.end("end", &["delete pods", "delete leases.coordination.k8s.io"]);
    other.close().await;
    other.leave().await.expect("left");
    assert_eq!((place.all().await.len(), managers(&place).await), (0, 0));
}

async fn managers(place: &Place) -> usize {
    place.leases.list(&kube::api::ListParams::default()).await.expect("leases").items.len()
}

#[tokio::test]
async fn a_request_without_an_answer_is_made_again_or_found_out_about() {
    tokio::join!(everything("unarrived", Fate::Cut), everything("unheard-of", Fate::Lost));
}

/// The attempt that had no answer took the last place, which is why the next is refused.
#[tokio::test]
async fn a_pod_that_was_made_unheard_is_not_refused_for_the_room_that_it_takes() {
    let Some(place) = Place::new("last-place").await else { return };
    let fault_proxy = FaultProxy::new();
    fault_proxy.judge(|method, path| {
        if method == "POST" && path.ends_with("/pods") { Fate::Refused(403) } else { Fate::Pass }
    });
    let runner = place.runner(fault_proxy.client(None).await.expect("a cluster")).await;
    let refused = runner.run(script("print(1)"), Run::alone("call_0")).await;
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    fault_proxy.first_of_each(Fate::Lost);
    let outcome = runner.run(script("print(1)"), Run::alone("call_1")).await;
    assert_eq!(outcome.expect("it was made").output.text, "1\n");
    runner.close().await;
    place.is_empty(crate::once::LIMIT).await;
    assert_eq!(place.ever(), 1);
}

/// The real thing: every connection that a manager keeps ends when it is used.
#[tokio::test]
async fn connections_that_have_ended_in_silence_disturb_no_script() {
    let Some((proxy, through)) = Proxy::to_cluster().await else { return };
    let Some(place) = Place::new("silence").await else { return };
    let runner = place.runner(through).await;
    for round in 1..=3 {
        assert_eq!(run(&runner, "print(6 * 7)").await.output.text, "42\n");
        runner.idle().await;
        let ended = proxy.ended();
        assert!(round == 1 || ended > 0, "no connection was used again");
        proxy.age();
    }
    runner.close().await;
    place.is_empty(crate::once::LIMIT).await;
    assert_eq!(place.ever(), 3);
}
