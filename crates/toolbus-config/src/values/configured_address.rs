//! Addresses that may hold a key, which is masked wherever they are shown.

use std::fmt;

use url::Url;

use super::{MASK, TextValue, text_value};

/// An address of the settings, as it was written: a URL, a template of URLs, or the path of a file.
/// Shown without user and password, values of its query, and its fragment. Places of a template
/// (`{NAME}`) and references (`${NAME}`) among those values stay.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ConfiguredAddress(String);

impl ConfiguredAddress {
    /// The whole text, to connect with and for nothing else.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for ConfiguredAddress {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for ConfiguredAddress {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl TextValue for ConfiguredAddress {
    const FORMAT: &'static str = "address";
    const WHAT: &'static str = "an address";
    const EXAMPLES: &'static [&'static str] = &["https://api.example.com/v1"];
    const SENSITIVE: bool = true;

    /// Each setting has rules of its own for its addresses.
    fn read(text: &str) -> Result<Self, String> {
        Ok(text.into())
    }
}

text_value!(ConfiguredAddress);

impl fmt::Display for ConfiguredAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&mask_address(&self.0))
    }
}

impl fmt::Debug for ConfiguredAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An address without what may be a secret.
pub(super) fn mask_address(text: &str) -> String {
    // Parsers of URLs leave control characters out.
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    let text = text.trim();
    let authority_start = find_authority(text);
    let (scheme, rest) = text.split_at(authority_start.unwrap_or_default());
    let user_end = authority_start.and_then(|_| find_user_end(text, rest));

    let mut shown = scheme.to_owned();
    if user_end.is_some() {
        shown.push_str(MASK);
    }
    let rest = &rest[user_end.unwrap_or_default()..];
    let fragment = authority_start.and_then(|_| rest.find('#'));
    let marks = [rest.find("{?"), rest.find("{&"), rest.find('?'), fragment];
    let (path, query) = rest.split_at(marks.into_iter().flatten().min().unwrap_or(rest.len()));
    shown.push_str(path);
    mask_query(query, &mut shown);
    shown
}

/// Where the authority of a URL begins, behind its scheme and slashes, of which parsers take any
/// number. `None`: the text is the path of a file.
fn find_authority(text: &str) -> Option<usize> {
    let is_of_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    let scheme = match text.split_once(':') {
        Some((scheme, _)) if !scheme.is_empty() && scheme.chars().all(is_of_scheme) => {
            scheme.len() + 1
        }
        _ if text.starts_with("//") => 0,
        _ => return None,
    };
    let rest = text[scheme..].trim_start_matches(['/', '\\']);
    Some(text.len() - rest.len())
}

/// Where user and password end, in front of their `@`. `rest` begins with them.
fn find_user_end(text: &str, rest: &str) -> Option<usize> {
    let authority = rest.find(['/', '\\', '?', '#']).unwrap_or(rest.len());
    let found = rest[..authority].rfind('@');
    // A password may have such characters though it must not, and then there is no URL.
    found.or_else(|| rest.rfind('@').filter(|_| Url::parse(text).is_err()))
}

/// Writes a query, and what follows it, without its values.
fn mask_query(query: &str, shown: &mut String) {
    let (query, has_fragment) = match query.split_once('#') {
        Some((query, _)) => (query, true),
        None => (query, false),
    };
    let mut rest = match query.strip_prefix('?') {
        Some(rest) => {
            shown.push('?');
            rest
        }
        None => query,
    };

    // Whether what comes next belongs to a value that has begun.
    let mut is_value = false;
    while !rest.is_empty() {
        let (literal, place, after) = split_at_place(rest);
        for (at, part) in literal.split('&').enumerate() {
            if at > 0 {
                shown.push('&');
                is_value = false;
            }
            let value = match part.split_once('=').filter(|_| !is_value) {
                Some((name, value)) => {
                    shown.push_str(name);
                    shown.push('=');
                    value
                }
                None => part,
            };
            if !value.is_empty() {
                push_mask(shown);
            }
            is_value = true;
        }
        match is_place(place) {
            true => shown.push_str(place),
            false => push_mask(shown),
        }
        rest = after;
    }
    if has_fragment {
        shown.push('#');
        shown.push_str(MASK);
    }
}

/// Writes one mask for all parts of a value.
fn push_mask(shown: &mut String) {
    if !shown.ends_with(MASK) {
        shown.push_str(MASK);
    }
}

/// A text up to its first place (`{NAME}` or `${NAME}`), the place, and what follows. Without one
/// the last two are empty.
fn split_at_place(text: &str) -> (&str, &str, &str) {
    let found = text.find('{').and_then(|open| Some((open, open + text[open..].find('}')? + 1)));
    let Some((open, end)) = found else { return (text, "", "") };
    let start = if text[..open].ends_with('$') { open - 1 } else { open };
    (&text[..start], &text[start..end], &text[end..])
}

/// Whether it is a place, and not a text in braces. A default of a reference (`${NAME:-TEXT}`) may
/// be a secret.
fn is_place(place: &str) -> bool {
    let is_of_name = |c: char| c.is_alphanumeric() || "_-.[]$:@,*?&{}".contains(c);
    place.chars().all(is_of_name) && !place.contains(":-")
}
