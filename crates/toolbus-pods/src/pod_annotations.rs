//! Annotations that operators give to pods.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolbus_json::Limits;

/// Annotations as a setting has them. A cluster takes 256 KiB of them, which are more once they are
/// escaped.
const ANNOTATIONS_LIMITS: Limits = Limits::of_bytes(1 << 20).with_values(10_000);

/// Annotations of pods, as a JSON object of texts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PodAnnotations(BTreeMap<String, String>);

impl PodAnnotations {
    /// Adds them to others, which they do not replace.
    pub(crate) fn add_to(&self, annotations: &mut BTreeMap<String, String>) {
        for (name, value) in &self.0 {
            annotations.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
}

impl TryFrom<String> for PodAnnotations {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let annotations = toolbus_json::from_str(&text, &ANNOTATIONS_LIMITS);
        annotations.map(Self).map_err(|error| error.to_string())
    }
}

impl From<PodAnnotations> for String {
    fn from(annotations: PodAnnotations) -> Self {
        if annotations.0.is_empty() {
            return Self::new();
        }
        serde_json::to_string(&annotations.0).expect("texts can be written as JSON")
    }
}

impl JsonSchema for PodAnnotations {
    fn schema_name() -> Cow<'static, str> {
        "PodAnnotations".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string" })
    }
}
