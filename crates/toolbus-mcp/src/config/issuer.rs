//! Issuer identifiers: the addresses by which authorization servers are known (RFC 8414).

use std::fmt;

use reqwest::Url;

/// Longest part of an address that is shown, in bytes.
const SHOWN_BYTES_MAX: usize = 128;

/// The issuer identifier of an authorization server. What is for this server goes to no other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issuer(Url);

impl Issuer {
    /// Parses an address without query, fragment and user.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let url = Url::parse(text).ok()?;
        let is_plain = url.query().is_none() && url.fragment().is_none() && url.username() == "";
        (url.has_host() && url.password().is_none() && is_plain).then_some(Self(url))
    }

    /// Whether this text, from a server's metadata, names the same issuer. A slash that is the
    /// whole path counts as none, and nothing else is forgiven.
    pub(crate) fn is_named_by(&self, text: &str) -> bool {
        Self::parse(text).is_some_and(|other| *self == other)
    }

    /// The address itself.
    pub(crate) fn url(&self) -> &Url {
        &self.0
    }

    /// The addresses at which the issuer publishes its metadata, in the order in which they are
    /// tried: RFC 8414, then OpenID Connect Discovery in both forms.
    pub(crate) fn metadata_urls(&self) -> Vec<Url> {
        let path = self.0.path().trim_end_matches('/');
        let paths = [
            format!("/.well-known/oauth-authorization-server{path}"),
            format!("/.well-known/openid-configuration{path}"),
            format!("{path}/.well-known/openid-configuration"),
        ];

        let mut urls: Vec<Url> = Vec::with_capacity(paths.len());
        for path in &paths {
            let mut url = self.0.clone();
            url.set_path(path);
            if !urls.contains(&url) {
                urls.push(url);
            }
        }

        urls
    }
}

/// The host, with port and path where there are any: enough for a person to tell two apart.
impl fmt::Display for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = self.0.host_str().unwrap_or_default().to_owned();
        if let Some(port) = self.0.port() {
            shown.push_str(&format!(":{port}"));
        }
        shown.push_str(self.0.path().trim_end_matches('/'));
        // A parsed address is ASCII, so it may be cut anywhere.
        f.write_str(shown.get(..SHOWN_BYTES_MAX).unwrap_or(&shown))
    }
}

#[cfg(test)]
mod tests;
