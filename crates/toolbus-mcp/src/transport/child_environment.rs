//! The environment of a child: the few variables that programs need to find their way, and nothing
//! that the bridge was trusted with.

use std::ffi::{OsStr, OsString};

/// What every child gets when it is there: where programs, files and time are, how the network is
/// reached, and which authorities are trusted.
const PASSED_ON: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
];

/// The variables of `all` that are passed on to children. Proxies are read in lower case as well.
pub(crate) fn minimal(
    all: impl IntoIterator<Item = (OsString, OsString)>,
) -> Vec<(OsString, OsString)> {
    all.into_iter().filter(|(name, _)| is_passed_on(name)).collect()
}

fn is_passed_on(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    PASSED_ON.contains(&name)
        || (name.ends_with("_proxy") && PASSED_ON.contains(&name.to_ascii_uppercase().as_str()))
}

#[cfg(test)]
mod tests;
