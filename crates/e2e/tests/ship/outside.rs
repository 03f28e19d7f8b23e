//! A pod beside a release that is none of its own: it is OpenRouter to it, and the stranger who
//! tries the doors.

use anyhow::ensure;
use serde_json::{Value, json};

use crate::release::{Release, apply};
use crate::support::until;

/// What OpenRouter says of the account.
pub(crate) const CREDITS: &str =
    include_str!("../../../openrouter-mcp/tests/openrouter/answers/credits.json");
const SERVER: &str = include_str!("outside.py");
const NAME: &str = "outside";
const PORT: u16 = 8080;

/// Says of each door, a pair of host and port, whether it could be connected to. A name that is not
/// known ends it.
const TRY: &str = "
import concurrent.futures, json, socket, sys
def is_open(door):
    address = socket.gethostbyname(door[0])
    try:
        socket.create_connection((address, door[1]), 3).close()
        return True
    except OSError:
        return False
with concurrent.futures.ThreadPoolExecutor() as threads:
    print(json.dumps(list(threads.map(is_open, json.loads(sys.argv[1])))))
";

/// A host, as pods name it, and a port.
pub(crate) type Door = (String, u16);

/// The pod, in a release's namespace. It goes with that.
pub(crate) struct Outside {
    namespace: String,
    address: String,
}

impl Outside {
    /// `key` is what it is asked with.
    pub(crate) fn new(release: &Release, key: &str) -> Self {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": NAME, "namespace": release.name, "labels": {"app": NAME}},
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "automountServiceAccountToken": false,
                "securityContext": {
                    "runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [{
                    "name": NAME, "image": "python:3.12-slim", "imagePullPolicy": "Never",
                    "command": ["python3", "-c", SERVER],
                    "env": [{"name": "KEY", "value": key}, {"name": "ANSWER", "value": CREDITS}],
                    "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
                    "resources": {"requests": {"cpu": "5m", "memory": "16Mi"}},
                    "securityContext": {
                        "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
                    },
                }],
            },
        });

        apply(release.cluster.kubectl(), &pod);
        let wait = ["wait", "--for=condition=Ready", "pod", NAME, "--timeout=5m"];
        release.look(&wait).unwrap();
        let address = release.look(&["get", "pod", NAME, "--output=jsonpath={.status.podIP}"]);

        Self { namespace: release.name.clone(), address: address.unwrap() }
    }

    /// Makes it OpenRouter, and all that this release's service may reach of it.
    pub(crate) fn is_openrouter_of(&self, values: &mut Value) {
        let url = format!("http://{}:{PORT}/api/v1", self.address);
        values["openrouterMcp"]["env"] =
            json!([{"name": "TOOLBUS_OPENROUTER__BASE_URL", "value": url}]);
        let peer = json!({
            "namespaceSelector": in_namespace(&self.namespace),
            "podSelector": {"matchLabels": {"app": NAME}},
        });
        values["networkPolicy"]["openrouter"] =
            json!([{"to": [peer], "ports": [{"port": PORT, "protocol": "TCP"}]}]);
    }

    /// Nobody who is not named comes in at any of these doors. Of them, and of OpenRouter's, which
    /// is open to all, the bridge reaches the first `needed` ones.
    pub(crate) fn check_doors(&self, release: &Release, doors: &[Door], needed: usize) {
        let stranger = format!("pod/{NAME}");
        let none = vec![false; doors.len()];
        assert_eq!(open_to(release, &stranger, doors).unwrap(), none, "{doors:?}");
        let bridge = format!("deployment/{}", release.deployment("mcp-bridge"));
        let further = [doors, &[(self.address.clone(), PORT)]].concat();
        let expected: Vec<bool> = (0..further.len()).map(|index| index < needed).collect();
        assert_eq!(open_to(release, &bridge, &further).unwrap(), expected, "{further:?}");

        // Each is one to be kept out of: nobody would come in where none is either.
        let everybody = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": {"name": "everybody", "namespace": release.name},
            "spec": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{}]},
        });

        apply(release.cluster.kubectl(), &everybody);
        until(|| {
            let open = open_to(release, &stranger, doors)?;
            ensure!(open.iter().all(|open| *open), "{doors:?}: {open:?}");
            Ok(())
        });

        release.look(&["delete", "networkpolicy", "everybody"]).unwrap();
    }
}

/// A namespace, as NetworkPolicies choose it.
pub(crate) fn in_namespace(name: &str) -> Value {
    json!({"matchLabels": {"kubernetes.io/metadata.name": name}})
}

/// Which doors are open to a pod of the release's namespace, one that has Python.
fn open_to(release: &Release, pod: &str, doors: &[Door]) -> anyhow::Result<Vec<bool>> {
    let doors = json!(doors).to_string();
    let told = release.look(&["exec", pod, "--", "python3", "-c", TRY, &doors])?;
    Ok(serde_json::from_str(&told)?)
}
