//! Volumes that the tests' cluster has no provisioner for: folders of its node, under one of their
//! own that goes when this is dropped. A pod with the node's `/tmp` makes and removes them; the
//! same pod is a package index, whose volume is one of them.
//!
//! They are local volumes, and not plain paths, so that they are given to a pod's group as most
//! disks are.

use serde_json::{Value, json};
use toolbus_testkit::tools::{Cluster, output};

use crate::release::apply;
use crate::support::until;

const INDEX: &str = include_str!("../../../toolbus-pods/tests/cluster/index.py");
/// The index's own image: what it reads wheels from.
const IMAGE: &str = "toolbus.local/python-science:1";
pub(crate) const INDEX_PORT: u16 = 8080;

/// One for each claim of a release.
const VOLUMES: [(&str, &str); 3] =
    [("bridge", "ReadWriteOnce"), ("broker", "ReadWriteOnce"), ("packages", "ReadWriteMany")];

/// The volumes, and the index.
pub(crate) struct Volumes {
    cluster: Cluster,
    /// Of the folder, of the namespace, and what the names of the volumes begin with.
    name: String,
}

impl Volumes {
    pub(crate) fn new(cluster: Cluster) -> Self {
        let volumes = Self { cluster, name: format!("ship-folders-{}", std::process::id()) };
        output(volumes.cluster.kubectl().args(["create", "namespace", &volumes.name])).unwrap();
        volumes.make_pod();
        let node = volumes.look(&["get", "pod", "index", "--output=jsonpath={.spec.nodeName}"]);
        let node = node.unwrap();
        for (kind, mode) in VOLUMES {
            apply(volumes.cluster.kubectl(), &volumes.describe(kind, mode, &node));
        }
        volumes
    }

    /// The storage class by which a claim finds this volume and no other.
    pub(crate) fn class(&self, kind: &str) -> String {
        format!("{}-{kind}", self.name)
    }

    /// The address of the index, from pods.
    pub(crate) fn index(&self) -> String {
        let address = self.look(&["get", "pod", "index", "--output=jsonpath={.status.podIP}"]);
        format!("http://{}:{INDEX_PORT}/simple", address.unwrap())
    }

    /// Where the index is, as a peer of a NetworkPolicy.
    pub(crate) fn peer(&self) -> Value {
        let namespace = json!({"matchLabels": {"kubernetes.io/metadata.name": self.name}});
        json!({"namespaceSelector": namespace, "podSelector": {"matchLabels": {"app": "index"}}})
    }

    /// How often the index was asked for each file, as JSON.
    pub(crate) fn asked(&self) -> anyhow::Result<String> {
        let path = format!("/api/v1/namespaces/{}/pods/index:{INDEX_PORT}/proxy/asked", self.name);
        output(self.cluster.kubectl().args(["get", "--raw", &path]))
    }

    /// `kubectl` in the namespace of the index.
    fn look(&self, arguments: &[&str]) -> anyhow::Result<String> {
        output(self.cluster.kubectl().args(["--namespace", &self.name]).args(arguments))
    }

    fn make_pod(&self) {
        let folders = VOLUMES.map(|(kind, _)| format!("/node/{}/{kind}", self.name)).join(" ");
        let serve = format!(
            "mkdir -p {folders} && ln -s /node/{}/packages /volume && exec python3 -c \"$INDEX\"",
            self.name
        );
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "index", "namespace": self.name, "labels": {"app": "index"}},
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "automountServiceAccountToken": false,
                "containers": [{
                    "name": "index", "image": IMAGE, "imagePullPolicy": "IfNotPresent",
                    "command": ["sh", "-c", serve],
                    "env": [{"name": "INDEX", "value": INDEX}],
                    "volumeMounts": [{"name": "node", "mountPath": "/node"}],
                }],
                "volumes": [{"name": "node", "hostPath": {"path": "/tmp", "type": "Directory"}}],
            },
        });

        apply(self.cluster.kubectl(), &pod);
        until(|| self.asked());
    }

    fn describe(&self, kind: &str, mode: &str, node: &str) -> Value {
        let is_node = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": [node]});
        json!({
            "apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": {"name": self.class(kind), "labels": {"test": self.name}},
            "spec": {
                "capacity": {"storage": "8Gi"}, "accessModes": [mode],
                "storageClassName": self.class(kind),
                "persistentVolumeReclaimPolicy": "Retain",
                "local": {"path": format!("/tmp/{}/{kind}", self.name)},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [is_node]}]}},
            },
        })
    }
}

impl Drop for Volumes {
    fn drop(&mut self) {
        // A cluster that is away cannot be tidied.
        // Pods that end may write until they have.
        let folder = format!("/node/{}", self.name);
        let remove = format!("for _ in $(seq 100); do rm -rf {folder} && break; sleep 0.1; done");
        let _ = self.look(&["exec", "index", "--", "sh", "-c", &remove]);
        let label = format!("--selector=test={}", self.name);
        for gone in [["persistentvolumes", &label], ["namespace", &self.name]] {
            let _ = output(self.cluster.kubectl().arg("delete").args(gone).arg("--wait=false"));
        }
    }
}
