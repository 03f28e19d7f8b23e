//! What a request is about, as its span says it.

use std::fmt::{self, Display, Formatter};

use opentelemetry::KeyValue;

use super::{EXECUTE_TOOL, OPERATION, PROMPT, RESOURCE, TOOL};

/// Longest text of others in a span, in bytes.
const TEXT_BYTES_MAX: usize = 256;

/// What a request is about.
#[derive(Debug, Clone, Copy)]
pub enum About<'a> {
    /// A call of a tool.
    Tool {
        /// As the caller has it.
        name: &'a str,
        /// Whether its server lists it: other names are whatever callers make up.
        is_listed: bool,
    },
    /// The prompt of this name.
    Prompt(&'a str),
    /// The resource at this address.
    Resource(&'a str),
    /// Nothing that has a name.
    Nothing,
}

/// The name of the span of a request of this method.
#[derive(Debug, Clone, Copy)]
pub struct SpanName<'a>(pub &'a str, pub About<'a>);

impl Display for SpanName<'_> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0)?;
        match self.1 {
            About::Tool { name, is_listed: true } => write!(formatter, " {}", shorten_text(name)),
            _ => Ok(()),
        }
    }
}

impl About<'_> {
    /// What a span says of it.
    pub fn attributes(self) -> impl Iterator<Item = KeyValue> {
        let named = |key, text: &str| Some(KeyValue::new(key, shorten_text(text).to_owned()));
        let (operation, subject) = match self {
            Self::Tool { name, .. } => {
                (Some(KeyValue::new(OPERATION, EXECUTE_TOOL)), named(TOOL, name))
            }
            Self::Prompt(name) => (None, named(PROMPT, name)),
            // What follows the path is as good as an argument.
            Self::Resource(uri) => {
                (None, named(RESOURCE, uri.split(['?', '#']).next().unwrap_or_default()))
            }
            Self::Nothing => (None, None),
        };
        operation.into_iter().chain(subject)
    }
}

/// The beginning of a text of others.
pub(super) fn shorten_text(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]
}
