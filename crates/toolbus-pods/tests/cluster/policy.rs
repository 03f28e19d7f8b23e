//! What the manager says of network policy, once it has tried.

use std::time::Duration;

use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use toolbus_pods::{KubernetesRunner, PolicyStatus};
use toolbus_testkit::eventually;
use toolbus_testkit::rabbit;

use crate::fleet::manager;
use crate::once::{LIMIT, Place};
use crate::support::client;

/// Takes the policies of a place away, until it is prepared again.
pub(crate) async fn open(client: &Client, place: &mut Place) {
    place.settings.prepare_namespace = false;
    place.settings.allow_unguarded_namespace = true;
    let policies: Api<NetworkPolicy> = Api::namespaced(client.clone(), &place.settings.namespace);
    let all = ListParams::default();
    policies.delete_collection(&DeleteParams::default(), &all).await.expect("no policy");
}

/// Probes the policy, and gives what came of it once nothing is left of the probe.
async fn probed(place: &Place, runner: &KubernetesRunner) -> PolicyStatus {
    assert_eq!(runner.policy(), PolicyStatus::Untried);
    runner.probe_policy();
    let status = eventually(LIMIT, async || match runner.policy() {
        PolicyStatus::Untried => Err("nothing is known"),
        status => Ok(status),
    })
    .await;
    runner.close().await;
    assert_eq!(place.all().await, [""; 0]);
    assert_eq!(place.probes(), 1);
    status
}

#[tokio::test]
async fn that_policy_is_enforced_is_found_out() {
    let Some(place) = Place::new("policy").await else { return };
    let runner = place.runner(client().await.expect("a cluster")).await;
    assert_eq!(probed(&place, &runner).await, PolicyStatus::Enforced);
}

#[tokio::test]
async fn that_no_policy_is_enforced_is_found_out() {
    let Some(client) = client().await else { return };
    let Some(mut place) = Place::new("no-policy").await else { return };
    open(&client, &mut place).await;
    let runner = place.runner(client).await;
    assert_eq!(probed(&place, &runner).await, PolicyStatus::NotEnforced);
}

#[tokio::test]
async fn why_nothing_is_known_of_a_policy_is_told() {
    let Some(mut place) = Place::new("policy-unknown").await else { return };
    place.settings.image = "127.0.0.1:1/none:1".to_owned();
    let runner = place.runner(client().await.expect("a cluster")).await;
    let PolicyStatus::Unknown { reason } = probed(&place, &runner).await else {
        panic!("{:?}", runner.policy());
    };
    assert!(reason.contains("ErrImagePull"), "{reason}");
}

#[tokio::test]
async fn a_probe_ends_with_its_manager() {
    let Some(place) = Place::new("policy-ends").await else { return };
    let runner = place.runner(client().await.expect("a cluster")).await;
    runner.probe_policy();
    eventually(LIMIT, async || if place.all().await.len() == 1 { Ok(()) } else { Err("no probe") })
        .await;
    runner.close().await;
    assert_eq!(place.all().await, [""; 0]);
    assert_eq!(runner.policy(), PolicyStatus::Untried);
}

#[tokio::test]
async fn the_service_tells_after_its_start_and_takes_its_probe_along() {
    let Some(place) = Place::new("policy-told").await else { return };
    let Some(vhost) = rabbit::vhost().await else { return };
    let mut service = manager(&vhost, &place).await;
    let told = async || {
        let (_, status) = service.look("/status").await.map_err(|error| error.to_string())?;
        let status: Value = serde_json::from_str(&status).expect("JSON");
        Ok::<_, String>(status["details"]["network_policy"].clone())
    };
    assert_eq!(told().await, Ok(json!({"state": "untried"})), "it was waited for");
    eventually(LIMIT, async || match told().await {
        Ok(told) if told == json!({"state": "enforced"}) => Ok(()),
        other => Err(other),
    })
    .await;
    let logged = service.process().stdout() + &service.process().stderr();
    assert_eq!(logged.matches("network policy is enforced").count(), 1, "{logged}");
    service.process().terminate(LIMIT).await.expect("it ends");

    let mut service = manager(&vhost, &place).await;
    eventually(LIMIT, async || if place.all().await.len() == 1 { Ok(()) } else { Err("no probe") })
        .await;
    service.process().terminate(Duration::from_secs(20)).await.expect("it ends");
    assert_eq!(place.all().await, [""; 0]);
    assert_eq!(place.probes(), 2);
}
