//! The parts of the section `http` that are about tools: who may find and call them, and how often.

use std::collections::BTreeMap;
use std::num::{NonZeroU16, NonZeroU32};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolbus_config::{Mistakes, TimeSpan};
use toolbus_fetch::AllowedHost;
use toolbus_http::tool_api::{JobConfig, Plan, Role, ToolApiConfig, WebhookConfig};

/// Most plans.
const PLANS_MAX: usize = 64;

/// Tools for programs, beside the turns, at `/v1/tools` and its neighbours.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ToolApiSettings {
    /// Whether they are served.
    pub enabled: bool,
    /// The clients of `http.tokens` that may give out keys (`POST /v1/keys`), by name. The others
    /// may find tools and call them. Rules know the holder of a key as `token:toolbus-keys/NAME`.
    #[schemars(length(max = 64))]
    pub admins: Vec<String>,
    /// What may be done without any key or token, also where clients have tokens. Nothing when not
    /// set.
    pub anonymous: Option<Role>,
    /// The plan of keys for which none is named.
    pub default_plan: String,
    /// The plan of the clients of `http.tokens`, and of those without a key.
    pub token_plan: String,
    /// How many jobs run at once.
    pub jobs_max: NonZeroU16,
    /// How many jobs a client may have that have not ended.
    pub open_jobs_max: NonZeroU32,
    /// How long a job is kept after its end.
    pub job_retention: TimeSpan,
    /// Hosts that webhooks of jobs may be sent to though their addresses are not public.
    #[schemars(length(max = 64))]
    pub webhook_hosts: Vec<AllowedHost>,
}

impl Default for ToolApiSettings {
    fn default() -> Self {
        let config = ToolApiConfig::default();
        Self {
            enabled: false,
            admins: config.admins,
            anonymous: config.anonymous,
            default_plan: config.default_plan,
            token_plan: config.token_plan,
            jobs_max: NonZeroU16::new(8).expect("not zero"),
            open_jobs_max: NonZeroU32::new(config.jobs.open_max).unwrap_or(NonZeroU32::MIN),
            job_retention: TimeSpan::seconds(config.jobs.retention.as_secs()),
            webhook_hosts: Vec::new(),
        }
    }
}

impl ToolApiSettings {
    /// The same, as the interface takes them, with the plans of the settings.
    pub(crate) fn config(&self, plans: &BTreeMap<String, Plan>) -> ToolApiConfig {
        let mut all = ToolApiConfig::default().plans;
        all.extend(plans.iter().map(|(name, plan)| (name.clone(), *plan)));
        ToolApiConfig {
            plans: all,
            default_plan: self.default_plan.clone(),
            token_plan: self.token_plan.clone(),
            admins: self.admins.clone(),
            anonymous: self.anonymous,
            jobs: JobConfig {
                running_max: usize::from(self.jobs_max.get()),
                open_max: self.open_jobs_max.get(),
                retention: self.job_retention.duration(),
            },
            webhooks: WebhookConfig::default(),
        }
    }

    /// Tells what is wrong with them, under the key of the section.
    pub(crate) fn check(
        &self,
        key: &str,
        plans: &BTreeMap<String, Plan>,
        tokens: &[&str],
        mistakes: &mut Mistakes<'_>,
    ) {
        let known = self.config(plans).plans;
        for (field, plan) in
            [("default_plan", &self.default_plan), ("token_plan", &self.token_plan)]
        {
            if !known.contains_key(plan) {
                let names: Vec<_> = known.keys().map(String::as_str).collect();
                let what = format!("there is no plan '{plan}', only {}", names.join(", "));
                mistakes.add(&format!("{key}.tool_api.{field}"), what);
            }
        }

        for admin in &self.admins {
            if !tokens.contains(&admin.as_str()) {
                let what = format!("there is no client '{admin}' in {key}.tokens");
                mistakes.add(&format!("{key}.tool_api.admins"), what);
            }
        }
        if self.anonymous == Some(Role::Admin) {
            let what = "whoever reaches the address could give out keys";
            mistakes.add(&format!("{key}.tool_api.anonymous"), what);
        }

        if plans.len() > PLANS_MAX {
            mistakes.add(&format!("{key}.plans"), format!("there are more than {PLANS_MAX} plans"));
        }
        for (name, plan) in plans {
            if plan.per_minute == 0 || plan.per_month == 0 {
                mistakes.add(&format!("{key}.plans.{name}"), "a plan has at least one request");
            }
        }
    }
}
