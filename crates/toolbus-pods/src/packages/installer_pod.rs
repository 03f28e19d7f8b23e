//! The pods of packages: one that installs, and those that use what was installed.
//!
//! Both are a script's pod with little else. Invariant: only the installer reaches the network, and
//! only it may write to the volume.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    PersistentVolumeClaimVolumeSource, Pod, PodSpec, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::pod_spec::GROUP_ID;
use crate::program::PROGRAM_WITH_NETWORK;
use crate::settings::KubernetesSettings;

/// The value of the label `app` of packages pods, by which a policy selects them.
pub(super) const APP: &str = "toolbus-packages";
/// Where the volume is mounted in a packages pod, and a set in a script's.
const MOUNT_PATH: &str = "/packages";
const VOLUME: &str = "packages";

/// The image of packages pods.
pub(super) fn installer_image(settings: &KubernetesSettings) -> &str {
    settings.packages.image.as_deref().unwrap_or(&settings.image)
}

/// Describes the pod that installs packages.
pub(super) fn describe_installer(mut pod: Pod, settings: &KubernetesSettings) -> Pod {
    pod.metadata.labels.get_or_insert_default().insert("app".to_owned(), APP.to_owned());
    let spec = pod.spec.get_or_insert_default();
    spec.dns_policy = Some("ClusterFirst".to_owned());
    spec.dns_config = None;

    // On volumes that know owners, new files are the group's; on others the operator sees to it.
    spec.security_context.get_or_insert_default().fs_group = Some(GROUP_ID);
    let container = &mut spec.containers[0];
    container.image = Some(installer_image(settings).to_owned());

    if let Some(program) = container.command.as_mut().and_then(|command| command.last_mut()) {
        program.clone_from(&PROGRAM_WITH_NETWORK);
    }

    let limits = container.resources.get_or_insert_default().limits.get_or_insert_default();
    limits.insert("memory".to_owned(), Quantity(settings.packages.memory_limit.clone()));
    mount_volume(spec, settings, None);
    pod
}

/// Mounts the package set of this key in a script's pod.
pub(crate) fn mount_set(mut pod: Pod, settings: &KubernetesSettings, key: &str) -> Pod {
    mount_volume(pod.spec.get_or_insert_default(), settings, Some(key));
    pod
}

/// Mounts the volume: one set read-only, or all of it to be written.
fn mount_volume(spec: &mut PodSpec, settings: &KubernetesSettings, set: Option<&str>) {
    let claim = PersistentVolumeClaimVolumeSource {
        claim_name: settings.packages.claim.clone().unwrap_or_default(),
        read_only: Some(set.is_some()),
    };
    spec.volumes.get_or_insert_default().push(Volume {
        name: VOLUME.to_owned(),
        persistent_volume_claim: Some(claim),
        ..Volume::default()
    });
    spec.containers[0].volume_mounts.get_or_insert_default().push(VolumeMount {
        name: VOLUME.to_owned(),
        mount_path: MOUNT_PATH.to_owned(),
        sub_path: set.map(str::to_owned),
        read_only: Some(set.is_some()),
        ..VolumeMount::default()
    });
}

/// The labels that select packages pods.
pub(super) fn installer_labels() -> BTreeMap<String, String> {
    BTreeMap::from([("app".to_owned(), APP.to_owned())])
}
