//! The name of an MCP server: checked once, compared without case ever after.
//!
//! Models change the case of names and use them in file names, topics and in the form
//! `server__tool`; so a name is short, plain ASCII, and has no `__` of its own.

use std::fmt;
use std::hash::{Hash, Hasher};

use crate::nearest::loose_form;

/// Longest name, in characters.
pub const LENGTH_MAX: usize = 64;
/// Names that no server has: `mcp:NAME` is who provides the agent's own tools for MCP, so the tools
/// of such a server would have their ids and take their places.
pub const RESERVED: [&str; 2] = ["management", "offers"];

/// A server's name: `[A-Za-z0-9][A-Za-z0-9_.-]*`, at most [`LENGTH_MAX`] characters, without `__`.
///
/// It keeps the spelling it was given, for people; equality and hash ignore its case.
#[derive(Clone)]
pub struct ServerName {
    text: Box<str>,
    folded: Box<str>,
}

/// Why a text is not a server's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text is empty.
    #[error("a server's name is never empty")]
    Empty,
    /// The text is longer than [`LENGTH_MAX`].
    #[error("a server's name has at most {LENGTH_MAX} characters, this one has {0}")]
    TooLong(usize),
    /// The first character is not a letter or a digit.
    #[error("a server's name begins with a letter or a digit, not with {0:?}")]
    Start(char),
    /// A character that no name has.
    #[error("a server's name has only letters, digits, '_', '.' and '-', not {0:?}")]
    Character(char),
    /// `__` separates a server from a tool.
    #[error("a server's name has no \"__\": that stands between a server and its tool")]
    Separator,
    /// It is one of the [`RESERVED`] names.
    #[error(
        "a server's name is not {names}, in any spelling: those are the agent's own",
        names = RESERVED.join(" or ")
    )]
    Reserved,
}

impl ServerName {
    /// Checks `text` and takes it as a name.
    ///
    /// # Errors
    /// When it breaks the rule that [`ServerName`] states.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let length = text.chars().count();
        let first = text.chars().next().ok_or(Error::Empty)?;
        if length > LENGTH_MAX {
            return Err(Error::TooLong(length));
        }

        if !first.is_ascii_alphanumeric() {
            return Err(Error::Start(first));
        }

        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        if let Some(stranger) = text.chars().find(|c| !allowed(*c)) {
            return Err(Error::Character(stranger));
        }

        if text.contains("__") {
            return Err(Error::Separator);
        }

        Ok(Self { text: text.into(), folded: text.to_ascii_lowercase().into() })
    }

    /// The same, for a server that is to be connected: its name is none of the [`RESERVED`] ones.
    ///
    /// # Errors
    /// When it breaks the rule that [`ServerName`] states, or is reserved.
    pub fn parse_unreserved(text: &str) -> Result<Self, Error> {
        let name = Self::parse(text)?;
        if is_reserved(text) { Err(Error::Reserved) } else { Ok(name) }
    }

    /// The name as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether `text` means this server, in any case.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        self.folded.eq_ignore_ascii_case(text)
    }

    /// Whether two names are the same, or look so much alike that one may be taken for the other:
    /// `web-1` and `web_l`, `Mail` and `MaiI`.
    #[must_use]
    pub fn looks_like(&self, other: &Self) -> bool {
        self == other || skeleton(&self.text) == skeleton(&other.text)
    }
}

/// Whether a name is a [`RESERVED`] one but for its case and what stands between its letters, or
/// looks like one.
#[must_use]
pub fn is_reserved(name: &str) -> bool {
    let folded = loose_form(&skeleton(name));
    RESERVED.into_iter().any(|reserved| loose_form(&skeleton(reserved)) == folded)
}

/// Whether tools of a server of this name would have ids as others have. A reserved name is such,
/// and so is one with a `/`, where the provider ends in an id, or with a control character, which
/// ids leave out.
pub(crate) fn imitates_others(name: &str) -> bool {
    name.contains(|c: char| c == '/' || c.is_control()) || is_reserved(name)
}

/// One text for all names that look alike.
fn skeleton(name: &str) -> String {
    let looks = |c: char| match c {
        '_' | '.' | '-' => '-',
        '1' | 'I' | 'l' => 'l',
        '0' | 'O' | 'o' => 'o',
        c => c.to_ascii_lowercase(),
    };
    let skeleton: String = name.chars().map(looks).collect();
    skeleton.replace("rn", "m").replace("vv", "w")
}

impl PartialEq for ServerName {
    fn eq(&self, other: &Self) -> bool {
        self.folded == other.folded
    }
}

impl Eq for ServerName {}

impl Hash for ServerName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.folded.hash(state);
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text)
    }
}

#[cfg(test)]
mod tests;
