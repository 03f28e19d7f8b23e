//! A release whose broker is somebody else's: that of another release, where it has a virtual host
//! and a user, as at a broker that many share.

use serde_json::{Value, json};

use crate::outside::in_namespace;
use crate::release::{Release, apply};
use crate::support::until;

/// The virtual host, its user and the secret with the user's password.
const NAME: &str = "borrowed";
const PASSWORD_KEY: &str = "rabbit-password";
const POLICIES: [&str; 2] = ["toolbus-dead-letters", "toolbus-queues"];

/// Makes `lender` a broker for `release`, whose values are changed to use it.
pub(crate) fn borrow_broker(release: &Release, values: &mut Value, lender: &Release) {
    let definitions = json!({
        "vhosts": [{"name": NAME}],
        "users": [{"name": NAME, "password": "hunter3", "tags": ["policymaker"], "limits": {}}],
        "permissions": [
            {"user": NAME, "vhost": NAME, "configure": ".*", "write": ".*", "read": ".*"},
        ],
    });

    // What it reads is its standard input.
    lender.rabbitmqctl(&format!("import_definitions <<'END'\n{definitions}\nEND")).unwrap();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": NAME, "namespace": release.name},
        "stringData": {PASSWORD_KEY: "hunter3"},
    });

    apply(release.cluster.kubectl(), &secret);
    let broker = json!({"matchLabels": {
        "app.kubernetes.io/component": "rabbitmq",
        "app.kubernetes.io/instance": lender.name,
    }});
    let way_in = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": {"name": NAME, "namespace": lender.name},
        "spec": {
            "podSelector": broker,
            "policyTypes": ["Ingress"],
            "ingress": [{
                "from": [{"namespaceSelector": in_namespace(&release.name)}],
                "ports": [{"port": 5672, "protocol": "TCP"}, {"port": 15672, "protocol": "TCP"}],
            }],
        },
    });

    apply(lender.cluster.kubectl(), &way_in);

    let host = format!("{}.{}", lender.deployment("rabbitmq"), lender.name);
    values["rabbitmq"] = json!({"enabled": false});
    values["broker"] = json!({
        "host": host,
        "virtualHost": NAME,
        "user": NAME,
        "existingSecret": NAME,
        "passwordKey": PASSWORD_KEY,
        "policies": {"enabled": true, "managementUrl": format!("http://{host}:15672")},
    });

    values["networkPolicy"]["brokerTo"] =
        json!([{"namespaceSelector": in_namespace(&lender.name), "podSelector": broker}]);
}

/// The release's job has set the bounds of its queues at the broker, and no queue is without. One
/// that was just declared is listed without for a moment.
pub(crate) fn check_borrowed(lender: &Release) {
    let list = format!("list_queues --vhost {NAME} --formatter=json name policy");
    until(|| {
        let queues = lender.rabbitmqctl(&list).unwrap();
        let queues: Vec<Value> = serde_json::from_str(&queues).unwrap();
        let is_bridges =
            |queue: &Value| queue["name"].as_str().unwrap().starts_with("rockbot.mcp-bridge.");
        let is_bounded = |queue: &Value| POLICIES.contains(&queue["policy"].as_str().unwrap());
        let is_whole = queues.iter().any(is_bridges) && queues.iter().all(is_bounded);
        if is_whole { Ok(()) } else { Err(queues) }
    });
}
