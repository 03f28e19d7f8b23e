//! The addresses that requests go to.

use reqwest::Url;
use toolbus_config::HttpUrl;

use super::GoogleSettings;

const GMAIL_URL: &str = "https://gmail.googleapis.com";
const CALENDAR_URL: &str = "https://www.googleapis.com";
const AUTHORIZE_URL: &str = "https://accounts.google.com/o/oauth2/v2/auth";
const TOKEN_URL: &str = "https://oauth2.googleapis.com/token";
const DEVICE_URL: &str = "https://oauth2.googleapis.com/device/code";
const REVOKE_URL: &str = "https://oauth2.googleapis.com/revoke";

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

impl Endpoints {
    /// Returns Google's own addresses, or those that the settings name in their place.
    pub(super) fn of(settings: &GoogleSettings) -> Self {
        Self {
            gmail: endpoint(settings.gmail_url.as_ref(), GMAIL_URL),
            calendar: endpoint(settings.calendar_url.as_ref(), CALENDAR_URL),
            authorize: endpoint(settings.authorize_url.as_ref(), AUTHORIZE_URL),
            token: endpoint(settings.token_url.as_ref(), TOKEN_URL),
            device: endpoint(settings.device_url.as_ref(), DEVICE_URL),
            revoke: endpoint(settings.revoke_url.as_ref(), REVOKE_URL),
        }
    }
}

fn endpoint(written: Option<&HttpUrl>, own: &str) -> Endpoint {
    let url = written.map_or(own, HttpUrl::expose);
    let url = Url::parse(url).expect("it was read as a URL");
    Endpoint { url, is_internal: written.is_some() }
}
