//! The description of a script's pod: its name, and everything that it may see and use.
//!
//! The pod passes the cluster's `restricted` level and more. Invariants: nothing of a request is in
//! it but the call's id, which is in an annotation, the one place that takes any text, and its key,
//! which means nothing to anybody else; one call has one name, so that the cluster itself accepts
//! no second pod for it; no two pods share a user id but by chance, so that the kernel's count of a
//! user's processes is that of one pod.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt as _;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use toolbus_scripts::runner::CallKey;
use uuid::Uuid;

use crate::program::PROGRAM;
use crate::settings::KubernetesSettings;

/// The label that all pods of ours have, and its value.
pub(crate) const SELECTOR: &str = "app.kubernetes.io/managed-by=toolbus-scripts-manager";
/// The container's name.
pub(crate) const CONTAINER: &str = "script";
/// The label that names a pod's call, as far as labels are long.
pub(crate) const CALL: &str = "toolbus.dev/call";
/// The label of a pod that waits for its call: in short, how it was described.
const WARM: &str = "toolbus.dev/warm";
/// The label that names the manager which a pod belongs to.
pub(crate) const MANAGER: &str = "toolbus.dev/manager";
/// The annotation with what a pod's reports begin with. The script never sees it: nothing in the
/// pod reaches the cluster.
const NONCE: &str = "toolbus.dev/nonce";
const CALL_ID: &str = "rockbot.dev/tool-call-id";
/// Longer ids are cut in the annotation; all annotations together have 256 KiB.
const CALL_ID_CHARS_MAX: usize = 1024;
/// User ids begin here, far above those that systems give to people and services.
const USER_ID_FIRST: u32 = 1_000_000_000;
const USER_IDS: u32 = 1_000_000_000;
/// In a user namespace of its own a pod has ids below 65536 alone, and its processes are counted in
/// that namespace. Left out are root's and 65534, which stands for everybody who has no id there.
const NAMESPACED_USER_IDS: u32 = 65_533;
/// The group of all pods, so that what one of them writes to a volume is another's to remove.
pub(crate) const GROUP_ID: i64 = 65534;
/// What is added to all other times before the cluster itself ends a pod: it must never come first.
const DEADLINE_GRACE: Duration = Duration::from_secs(30);

/// The identity of a pod.
#[derive(Debug)]
pub(crate) struct PodIdentity {
    /// The pod's name.
    pub(crate) name: String,
    /// What its reports begin with, new for each pod.
    pub(crate) nonce: String,
    /// The manager that made it.
    pub(crate) manager: String,
    /// The call that it is for, with its id as its caller wrote it.
    pub(crate) call: Option<(CallKey, String)>,
}

impl PodIdentity {
    /// The pod of a call: valid whatever the call's id, and always the same name.
    pub(crate) fn for_call(manager: &str, key: CallKey, call_id: &str) -> Self {
        Self {
            name: format!("rockbot-script-{}", call_label(key)),
            nonce: Uuid::new_v4().simple().to_string(),
            manager: manager.to_owned(),
            call: Some((key, call_id.to_owned())),
        }
    }

    /// A pod that is there before its call.
    pub(crate) fn for_warm(manager: &str) -> Self {
        let name = Uuid::new_v4().simple().to_string();
        Self {
            name: format!("rockbot-script-warm-{}", &name[..16]),
            nonce: Uuid::new_v4().simple().to_string(),
            manager: manager.to_owned(),
            call: None,
        }
    }

    /// A packages pod.
    pub(crate) fn for_installer(manager: &str) -> Self {
        Self::for_purpose(manager, "packages")
    }

    /// The pod that probes the network policy.
    pub(crate) fn for_probe(manager: &str) -> Self {
        Self::for_purpose(manager, "probe")
    }

    fn for_purpose(manager: &str, purpose: &str) -> Self {
        Self {
            name: format!("rockbot-{purpose}-{}", Uuid::new_v4().simple()),
            nonce: Uuid::new_v4().simple().to_string(),
            manager: manager.to_owned(),
            call: None,
        }
    }
}

/// What all pods under these settings have in common, in short: two managers with the same make the
/// same pods.
pub(crate) fn template_digest(settings: &KubernetesSettings) -> String {
    let identity = PodIdentity {
        name: String::new(),
        nonce: String::new(),
        manager: String::new(),
        call: None,
    };
    let described = serde_json::to_vec(&describe_pod(settings, &identity, Duration::ZERO));
    let digest = Sha256::digest(described.expect("a description can be written as JSON"));
    digest[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Describes the pod of this identity as a warm one.
pub(crate) fn describe_warm_pod(
    settings: &KubernetesSettings,
    identity: &PodIdentity,
    template: &str,
    life: Duration,
) -> Pod {
    let mut pod = describe_pod(settings, identity, life);
    pod.labels_mut().insert(WARM.to_owned(), template.to_owned());
    pod
}

/// Whether a pod waits for its call, as one of this manager's and of this template.
pub(crate) fn is_warm(pod: &ObjectMeta, manager: &str, template: &str) -> bool {
    label(pod, WARM) == Some(template) && label(pod, MANAGER) == Some(manager)
}

/// The manager of a pod, where the pod is that of this call.
pub(crate) fn manager_for_call(pod: &ObjectMeta, key: CallKey) -> Option<&str> {
    label(pod, CALL).filter(|call| *call == call_label(key)).and_then(|_| label(pod, MANAGER))
}

fn label<'a>(pod: &'a ObjectMeta, name: &str) -> Option<&'a str> {
    pod.labels.as_ref()?.get(name).map(String::as_str)
}

/// The change that makes a pod which waits the pod of a call, if it still has this version. `life`
/// is the longest that it may need, from its beginning: less than it was given then.
pub(crate) fn claim_patch(
    key: CallKey,
    call_id: &str,
    life: Duration,
    version: &str,
) -> serde_json::Value {
    json!({
        "metadata": {
            "resourceVersion": version,
            "labels": {WARM: null, CALL: call_label(key)},
            "annotations": {CALL_ID: truncated_call_id(call_id)},
        },
        "spec": {"activeDeadlineSeconds": (life + DEADLINE_GRACE).as_secs()},
    })
}

fn truncated_call_id(call_id: &str) -> String {
    call_id.chars().take(CALL_ID_CHARS_MAX).collect()
}

/// The value of the label [`CALL`].
pub(crate) fn call_label(key: CallKey) -> String {
    let mut label = key.to_string();
    label.truncate(32);
    label
}

/// What a pod's reports begin with.
pub(crate) fn nonce_of(pod: &Pod) -> Option<&str> {
    pod.annotations().get(NONCE).map(String::as_str)
}

/// Labels and annotations: what changes with a pod's call and owner.
fn pod_metadata(identity: &PodIdentity) -> serde_json::Value {
    let mut metadata = json!({
        "name": identity.name,
        "labels": {
            "app": "rockbot-script",
            "app.kubernetes.io/managed-by": "toolbus-scripts-manager",
            MANAGER: identity.manager,
        },
        // What a script prints is for its caller: collectors of logs that know this leave it out.
        "annotations": {NONCE: identity.nonce, "fluentbit.io/exclude": "true"},
    });

    if let Some((key, call_id)) = &identity.call {
        metadata["labels"][CALL] = json!(call_label(*key));
        metadata["annotations"][CALL_ID] = json!(truncated_call_id(call_id));
    }

    metadata
}

/// Describes the pod of this identity. `life` is the longest that it may need in all.
pub(crate) fn describe_pod(
    settings: &KubernetesSettings,
    identity: &PodIdentity,
    life: Duration,
) -> Pod {
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": pod_metadata(identity),
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "activeDeadlineSeconds": (life + DEADLINE_GRACE).as_secs(),
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            // A resolver that is not there: names are looked up nowhere.
            "dnsPolicy": "None",
            "dnsConfig": {"nameservers": ["127.0.0.1"]},
            "hostname": "sandbox",
            "securityContext": {
                "runAsNonRoot": true,
                "runAsUser": user_id(&identity.name, settings.user_namespaces),
                "runAsGroup": GROUP_ID,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [{
                "name": CONTAINER,
                "image": settings.image,
                "imagePullPolicy": "IfNotPresent",
                "command": ["python3", "-I", "-B", "-c", PROGRAM.as_str()],
                "stdin": true,
                "workingDir": "/",
                // The node gives the container a file of its own there that anybody may write, and
                // does not count what is in it. In this folder nobody but root finds it.
                "terminationMessagePath": "/root/termination-log",
                "env": [
                    {"name": "LANG", "value": "C.UTF-8"},
                    // An arena for each thread would reserve address space beyond the limit.
                    {"name": "MALLOC_ARENA_MAX", "value": "1"},
                ],
                "resources": {
                    "requests": {"cpu": settings.cpu_request, "memory": settings.memory_request},
                    "limits": {
                        "cpu": settings.cpu_limit,
                        "memory": settings.memory_limit,
                        "ephemeral-storage": settings.ephemeral_storage_limit,
                    },
                },
                "securityContext": {
                    "allowPrivilegeEscalation": false,
                    "readOnlyRootFilesystem": true,
                    "capabilities": {"drop": ["ALL"]},
                },
            }],
        },
    });

    if let Some(class) = &settings.runtime_class {
        pod["spec"]["runtimeClassName"] = json!(class);
    }

    if settings.user_namespaces {
        pod["spec"]["hostUsers"] = json!(false);
    }

    let mut pod: Pod = serde_json::from_value(pod).expect("the template is a pod");
    settings.placement.apply(pod.spec.get_or_insert_default());
    settings.annotations.add_to(pod.annotations_mut());
    pod
}

fn user_id(name: &str, namespaced: bool) -> u32 {
    let digest = Sha256::digest(name.as_bytes());
    let number = u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]);
    if namespaced { 1 + number % NAMESPACED_USER_IDS } else { USER_ID_FIRST + number % USER_IDS }
}

#[cfg(test)]
mod tests;
