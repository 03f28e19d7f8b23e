//! URLs that may hold a password, which is masked wherever they are shown.

use std::fmt;

use url::Url;

use super::configured_address::mask_address;
use super::{MASK, TextValue, text_value};

/// Most nodes of one broker.
pub const BROKER_NODES_MAX: usize = 16;

/// The URLs of a broker's nodes, `amqp` or `amqps`, at least one. Shown with passwords masked.
#[derive(Clone, PartialEq, Eq)]
pub struct BusUrls(Vec<Url>);

impl BusUrls {
    /// The whole URLs with their passwords and commas between them, to connect with and for nothing
    /// else.
    #[must_use]
    pub fn expose(&self) -> String {
        join_urls(&self.0)
    }

    /// The values of a parameter, in all URLs that have it.
    #[must_use]
    pub fn parameters(&self, name: &str) -> Vec<String> {
        let pairs = self.0.iter().flat_map(Url::query_pairs);
        pairs.filter(|(key, _)| key == name).map(|(_, value)| value.into_owned()).collect()
    }
}

impl TextValue for BusUrls {
    const FORMAT: &'static str = "bus-urls";
    const WHAT: &'static str = "the URL of a broker";
    const EXAMPLES: &'static [&'static str] = &["amqp://user:password@host:5672/vhost"];
    const SENSITIVE: bool = true;

    fn read(text: &str) -> Result<Self, String> {
        let texts = split_bus_urls(text);
        if texts.len() > BROKER_NODES_MAX {
            return Err(format!("they are more than {BROKER_NODES_MAX}"));
        }

        texts.into_iter().map(read_bus_url).collect::<Result<_, _>>().map(Self)
    }
}

text_value!(BusUrls);

impl fmt::Display for BusUrls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let masked: Vec<_> = self.0.iter().map(mask_password).collect();
        f.write_str(&join_urls(&masked))
    }
}

impl fmt::Debug for BusUrls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The URLs of a list with commas between them, spaces around them left out. A comma ends a URL
/// only where another begins, because a password or a virtual host may have commas too.
#[must_use]
pub fn split_bus_urls(text: &str) -> Vec<&str> {
    let mut urls = Vec::new();
    let mut start = 0;

    for (comma, _) in text.match_indices(',') {
        let next = text[comma + 1..].split(',').next().unwrap_or_default();
        if next.contains("://") {
            urls.push(text[start..comma].trim());
            start = comma + 1;
        }
    }

    urls.push(text[start..].trim());
    urls
}

fn join_urls(urls: &[Url]) -> String {
    urls.iter().map(Url::as_str).collect::<Vec<_>>().join(",")
}

fn read_bus_url(text: &str) -> Result<Url, String> {
    let url = read_url(text, &["amqp", "amqps"])?;
    if url.host_str().is_some_and(|host| host.contains(',')) {
        return Err(
            "its host has a comma, and each URL of a list begins with its scheme".to_owned()
        );
    }
    Ok(url)
}

/// The URL of an HTTP endpoint: `http` or `https`. Shown without user and password, values of its
/// query, and its fragment.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpUrl(Url);

impl HttpUrl {
    /// The URL with these segments added to its path.
    #[must_use]
    pub fn below(&self, segments: &[&str]) -> Self {
        let mut url = self.0.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        Self(url)
    }

    /// The whole URL with what is not shown, to connect with and for nothing else.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.0.as_str()
    }
}

impl TextValue for HttpUrl {
    const FORMAT: &'static str = "http-url";
    const WHAT: &'static str = "the URL of an HTTP endpoint";
    const EXAMPLES: &'static [&'static str] = &["http://collector:4318"];
    const SENSITIVE: bool = true;

    fn read(text: &str) -> Result<Self, String> {
        read_url(text, &["http", "https"]).map(Self)
    }
}

text_value!(HttpUrl);

impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&mask_address(self.0.as_str()))
    }
}

impl fmt::Debug for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn mask_password(url: &Url) -> Url {
    let mut shown = url.clone();
    if shown.password().is_some() {
        // Only a URL without a host refuses a password, and those were refused when it was read.
        let _ = shown.set_password(Some(MASK));
    }
    shown
}

fn read_url(text: &str, schemes: &[&str]) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| error.to_string())?;
    if !schemes.contains(&url.scheme()) {
        return Err(format!("its scheme must be {}", schemes.join(" or ")));
    }
    match url.host_str() {
        None | Some("") => Err("it has no host".to_owned()),
        Some(_) => Ok(url),
    }
}
