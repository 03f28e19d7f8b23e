//! The section `linkedin` of the settings.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
#[cfg(not(feature = "linkedin"))]
use toolbus_config::build_features::{BuildFeature, LeftOut};
use toolbus_config::{HttpUrl, Mistakes, TimeSpan};

/// The longest time that a page may take.
const TIMEOUT_MAX: Duration = Duration::from_secs(5 * 60);

/// How LinkedIn is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LinkedInSettings {
    /// Whether models have the tools `linkedin_jobs` and `linkedin_job_detail`.
    pub enabled: bool,
    /// Where LinkedIn is, if not at its own address.
    pub base_url: Option<HttpUrl>,
    /// How long a page may take, up to five minutes.
    pub timeout: TimeSpan,
}

impl Default for LinkedInSettings {
    fn default() -> Self {
        Self { enabled: false, base_url: None, timeout: TimeSpan::seconds(30) }
    }
}

impl LinkedInSettings {
    /// Adds what is wrong with them to the mistakes of a program that has them as `linkedin`.
    pub fn check(&self, mistakes: &mut Mistakes<'_>) {
        if !(Duration::from_millis(100)..=TIMEOUT_MAX).contains(&self.timeout.duration()) {
            mistakes.add("linkedin.timeout", "between 100 ms and five minutes");
        }
        #[cfg(not(feature = "linkedin"))]
        if self.enabled {
            mistakes.add("linkedin.enabled", LeftOut(BuildFeature::Linkedin).to_string());
        }
    }
}
