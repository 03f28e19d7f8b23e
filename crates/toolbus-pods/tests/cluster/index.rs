//! A package index in the cluster, and a volume for what is installed from it: a folder of the
//! node, with its claim. Gone when [`Index::end`] was called.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Namespace, PersistentVolume, PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, GetParams, Patch, PatchParams, PostParams};
use kube::core::Request;
use kube::{Api, Client};
use serde_json::json;
use toolbus_config::{Secret, TimeSpan};
use toolbus_pods::settings::PackagesSettings;
use uuid::Uuid;

/// Where indexes are, which need a namespace without levels.
const NAMESPACE: &str = "toolbus-test-index";
/// What has the wheels that others made, in `/wheels`. Packages are for the Python in it.
pub(crate) const IMAGE: &str = "toolbus.local/python-science:1";
const PORT: u16 = 8080;
/// How long a pod of these may take to start, or a claim to be bound.
const PATIENCE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(100);

/// An index and a volume.
pub(crate) struct Index {
    client: Client,
    /// Of the scripts' pods. Whoever has an index has one of its own, because a namespace has one
    /// way out.
    pub(crate) namespace: String,
    /// Of the index's pod, of the volume and of its claim.
    pub(crate) name: String,
    pub(crate) address: String,
}

impl Index {
    pub(crate) async fn start(client: Client, namespace: &str) -> Self {
        let name = format!("toolbus-test-{}", &Uuid::new_v4().simple().to_string()[..12]);
        // A manager starts only in a namespace that enforces this level.
        let restricted = json!({"pod-security.kubernetes.io/enforce": "restricted"});
        for (name, labels) in [(namespace, restricted), (NAMESPACE, json!({}))] {
            let described = json!({"metadata": {"name": name, "labels": labels}});
            let namespaces: Api<Namespace> = Api::all(client.clone());
            let created = serde_json::from_value(described.clone()).expect("a namespace");
            // It may be there already, of an earlier run and without the label.
            let _ = namespaces.create(&PostParams::default(), &created).await;
            let (parameters, patch) = (PatchParams::default(), Patch::Merge(&described));
            namespaces.patch(name, &parameters, &patch).await.expect("a namespace");
        }
        let namespace = namespace.to_owned();
        let mut index = Self { client, namespace, name, address: String::new() };
        index.make_volume().await;
        index.address = index.make_pod().await;
        index
    }

    /// A folder of the node.
    async fn make_volume(&self) {
        let volume = json!({
            "metadata": {"name": self.name},
            "spec": {
                "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"],
                "storageClassName": "", "persistentVolumeReclaimPolicy": "Retain",
                "hostPath": {"path": format!("/tmp/{}", self.name), "type": "DirectoryOrCreate"},
                "claimRef": {"namespace": self.namespace, "name": self.name},
            },
        });
        let volume: PersistentVolume = serde_json::from_value(volume).expect("a volume");
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        volumes.create(&PostParams::default(), &volume).await.expect("a volume");
        let claim = json!({
            "metadata": {"name": self.name},
            "spec": {
                "accessModes": ["ReadWriteMany"], "storageClassName": "",
                "volumeName": self.name, "resources": {"requests": {"storage": "1Gi"}},
            },
        });
        let claim: PersistentVolumeClaim = serde_json::from_value(claim).expect("a claim");
        let claims = self.claims();
        claims.create(&PostParams::default(), &claim).await.expect("a claim");
        let limit = Instant::now() + PATIENCE;
        let is_bound = |claim: PersistentVolumeClaim| {
            claim.status.and_then(|status| status.phase).is_some_and(|phase| phase == "Bound")
        };
        while !is_bound(claims.get(&self.name).await.expect("the claim")) {
            assert!(Instant::now() < limit, "the claim is not bound");
            // sleeps: looks at the cluster again, within a limit.
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Starts the index and waits until it answers; gives its address.
    async fn make_pod(&self) -> String {
        let pod = json!({
            "metadata": {"name": self.name, "labels": {"app": "toolbus-test-index", "test": self.name}},
            "spec": {
                "restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
                "containers": [{
                    "name": "index", "image": IMAGE, "imagePullPolicy": "IfNotPresent",
                    "command": ["python3", "-c", include_str!("index.py")],
                    "volumeMounts": [{"name": "volume", "mountPath": "/volume"}],
                }],
                "volumes": [{"name": "volume", "hostPath": {
                    "path": format!("/tmp/{}", self.name), "type": "DirectoryOrCreate",
                }}],
            },
        });
        let pod: Pod = serde_json::from_value(pod).expect("a pod");
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), NAMESPACE);
        pods.create(&PostParams::default(), &pod).await.expect("an index");
        let limit = Instant::now() + PATIENCE;
        while self.try_ask("asked").await.is_err() {
            assert!(Instant::now() < limit, "the index does not answer");
            // sleeps: looks at the cluster again, within a limit.
            tokio::time::sleep(PAUSE).await;
        }
        let pod = pods.get(&self.name).await.expect("the index");
        pod.status.and_then(|status| status.pod_ip).expect("an address")
    }

    fn claims(&self) -> Api<PersistentVolumeClaim> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// What `index.py` answers: `asked`, `volume`, `age`.
    pub(crate) async fn try_ask(&self, what: &str) -> Result<String, kube::Error> {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{}:{PORT}/proxy", self.name);
        let request = Request::new(path).get(what, &GetParams::default()).expect("a request");
        self.client.request_text(request).await
    }

    /// What makes a runner install from this index, onto this volume.
    pub(crate) fn settings(&self) -> PackagesSettings {
        PackagesSettings {
            index: Some(Secret::from(format!("http://{}:{PORT}/simple", self.address))),
            index_labels: Some(format!("test={}", self.name)),
            index_port: PORT,
            claim: Some(self.name.clone()),
            timeout: TimeSpan::seconds(60),
            ..PackagesSettings::default()
        }
    }

    /// Removes it, and what was installed.
    pub(crate) async fn end(self) {
        let now = DeleteParams::default().grace_period(0);
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), NAMESPACE);
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        self.try_ask("empty").await.expect("the volume is emptied");
        pods.delete(&self.name, &now).await.expect("deleted");
        self.claims().delete(&self.name, &now).await.expect("deleted");
        volumes.delete(&self.name, &now).await.expect("deleted");
    }
}
