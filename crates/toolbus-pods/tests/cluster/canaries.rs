//! Listeners where a pod could reach them: another pod, a Service, the node itself.
//!
//! They are in a namespace without any policy, so only what holds a script keeps it from them. That
//! they hear who calls is proved first, by a pod that does.

use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use k8s_openapi::api::core::v1::{Namespace, Pod, Service};
use kube::api::{DeleteParams, ListParams, LogParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use toolbus_scripts::conformance::Canaries;
use uuid::Uuid;

pub(crate) const NAMESPACE: &str = "toolbus-test-canaries";
const IMAGE: &str = "python:3.12-slim";
/// How long a pod of these may take to start, or a message to arrive.
const PATIENCE: Duration = Duration::from_secs(120);
/// After this the cluster ends what a failed test left.
const LIFE_SECONDS: u64 = 300;

/// Says on a line of its own who called.
pub(crate) const LISTEN: &str = "
import socket, sys, threading
port = int(sys.argv[1])
stream = socket.create_server(('', port))
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind(('', port))
def hear():
    while True: print('datagram', datagrams.recvfrom(16)[1], flush=True)
threading.Thread(target=hear, daemon=True).start()
print('listening', flush=True)
while True: print('stream', stream.accept()[1], flush=True)
";
/// A Service leads somewhere a moment after its pod is ready, so that is tried until it does.
const CALL: &str = "
import socket, sys, time
for place in sys.argv[1:]:
    host, port = place.split(':')
    for _ in range(50):
        try:
            socket.create_connection((host, int(port)), 1).close()
            break
        except OSError as error:
            print(place, error, flush=True)
            time.sleep(0.2)
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', (host, int(port)))
";

/// Starts them and proves that they hear.
pub(crate) async fn start(client: &Client) -> Canaries {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = object(json!({"metadata": {"name": NAMESPACE}}));
    // It may be there.
    let _ = namespaces.create(&PostParams::default(), &namespace).await;
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let services: Api<Service> = Api::namespaced(client.clone(), NAMESPACE);
    // What an earlier test left.
    let ended = ListParams::default().fields("status.phase=Failed");
    pods.delete_collection(&DeleteParams::default(), &ended).await.expect("deleted");

    let id = &Uuid::new_v4().simple().to_string()[..10];
    let port = 20_000 + u16::from_str_radix(&id[..3], 16).expect("digits");
    let (near, node) = (format!("canary-{id}"), format!("node-{id}"));
    for (name, on_node) in [(&near, json!(false)), (&node, json!(true))] {
        let mut pod = described(name, LISTEN, &[port.to_string()]);
        pod["spec"]["hostNetwork"] = on_node;
        pods.create(&PostParams::default(), &object(pod)).await.expect("a pod");
    }
    let service = object(json!({
        "metadata": {"name": near},
        "spec": {"selector": {"canary": near}, "ports": [
            {"name": "stream", "port": port, "protocol": "TCP"},
            {"name": "datagrams", "port": port, "protocol": "UDP"},
        ]},
    }));
    let service: Service =
        services.create(&PostParams::default(), &service).await.expect("a service");
    let service = service.spec.and_then(|spec| spec.cluster_ip).expect("an address");
    let mut addresses = vec![format!("{service}:{port}")];
    for name in [&near, &node] {
        heard(&pods, name, |lines| lines.len() == 1).await;
        addresses.push(format!("{}:{port}", address(&pods, name).await));
    }

    let caller = format!("caller-{id}");
    let pod = object(described(&caller, CALL, &addresses));
    pods.create(&PostParams::default(), &pod).await.expect("a pod");
    // By its own address and by the Service's, once each way; on the node, once each way.
    heard(&pods, &near, |lines| lines.len() == 5).await;
    heard(&pods, &node, |lines| lines.len() == 3).await;

    let callers = async move {
        let mut callers = heard(&pods, &near, |lines| lines.len() >= 5).await.split_off(5);
        callers.extend(heard(&pods, &node, |lines| lines.len() >= 3).await.split_off(3));
        let now = DeleteParams::default().grace_period(0);
        for name in [&near, &node, &caller] {
            pods.delete(name, &now).await.expect("deleted");
        }
        services.delete(&near, &now).await.expect("deleted");
        callers
    };
    Canaries { addresses, callers: callers.boxed() }
}

/// The address of a pod. Its process may be at work before the API knows of it.
pub(crate) async fn address(pods: &Api<Pod>, name: &str) -> String {
    let end = Instant::now() + PATIENCE;
    loop {
        let pod = pods.get(name).await.expect("a pod");
        if let Some(address) = pod.status.and_then(|status| status.pod_ip) {
            return address;
        }
        assert!(Instant::now() < end, "{name} has no address");
        // sleeps: looks at the cluster again, within a limit.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// What a canary has said, once that is as it should be.
pub(crate) async fn heard(
    pods: &Api<Pod>,
    name: &str,
    enough: impl Fn(&[String]) -> bool,
) -> Vec<String> {
    let end = Instant::now() + PATIENCE;
    loop {
        // There is no log before there is a container.
        let log = pods.logs(name, &LogParams::default()).await.unwrap_or_default();
        let lines: Vec<String> = log.lines().map(str::to_owned).collect();
        if enough(&lines) {
            return lines;
        }
        assert!(Instant::now() < end, "{name} heard {lines:?}");
        // sleeps: looks at the cluster again, within a limit.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A pod that runs a program of Python.
pub(crate) fn described(name: &str, program: &str, arguments: &[String]) -> Value {
    let mut command = vec!["python3", "-c", program];
    command.extend(arguments.iter().map(String::as_str));
    json!({
        "metadata": {"name": name, "labels": {"canary": name}},
        "spec": {
            "restartPolicy": "Never",
            "activeDeadlineSeconds": LIFE_SECONDS,
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": false,
            "containers": [{
                "name": "canary", "image": IMAGE, "command": command,
                "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
            }],
        },
    })
}

fn object<K: serde::de::DeserializeOwned>(description: Value) -> K {
    serde_json::from_value(description).expect("the template is one of these")
}
