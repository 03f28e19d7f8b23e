//! Where in a cluster pods of scripts may run, and with whose image credentials.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, LocalObjectReference, PodSpec, Toleration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolbus_json::Limits;

/// Members of a pod's spec that say where it may run, as JSON in the cluster's own words:
/// `nodeSelector`, `tolerations`, `affinity`, `priorityClassName` and `imagePullSecrets`. Other
/// members are refused: they could weaken what holds a script.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PodPlacement(Members);

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Members {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    node_selector: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tolerations: Vec<Toleration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    affinity: Option<Affinity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority_class_name: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    image_pull_secrets: Vec<LocalObjectReference>,
}

/// A placement as a setting has it. A whole object of a cluster has about as many bytes at most.
const PLACEMENT_LIMITS: Limits = Limits::of_bytes(1 << 20).with_values(10_000);
/// The label of nodes that names their kind of processor.
const ARCHITECTURE: &str = "kubernetes.io/arch";

impl PodPlacement {
    /// The kind of processor that pods are kept to, where the node selector names one.
    pub(crate) fn architecture(&self) -> Option<&str> {
        self.0.node_selector.get(ARCHITECTURE).map(String::as_str)
    }

    pub(crate) fn apply(&self, spec: &mut PodSpec) {
        let Members { node_selector, tolerations, affinity, priority_class_name, .. } =
            self.0.clone();
        let image_pull_secrets = self.0.image_pull_secrets.clone();

        spec.node_selector = (!node_selector.is_empty()).then_some(node_selector);
        spec.tolerations = (!tolerations.is_empty()).then_some(tolerations);
        spec.affinity = affinity;
        spec.priority_class_name = priority_class_name;
        spec.image_pull_secrets = (!image_pull_secrets.is_empty()).then_some(image_pull_secrets);
    }
}

impl TryFrom<String> for PodPlacement {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let members = toolbus_json::from_str(&text, &PLACEMENT_LIMITS);
        members.map(Self).map_err(|error| error.to_string())
    }
}

impl From<PodPlacement> for String {
    fn from(placement: PodPlacement) -> Self {
        if placement == PodPlacement::default() {
            return Self::new();
        }
        serde_json::to_string(&placement.0).expect("members of a pod can be written as JSON")
    }
}

impl JsonSchema for PodPlacement {
    fn schema_name() -> Cow<'static, str> {
        "PodPlacement".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string" })
    }
}
