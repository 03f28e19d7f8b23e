//! Who may come to a port that asks for no credentials: names that the machine is reached by,
//! and web pages. Both are listed in settings, and what is wrong with the lists is told here.

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
    let is_local = |host: &str| {
        host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    };
    if address.is_some_and(|address| !is_local(address.host())) && allowed_hosts.is_empty() {
        let variable = format!("{PREFIX}{}__ALLOWED_HOSTS", key.to_ascii_uppercase());
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
