//! The egress policy of packages pods.

use std::collections::BTreeMap;

use k8s_openapi::api::networking::v1::NetworkPolicy;
use serde_json::{Value, json};

use super::installer_pod;
use crate::settings::PackagesSettings;

/// The name of the policy.
const NAME: &str = "toolbus-packages";

/// Describes the policy that lets packages pods reach the index: the pods of these labels, in any
/// namespace, and these ranges of addresses, at its port; and the cluster's DNS. Names can carry
/// data out, so nobody else's.
pub(crate) fn egress_policy(settings: &PackagesSettings) -> NetworkPolicy {
    let block = |range: &String| json!({"ipBlock": {"cidr": range}});
    let mut peers: Vec<Value> = settings.index_addresses.iter().map(block).collect();
    if let Some(labels) = &settings.index_labels {
        let labels: BTreeMap<&str, &str> =
            labels.split(',').filter_map(|label| label.trim().split_once('=')).collect();
        // A selector without labels would select every pod there is.
        if !labels.is_empty() {
            peers.push(json!({
                "namespaceSelector": {},
                "podSelector": {"matchLabels": labels},
            }));
        }
    }

    let cluster_dns = json!({
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
        "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
    });
    let resolvers: Vec<Value> =
        [cluster_dns].into_iter().chain(settings.dns_addresses.iter().map(block)).collect();
    let names = json!({
        "to": resolvers,
        "ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}],
    });
    let index = json!({"to": peers, "ports": [{"protocol": "TCP", "port": settings.index_port}]});

    // A rule without peers would open the port to everybody.
    let egress = if peers.is_empty() { vec![names] } else { vec![names, index] };
    let described = json!({
        "metadata": {"name": NAME},
        "spec": {
            "podSelector": {"matchLabels": installer_pod::installer_labels()},
            "policyTypes": ["Egress"],
            "egress": egress,
        },
    });

    serde_json::from_value(described).expect("the template is a policy")
}
