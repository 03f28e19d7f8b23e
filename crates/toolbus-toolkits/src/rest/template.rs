//! Addresses with places for arguments.
//!
//! `{name}` stands for an argument in the path or the query, `{?first,second*}` and `{&third}` for
//! parameters that are left out where they are not given (RFC 6570); with `*`, each value of a list
//! is a parameter of its own.

use std::fmt::Write as _;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Url;
use serde_json::{Map, Value};

/// What stays as it is in an argument (RFC 3986, unreserved).
const ENCODED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Longest template and longest address, in bytes.
pub(super) const TEMPLATE_BYTES_MAX: usize = 8 << 10;
const URL_BYTES_MAX: usize = 8 << 10;

/// An address with places for arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UrlTemplate {
    /// Scheme, host and port as an origin is written, without a slash at the end.
    origin: String,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(String),
    Argument(String),
    Parameters { begin: char, names: Vec<Parameter> },
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Parameter {
    name: String,
    is_exploded: bool,
}

/// What is wrong with a template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TemplateError(String);

/// What is wrong with arguments.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ExpandError {
    #[error("an argument of '.' or '..' would lead to another address")]
    DotSegment,
    #[error("the address would have more than {URL_BYTES_MAX} bytes")]
    TooLong,
    #[error("the address cannot be used: {0}")]
    Url(String),
}

impl UrlTemplate {
    pub(super) fn parse(text: &str) -> Result<Self, TemplateError> {
        let wrong = |problem: &str| TemplateError(problem.to_owned());
        if text.len() > TEMPLATE_BYTES_MAX {
            return Err(wrong("it is too long"));
        }
        if text.contains(|c: char| c.is_control() || c.is_whitespace() || c == '#' || c == '\\') {
            return Err(wrong("it has a blank, a line break, a backslash or a fragment"));
        }
        let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong("it is no URL"))?;
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        // `{?x}` may follow the host at once.
        let end = if rest[..end].ends_with('{') { end - 1 } else { end };
        let (host, path) = rest.split_at(end);
        if host.contains(['{', '}']) {
            return Err(wrong("the host is fixed: arguments are for the path and the query"));
        }

        let url = Url::parse(&format!("{scheme}://{host}"))
            .map_err(|error| TemplateError(error.to_string()))?;
        let is_web = matches!(url.scheme(), "http" | "https");
        if !is_web || !url.scheme().eq_ignore_ascii_case(scheme) {
            return Err(wrong("its scheme must be http or https"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong("it has a user name or a password in it"));
        }
        let parts = parse_parts(path)?;
        if path.split(['?', '{']).next().is_some_and(has_dot_segment) {
            return Err(wrong("its path has a segment of dots"));
        }
        Ok(Self { origin: origin_of(&url), parts })
    }

    /// Where its addresses are.
    pub(super) fn origin(&self) -> &str {
        &self.origin
    }

    /// Whether an argument of this name has a place.
    pub(super) fn has(&self, argument: &str) -> bool {
        self.parts.iter().any(|part| match part {
            Part::Literal(_) => false,
            Part::Argument(name) => name == argument,
            Part::Parameters { names, .. } => names.iter().any(|known| known.name == argument),
        })
    }

    /// The address with these arguments.
    pub(super) fn expand(&self, arguments: &Map<String, Value>) -> Result<Url, ExpandError> {
        let mut text = self.origin.clone();
        if !matches!(self.parts.first(), Some(Part::Literal(path)) if path.starts_with('/')) {
            text.push('/');
        }
        for part in &self.parts {
            match part {
                Part::Literal(literal) => text.push_str(literal),
                Part::Argument(name) => match arguments.get(name) {
                    Some(value) => push_encoded(&mut text, &text_of(value)),
                    None => {
                        let _ = write!(text, "{{{name}}}");
                    }
                },
                Part::Parameters { begin, names } => {
                    push_parameters(&mut text, *begin, names, arguments);
                }
            }
            if text.len() > URL_BYTES_MAX {
                return Err(ExpandError::TooLong);
            }
        }

        let path = text[self.origin.len()..].split('?').next().unwrap_or_default();
        if has_dot_segment(path) {
            return Err(ExpandError::DotSegment);
        }
        Url::parse(&text).map_err(|error| ExpandError::Url(error.to_string()))
    }
}

/// Scheme, host and port of an address.
pub(super) fn origin_of(url: &Url) -> String {
    url.origin().ascii_serialization()
}

fn parse_parts(text: &str) -> Result<Vec<Part>, TemplateError> {
    let wrong = |problem: String| Err(TemplateError(problem));
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find('{') {
        let Some(length) = rest[start..].find('}') else {
            return wrong("a '{' is not closed".to_owned());
        };
        if start > 0 {
            parts.push(Part::Literal(rest[..start].to_owned()));
        }

        let inside = &rest[start + 1..start + length];
        parts.push(match inside.chars().next() {
            Some(begin @ ('?' | '&')) => {
                let names = inside[1..].split(',').map(parse_parameter);
                Part::Parameters { begin, names: names.collect::<Result<_, _>>()? }
            }
            _ => Part::Argument(parse_name(inside)?),
        });
        rest = &rest[start + length + 1..];
    }
    if rest.contains('}') {
        return wrong("a '}' has no '{'".to_owned());
    }
    if !rest.is_empty() {
        parts.push(Part::Literal(rest.to_owned()));
    }
    Ok(parts)
}

fn parse_parameter(text: &str) -> Result<Parameter, TemplateError> {
    let (name, is_exploded) = match text.strip_suffix('*') {
        Some(name) => (name, true),
        None => (text, false),
    };
    Ok(Parameter { name: parse_name(name)?, is_exploded })
}

fn parse_name(name: &str) -> Result<String, TemplateError> {
    let is_name = (1..=128).contains(&name.len())
        && name.chars().all(|c| c.is_alphanumeric() || "_-.[]$:@".contains(c));
    match is_name {
        true => Ok(name.to_owned()),
        false => Err(TemplateError(format!("{{{name}}} is no place for an argument"))),
    }
}

fn push_parameters(
    text: &mut String,
    begin: char,
    names: &[Parameter],
    arguments: &Map<String, Value>,
) {
    let mut separator = if text.contains('?') { '&' } else { begin };
    for Parameter { name, is_exploded } in names {
        // An argument may have many places; the address is too long already.
        if text.len() > URL_BYTES_MAX {
            return;
        }

        let values = match arguments.get(name) {
            None => continue,
            Some(Value::Array(values)) if *is_exploded => values.iter().map(text_of).collect(),
            Some(Value::Array(values)) => {
                let joined = values.iter().map(text_of).collect::<Vec<_>>().join(",");
                if joined.is_empty() { Vec::new() } else { vec![joined] }
            }
            Some(value) => vec![text_of(value)],
        };
        for value in values {
            text.push(separator);
            push_encoded(text, name);
            text.push('=');
            push_encoded(text, &value);
            separator = '&';
        }
    }
}

fn push_encoded(text: &mut String, value: &str) {
    text.extend(utf8_percent_encode(value, &ENCODED));
}

/// An argument as it stands in an address.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Whether a path has a segment that leads upwards or nowhere, in any spelling that parsers of URLs
/// know.
fn has_dot_segment(path: &str) -> bool {
    let mut segments = path.split('/');
    segments.any(|segment| {
        let plain = segment.to_ascii_lowercase().replace("%2e", ".");
        matches!(plain.as_str(), "." | "..")
    })
}

/// Fills in arguments. They change neither the host nor how many segments the path has.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(template: &str, arguments: &Map<String, Value>) {
    let Ok(template) = UrlTemplate::parse(template) else { return };
    let Ok(url) = template.expand(arguments) else { return };
    let plain: Map<_, _> = arguments.keys().map(|name| (name.clone(), Value::from("x"))).collect();
    let Ok(expected) = template.expand(&plain) else { return };

    assert_eq!(url.origin(), expected.origin());
    let segments = |url: &Url| url.path_segments().map(|segments| segments.count());
    assert_eq!(segments(&url), segments(&expected), "{url}");
}

#[cfg(test)]
mod tests;
