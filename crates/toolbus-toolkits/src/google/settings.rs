//! The section `google` of the settings.

use std::time::Duration;

use jiff::tz::TimeZone;
use reqwest::Url;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolbus_config::{HttpUrl, KeyReference, Mistakes, Secret, TimeSpan};

const GMAIL_URL: &str = "https://gmail.googleapis.com";
const CALENDAR_URL: &str = "https://www.googleapis.com";
const AUTHORIZE_URL: &str = "https://accounts.google.com/o/oauth2/v2/auth";
const TOKEN_URL: &str = "https://oauth2.googleapis.com/token";
const DEVICE_URL: &str = "https://oauth2.googleapis.com/device/code";
const REVOKE_URL: &str = "https://oauth2.googleapis.com/revoke";
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

/// An address, and whether the operator named it.
#[derive(Debug, Clone)]
pub(super) struct Endpoint {
    pub(super) url: Url,
    pub(super) is_internal: bool,
}

/// The addresses that requests go to.
#[derive(Debug, Clone)]
pub(super) struct Endpoints {
    pub(super) gmail: Endpoint,
    pub(super) calendar: Endpoint,
    pub(super) authorize: Endpoint,
    pub(super) token: Endpoint,
    pub(super) device: Endpoint,
    pub(super) revoke: Endpoint,
}

impl Default for GoogleSettings {
    fn default() -> Self {
        Self {
            client_id: None,
            client_secret: None,
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
        }
        if !(Duration::from_millis(100)..=TIMEOUT_MAX).contains(&self.timeout.duration()) {
            mistakes.add("google.timeout", "between 100 ms and five minutes");
        }
        if let Some(zone) = &self.time_zone
            && TimeZone::get(zone).is_err()
        {
            mistakes.add("google.time_zone", format!("there is no zone '{zone}'"));
        }
    }

    pub(super) fn endpoints(&self) -> Endpoints {
        Endpoints {
            gmail: endpoint(self.gmail_url.as_ref(), GMAIL_URL),
            calendar: endpoint(self.calendar_url.as_ref(), CALENDAR_URL),
            authorize: endpoint(self.authorize_url.as_ref(), AUTHORIZE_URL),
            token: endpoint(self.token_url.as_ref(), TOKEN_URL),
            device: endpoint(self.device_url.as_ref(), DEVICE_URL),
            revoke: endpoint(self.revoke_url.as_ref(), REVOKE_URL),
        }
    }
}

fn endpoint(written: Option<&HttpUrl>, own: &str) -> Endpoint {
    let url = written.map_or(own, HttpUrl::expose);
    let url = Url::parse(url).expect("it was read as a URL");
    Endpoint { url, is_internal: written.is_some() }
}
