//! The settings of scripts in pods.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolbus_config::{ByteSize, Mistakes, Secret, TimeSpan};

pub use crate::placement::PodPlacement;
pub use crate::pod_annotations::PodAnnotations;

/// How scripts run in pods of a cluster. Which cluster is what kubectl would take: KUBECONFIG, else
/// `~/.kube/config`, else the cluster that the service itself runs in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct KubernetesSettings {
    /// The namespace of the pods.
    pub namespace: String,
    /// The image that scripts run in. It needs `python3`, 3.11 or newer.
    pub image: String,
    /// Most processor time that one script gets, as Kubernetes writes it.
    pub cpu_limit: String,
    /// Processor time that the scheduler sets aside for one script.
    pub cpu_request: String,
    /// Most memory of one script, all its processes and files together.
    pub memory_limit: String,
    /// Memory that the scheduler sets aside for one script.
    pub memory_request: String,
    /// Most disk space that one pod may take up outside of memory, its log included.
    pub ephemeral_storage_limit: String,
    /// A runtime class, such as that of gVisor or Kata Containers.
    pub runtime_class: Option<String>,
    /// Gives each pod a user namespace of its own. Needs Kubernetes 1.33 and containerd 2.0 or
    /// newer.
    pub user_namespaces: bool,
    /// Where the pods may run, as JSON of these members of a pod's spec: `nodeSelector`,
    /// `tolerations`, `affinity`, `priorityClassName`, `imagePullSecrets`.
    pub placement: PodPlacement,
    /// How long a pod may stay without a node that takes it; then the script is refused as busy.
    /// Where an autoscaler adds nodes, as long as that takes, and less than `start_timeout`.
    pub unscheduled_timeout: TimeSpan,
    /// How long a pod may take until its script starts, with pulling the image. A call that has
    /// less time is told why its script has not started before that is over.
    pub start_timeout: TimeSpan,
    /// How packages for scripts are installed and kept.
    pub packages: PackagesSettings,
    /// Makes the namespace, its network policy, quota and limits at start where they are missing
    /// and this service may make them.
    pub prepare_namespace: bool,
    /// Starts though the namespace does not enforce the PodSecurity level `restricted`, has no
    /// network policy that denies all traffic, or no quota. What holds scripts then is their pod
    /// alone.
    pub allow_unguarded_namespace: bool,
    /// Annotations of all pods beside our own, as a JSON object of texts: for collectors of logs
    /// that leave out pods by annotations. What a script prints stands in its pod's log.
    pub annotations: PodAnnotations,
    /// Pods that wait for a script, so that it need not wait for one.
    pub warm: WarmSettings,
}

/// Interpreters that were started before anybody asked for one. Each runs one script and is then
/// replaced; what asks for more than they have (packages) gets a pod of its own as ever.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WarmSettings {
    /// How many wait. With 0 each script gets a pod that is made for it. Each takes up what
    /// `cpu_request` and `memory_request` say while it waits, and counts toward the namespace's
    /// quota.
    #[schemars(range(min = 0, max = 64))]
    pub size: u16,
    /// How long one waits before another is made in its place, thirty minutes at the most.
    pub max_age: TimeSpan,
}

impl WarmSettings {
    /// The greatest age that pods may be given.
    pub const AGE_TTL_MAX: Duration = Duration::from_secs(30 * 60);
}

impl Default for WarmSettings {
    fn default() -> Self {
        Self { size: 0, max_age: TimeSpan::seconds(600) }
    }
}

impl KubernetesSettings {
    /// Adds what is wrong with them to the mistakes of a program that has them as `kubernetes`.
    pub fn check(&self, mistakes: &mut Mistakes<'_>) {
        let max_age = self.warm.max_age.duration();
        if !(Duration::from_secs(1)..=WarmSettings::AGE_TTL_MAX).contains(&max_age) {
            mistakes.add("kubernetes.warm.max_age", "between one second and thirty minutes");
        }

        let packages = &self.packages;
        match (&packages.index, &packages.claim) {
            (Some(_), None) => {
                mistakes.add("kubernetes.packages.claim", "packages need a volume to be kept on");
            }
            (None, Some(_)) => {
                mistakes.add("kubernetes.packages.index", "packages need an index to come from");
            }
            _ => {}
        }
    }
}

impl Default for KubernetesSettings {
    fn default() -> Self {
        Self {
            namespace: "rockbot-scripts".to_owned(),
            image: "python:3.12-slim".to_owned(),
            cpu_limit: "500m".to_owned(),
            cpu_request: "50m".to_owned(),
            memory_limit: "256Mi".to_owned(),
            memory_request: "64Mi".to_owned(),
            ephemeral_storage_limit: "64Mi".to_owned(),
            runtime_class: None,
            user_namespaces: false,
            placement: PodPlacement::default(),
            unscheduled_timeout: TimeSpan::seconds(3),
            start_timeout: TimeSpan::seconds(60),
            packages: PackagesSettings::default(),
            prepare_namespace: false,
            allow_unguarded_namespace: false,
            annotations: PodAnnotations::default(),
            warm: WarmSettings::default(),
        }
    }
}

/// How packages for scripts are installed, in pods that reach a package index and nothing else, and
/// kept. Without an index and a claim scripts get none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PackagesSettings {
    /// The address of the package index, or of a proxy in front of it, as pip takes it.
    pub index: Option<Secret>,
    /// Labels of the index's pods, in any namespace, such as `app=index,tier=cache`: for the
    /// network policy of a prepared namespace.
    pub index_labels: Option<String>,
    /// Ranges of the index's addresses, such as 10.1.2.0/24, for the same policy.
    pub index_addresses: Vec<String>,
    /// Ranges of addresses where names are looked up beside the cluster's DNS (`k8s-app=kube-dns`
    /// in `kube-system`), such as 169.254.20.10/32 for NodeLocal DNSCache, for the same policy.
    pub dns_addresses: Vec<String>,
    /// The index's port, for the same policy.
    pub index_port: u16,
    /// The image of packages pods, where it is not that of scripts. It needs `python3` with pip,
    /// and the Python of the scripts' image.
    pub image: Option<String>,
    /// The claim of the volume that installed sets are kept on. Where pods run on several nodes, it
    /// must be one that several nodes can use. Group 65534 must be able to write to it.
    pub claim: Option<String>,
    /// How long installing may take.
    pub timeout: TimeSpan,
    /// Most memory of a packages pod.
    pub memory_limit: String,
    /// The largest set.
    pub set_bytes: ByteSize,
    /// How much all sets may take up. Those that were unused for longest go first; what was used
    /// within the last 100 minutes stays in any case.
    pub cache_bytes: ByteSize,
    /// How much of it sets may take up that one agent had installed, and that were used within the
    /// last 100 minutes. Without it: half of `cache_bytes`.
    pub agent_bytes: Option<ByteSize>,
}

impl Default for PackagesSettings {
    fn default() -> Self {
        Self {
            index: None,
            index_labels: None,
            index_addresses: Vec::new(),
            dns_addresses: Vec::new(),
            index_port: 443,
            image: None,
            claim: None,
            timeout: TimeSpan::seconds(110),
            memory_limit: "1Gi".to_owned(),
            set_bytes: ByteSize::mebibytes(1024),
            cache_bytes: ByteSize::mebibytes(4096),
            agent_bytes: None,
        }
    }
}
