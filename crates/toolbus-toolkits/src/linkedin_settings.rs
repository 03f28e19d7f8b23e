//! The section `linkedin` of the settings.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
#[cfg(not(feature = "linkedin"))]
use toolbus_config::build_features::{BuildFeature, LeftOut};
use toolbus_config::{HttpUrl, Mistakes, TimeSpan};

use crate::audience;

/// The longest time that a page may take.
const TIMEOUT_MAX: Duration = Duration::from_secs(5 * 60);

/// How LinkedIn is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LinkedInSettings {
    /// Whether models have the tools `linkedin_jobs` and `linkedin_job_detail`.
    pub enabled: bool,
    /// Who has these tools, as globs over `PROOF:NAME` as policy rules have them, such as
    /// `claimed:mcp` or `token:http/NAME`; `*` is everybody. For others they are not there,
    /// whatever the policy allows. `local:*` is whoever runs the program, with the schedules and
    /// subagents of that person.
    #[schemars(length(max = 64))]
    pub principals: Vec<String>,
    /// Where LinkedIn is, if not at its own address.
    pub base_url: Option<HttpUrl>,
    /// How long a page may take, up to five minutes.
    pub timeout: TimeSpan,
}

impl Default for LinkedInSettings {
    fn default() -> Self {
        Self {
            enabled: false,
            principals: audience::local_alone(),
            base_url: None,
            timeout: TimeSpan::seconds(30),
        }
    }
}

impl LinkedInSettings {
    /// Adds what is wrong with them to the mistakes of a program that has them as `linkedin`.
    pub fn check(&self, mistakes: &mut Mistakes<'_>) {
        audience::check("linkedin.principals", &self.principals, mistakes);
        if !(Duration::from_millis(100)..=TIMEOUT_MAX).contains(&self.timeout.duration()) {
            mistakes.add("linkedin.timeout", "between 100 ms and five minutes");
        }
        #[cfg(not(feature = "linkedin"))]
        if self.enabled {
            mistakes.add("linkedin.enabled", LeftOut(BuildFeature::Linkedin).to_string());
        }
    }
}
