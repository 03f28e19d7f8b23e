//! What managers make goes with the installation, also where they cannot delete it themselves.

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::json;
use toolbus_testkit::eventually;

use crate::fault_proxy::{Fate, FaultProxy};
use crate::once::{LIMIT, Place};
use crate::warm::full;

#[tokio::test]
async fn with_the_lease_of_the_installation_goes_what_managers_made() {
    const NAME: &str = "toolbus-scripts";
    let Some(mut place) = Place::new("owner").await else { return };
    place.settings.warm.size = 1;
    let lease: Lease = serde_json::from_value(json!({"metadata": {"name": NAME}})).expect("one");
    place.leases.create(&PostParams::default(), &lease).await.expect("a Lease");
    let fault_proxy = FaultProxy::new();
    let runner = place.runner(fault_proxy.client(None).await.expect("a cluster")).await;
    full(&runner).await;
    // As for one who has lost all rights.
    fault_proxy.judge(|_, _| Fate::Refused(403));
    place.leases.delete(NAME, &DeleteParams::default()).await.expect("deleted");
    place.is_empty(LIMIT).await;
    eventually(LIMIT, async || {
        let left = place.leases.list(&ListParams::default()).await.expect("Leases").items;
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
}
