//! Who may come to a port: names that the machine is reached by, web pages, and clients without
//! credentials. Settings say so, and what is wrong with them is told here.

use std::net::IpAddr;

use toolbus_config::{ListenAddress, Mistakes, PREFIX};

/// Tells what is wrong with the settings `address`, `allowed_hosts` and `allowed_origins` below
/// `key`: an address that others can reach needs the names that it is reached by, or any web page
/// could come through its reader's browser.
pub fn check(
    key: &str,
    address: Option<&ListenAddress>,
    allowed_hosts: &[String],
    allowed_origins: &[String],
    mistakes: &mut Mistakes<'_>,
) {
    if address.is_some_and(is_reached_by_others) && allowed_hosts.is_empty() {
        let variable = variable_of(key, "ALLOWED_HOSTS");
        let what = format!(
            "other machines can reach it, so set {key}.allowed_hosts (variable {variable}) to the \
             names that they reach it by, such as tools.example.com"
        );
        mistakes.add(&format!("{key}.address"), what);
    }

    let is_origin = |origin: &String| origin.contains("://") && !origin.ends_with('/');
    if let Some(other) = allowed_origins.iter().find(|origin| !is_origin(origin)) {
        let what = format!("{other:?} is not an origin, such as https://chat.example.com");
        mistakes.add(&format!("{key}.allowed_origins"), what);
    }
}

/// Tells that nobody needs credentials at the setting `address` below `key`, where others can reach
/// it: whoever does would be let in, which only an operator can want. Not called where the setting
/// `anonymous` below `key` says so; `advice` is what else there is to do, and reads on with `or`.
pub fn check_open(
    key: &str,
    address: Option<&ListenAddress>,
    advice: Option<&str>,
    mistakes: &mut Mistakes<'_>,
) {
    if !address.is_some_and(is_reached_by_others) {
        return;
    }

    let advice = advice.map(|advice| format!("{advice}, or ")).unwrap_or_default();
    let what = format!(
        "other machines can reach it, and clients need no credentials: {advice}set {key}.anonymous \
         (variable {}) to let in whoever reaches it",
        variable_of(key, "ANONYMOUS")
    );
    mistakes.add(&format!("{key}.address"), what);
}

/// Whether other machines can reach what listens there.
#[must_use]
pub fn is_reached_by_others(address: &ListenAddress) -> bool {
    let host = address.host();
    let is_loopback = host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    host != "localhost" && !is_loopback
}

/// The variable of the environment that sets this setting of a section.
fn variable_of(key: &str, setting: &str) -> String {
    format!("{PREFIX}{}__{setting}", key.to_ascii_uppercase())
}
