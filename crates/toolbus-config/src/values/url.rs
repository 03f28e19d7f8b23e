//! URLs that may hold a password, which is masked wherever they are shown.

use std::fmt;

use url::Url;

use super::{MASK, TextValue, text_value};

/// The URL of a broker: `amqp` or `amqps`. Shown with its password masked.
#[derive(Clone, PartialEq, Eq)]
pub struct BusUrl(Url);

impl BusUrl {
    /// The whole URL with its password, to connect with and for nothing else.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.0.as_str()
    }
}

impl TextValue for BusUrl {
    const FORMAT: &'static str = "bus-url";
    const WHAT: &'static str = "the URL of a broker";
    const EXAMPLES: &'static [&'static str] = &["amqp://user:password@host:5672/vhost"];
    const SENSITIVE: bool = true;

    fn read(text: &str) -> Result<Self, String> {
        read_url(text, &["amqp", "amqps"]).map(Self)
    }
}

text_value!(BusUrl);

/// The URL of an HTTP endpoint: `http` or `https`. Shown with its password masked.
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

    /// The whole URL with its password, to connect with and for nothing else.
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

macro_rules! masked_url {
    ($type:ident) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(mask_password(&self.0).as_str())
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

masked_url!(BusUrl);
masked_url!(HttpUrl);

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
