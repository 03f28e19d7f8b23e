//! The section `google` of the settings.

use std::time::Duration;

use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
#[cfg(not(feature = "google"))]
use toolbus_config::build_features::{BuildFeature, LeftOut};
use toolbus_config::{HttpUrl, KeyReference, Mistakes, Secret, TimeSpan};

use crate::audience;

/// The longest time that a request may take.
const TIMEOUT_MAX: Duration = Duration::from_secs(5 * 60);

/// Gmail and Calendar of one Google account.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GoogleSettings {
    /// The id of the OAuth client: itself, `${NAME}` for a variable of the environment, or
    /// `${vault:NAME}` for a credential of the vault, there of `google`. When not set: the variable
    /// `GOOGLE_CLIENT_ID`. Without both, id and secret, there are no tools.
    pub client_id: Option<Secret>,
    /// The secret of the OAuth client, written like its id. When not set: the variable
    /// `GOOGLE_CLIENT_SECRET`.
    pub client_secret: Option<Secret>,
    /// Who has these tools, as globs over `PROOF:NAME` as policy rules have them, such as
    /// `claimed:mcp` or `token:http/NAME`; `*` is everybody. For others they are not there,
    /// whatever the policy allows. `local:*` is whoever runs the program, with the schedules and
    /// subagents of that person.
    #[schemars(length(max = 64))]
    pub principals: Vec<String>,
    /// The time zone of the user, such as `Europe/Berlin`: where a day begins, and what times
    /// without an offset mean. When not set: `schedules.zone`.
    pub time_zone: Option<String>,
    /// How long a request may take, up to five minutes.
    pub timeout: TimeSpan,
    /// Where Gmail's API is, if not at its own address.
    pub gmail_url: Option<HttpUrl>,
    /// Where Calendar's API is, if not at its own address.
    pub calendar_url: Option<HttpUrl>,
    /// The page at which a person logs in, if not Google's own.
    pub authorize_url: Option<HttpUrl>,
    /// Where tokens are issued, if not at Google's own address.
    pub token_url: Option<HttpUrl>,
    /// Where codes for devices are issued, if not at Google's own address.
    pub device_url: Option<HttpUrl>,
    /// Where tokens are revoked, if not at Google's own address.
    pub revoke_url: Option<HttpUrl>,
}

impl Default for GoogleSettings {
    fn default() -> Self {
        Self {
            client_id: None,
            client_secret: None,
            principals: audience::local_alone(),
            time_zone: None,
            timeout: TimeSpan::seconds(30),
            gmail_url: None,
            calendar_url: None,
            authorize_url: None,
            token_url: None,
            device_url: None,
            revoke_url: None,
        }
    }
}

impl GoogleSettings {
    /// Adds what is wrong with them to the mistakes of a program that has them as `google`.
    pub fn check(&self, mistakes: &mut Mistakes<'_>) {
        let keys =
            [("google.client_id", &self.client_id), ("google.client_secret", &self.client_secret)];
        for (key, written) in keys {
            let written = written.as_ref().filter(|text| !text.expose().trim().is_empty());
            if let Some(Err(problem)) = written.map(KeyReference::parse) {
                mistakes.add(key, problem);
            }

            #[cfg(not(feature = "google"))]
            if written.is_some() {
                mistakes.add(key, LeftOut(BuildFeature::Google).to_string());
            }
        }

        audience::check("google.principals", &self.principals, mistakes);
        if !(Duration::from_millis(100)..=TIMEOUT_MAX).contains(&self.timeout.duration()) {
            mistakes.add("google.timeout", "between 100 ms and five minutes");
        }
        if let Some(zone) = &self.time_zone
            && TimeZone::get(zone).is_err()
        {
            mistakes.add("google.time_zone", format!("there is no zone '{zone}'"));
        }
    }
}
