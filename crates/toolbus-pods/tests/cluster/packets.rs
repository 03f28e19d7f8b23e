//! What network policy lets through, by what packets do: nothing to pods of scripts, nothing from
//! them.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::canaries::{self, LISTEN, address, described, heard};
use crate::once::{LIMIT, Place};
use crate::policy::open;
use crate::support::client;

/// Where the listener of this file listens.
const PORT: u16 = 20_000;
/// Calls every place a few times, once policy must have taken hold, and says what came of it.
const CALL: &str = "
import socket, sys, time
time.sleep(5)
for place in sys.argv[1:]:
    host, port = place.split(':')
    said = 'in vain'
    for _ in range(3):
        try:
            socket.create_connection((host, int(port)), 1).close()
            said = 'reached'
        except OSError: pass
        try: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', (host, int(port)))
        except OSError: pass
    print(said, flush=True)
";

/// What packets did between the namespace of scripts and another, which no policy holds.
#[derive(Debug)]
struct Traffic {
    /// What a pod like a script's said of each canary.
    said: Vec<String>,
    /// What the canaries heard.
    outward: Vec<String>,
    /// What a pod like a script's heard.
    inward: Vec<String>,
}

/// Pods like scripts', but for the filter that denies those all sockets: they call, and are called.
async fn traffic(client: &Client, place: &Place) -> Traffic {
    let canaries = canaries::start(client).await;
    let others: Api<Pod> = Api::namespaced(client.clone(), canaries::NAMESPACE);
    let make = async |pods: &Api<Pod>, pod: Value| {
        let pod: Pod = serde_json::from_value(pod).expect("the template is a pod");
        pods.create(&PostParams::default(), &pod).await.expect("a pod");
    };
    make(&place.pods, like_a_scripts("listener", LISTEN, &[PORT.to_string()])).await;
    make(&place.pods, like_a_scripts("caller", CALL, &canaries.addresses)).await;
    heard(&place.pods, "listener", |lines| lines.len() == 1).await;
    let listener = format!("{}:{PORT}", address(&place.pods, "listener").await);
    let caller = format!("caller-of-{}", place.settings.namespace);
    let now = DeleteParams::default().grace_period(0);
    // What an earlier test left.
    let _ = others.delete(&caller, &now).await;
    make(&others, described(&caller, CALL, &[listener])).await;
    heard(&others, &caller, |lines| lines.len() == 1).await;
    let said = heard(&place.pods, "caller", |lines| lines.len() == canaries.addresses.len()).await;
    let inward = heard(&place.pods, "listener", |lines| !lines.is_empty()).await.split_off(1);
    let outward = canaries.callers.await;
    others.delete(&caller, &now).await.expect("deleted");
    place.pods.delete_collection(&now, &ListParams::default()).await.expect("deleted");
    place.is_empty(LIMIT).await;
    Traffic { said, outward, inward }
}

/// A pod that the namespace takes, with the labels of a script's.
fn like_a_scripts(name: &str, program: &str, arguments: &[String]) -> Value {
    let mut pod = described(name, program, arguments);
    pod["metadata"]["labels"] =
        json!({"app": "rockbot-script", "app.kubernetes.io/managed-by": "toolbus-scripts-manager"});
    pod["spec"]["securityContext"] = json!({
        "runAsNonRoot": true, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"},
    });
    pod["spec"]["containers"][0]["securityContext"] =
        json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    pod
}

#[tokio::test]
async fn pods_of_scripts_reach_nobody_and_nobody_reaches_them() {
    let Some(client) = client().await else { return };
    let Some(closed) = Place::new("packets").await else { return };
    let Traffic { said, outward, inward } = traffic(&client, &closed).await;
    assert_eq!((said, outward.len(), inward.len()), (vec!["in vain".to_owned(); 3], 0, 0));
}

/// The same without a policy, which proves that the packets would arrive.
#[tokio::test]
async fn without_a_policy_the_same_pods_reach_others_and_are_reached() {
    let Some(client) = client().await else { return };
    let Some(mut place) = Place::new("packets-open").await else { return };
    open(&client, &mut place).await;
    let Traffic { said, outward, inward } = traffic(&client, &place).await;
    assert_eq!(said, ["reached"; 3]);
    for lines in [outward, inward] {
        for kind in ["stream", "datagram"] {
            assert!(lines.iter().any(|line| line.starts_with(kind)), "no {kind}: {lines:?}");
        }
    }
}
