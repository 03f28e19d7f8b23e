//! What a manager loses while it serves: its watch, its namespace.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::DeleteParams;
use tokio::time::sleep;
use toolbus_config::TimeSpan;
use toolbus_scripts::runner::{Ending, Error, Run, Runner};
use toolbus_testkit::eventually;

use crate::fault_proxy::{Fate, FaultProxy};
use crate::once::{LIMIT, Place};
use crate::proxy::{Proxy, Way};
use crate::support::{client, script};

#[tokio::test]
async fn scripts_run_without_a_watch() {
    let Some(place) = Place::new("blind").await else { return };
    let fault_proxy = FaultProxy::new();
    // Before the manager starts, which watches from then on.
    fault_proxy.judge(|method, path| {
        let watched = path.ends_with("/events") || path.ends_with("/pods");
        if method == "GET" && watched { Fate::Refused(500) } else { Fate::Pass }
    });
    let runner = place.runner(fault_proxy.client(None).await.expect("a cluster")).await;
    let outcome = runner.run(script("print(1)"), Run::alone("call_1")).await;
    assert_eq!(outcome.expect("an outcome").ending, Ending::Exited(0));
    let asked = fault_proxy.calls();
    assert!(asked.contains("list pods") && !asked.contains("watch pods"), "{asked:?}");
    runner.idle().await;
    place.is_empty(LIMIT).await;
}

/// What is wrong with an image is said by the watch alone.
#[tokio::test]
async fn a_watch_that_is_cut_goes_on() {
    let Some((proxy, through)) = Proxy::to_cluster().await else { return };
    let Some(mut place) = Place::new("watch-cut").await else { return };
    place.settings.image = "127.0.0.1:1/none:1".to_owned();
    // More than the pause before a watch is begun again.
    place.settings.start_timeout = TimeSpan::seconds(30);
    let runner = place.runner(through).await;
    let told = async |call_id: &str| {
        let outcome = runner.run(script("print(1)"), Run::alone(call_id)).await;
        let Err(Error::Failed(text)) = &outcome else { panic!("{call_id}: {outcome:?}") };
        assert!(text.contains("ErrImagePull"), "{call_id}: {text}");
    };
    told("call_before").await;
    proxy.cut();
    told("call_after_a_cut").await;
    // Long enough that it is begun again in vain, too.
    proxy.set(Way::Closed);
    // sleeps: the length of the outage.
    sleep(Duration::from_secs(2)).await;
    proxy.set(Way::Open);
    told("call_after_an_outage").await;
    runner.idle().await;
    place.is_empty(LIMIT).await;
}

#[tokio::test]
async fn without_their_namespace_scripts_are_refused_as_unavailable() {
    let Some(client) = client().await else { return };
    let Some(place) = Place::new("vanishing").await else { return };
    let name = place.settings.namespace.as_str();
    let runner = place.runner(client.clone()).await;
    let namespaces: Api<Namespace> = Api::all(client);
    let deleting = async {
        place.started().await;
        namespaces.delete(name, &DeleteParams::default()).await.expect("deleted");
    };
    let long = script("import time\ntime.sleep(15)");
    let (outcome, ()) = tokio::join!(runner.run(long, Run::alone("call_running")), deleting);
    assert!(matches!(outcome, Err(Error::OutcomeUnknown(_))), "{outcome:?}");
    let refused = async |call_id: &str| {
        let outcome = runner.run(script("print(1)"), Run::alone(call_id)).await;
        let is_told = matches!(&outcome, Err(Error::Unavailable(text)) if text.contains(name));
        assert!(is_told, "{call_id}: {outcome:?}");
    };
    refused("call_terminating").await;
    eventually(LIMIT, async || match namespaces.get_opt(name).await {
        Ok(None) => Ok(()),
        other => Err(other.map(|_| "it is there").map_err(|error| error.to_string())),
    })
    .await;
    refused("call_gone").await;
    runner.close().await;
}
