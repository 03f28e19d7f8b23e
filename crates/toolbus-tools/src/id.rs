//! Names and ids of calls and tools, bounded once where they come in.

use std::fmt;
use std::sync::Arc;

use toolbus_wire::envelope::new_id;
pub use toolbus_wire::message::tool::ID_BYTES_MAX;

/// What the provider of an MCP server's tools begins with; its name follows, in lower case.
pub const SERVER_PROVIDER_PREFIX: &str = "mcp:";

/// A name or id that is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It is longer than [`ID_BYTES_MAX`].
    #[error("{what} of {bytes} bytes is over the limit of {ID_BYTES_MAX}")]
    TooLong {
        /// What it names.
        what: &'static str,
        /// How long it is.
        bytes: usize,
    },
    /// It has a control character.
    #[error("{what} has a control character")]
    ControlCharacter {
        /// What it names.
        what: &'static str,
    },
    /// It is empty, or a part of it is, or has a character that has no place there.
    #[error("{what} '{text}' is not well-formed")]
    Malformed {
        /// What it names.
        what: &'static str,
        /// The text.
        text: String,
    },
}

macro_rules! bounded_text {
    ($(#[$doc:meta])* $name:ident, $what:literal $(, $check:ident)?) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes a text of at most [`ID_BYTES_MAX`] bytes.
            ///
            /// # Errors
            /// What is wrong with the text.
            pub fn parse(text: impl AsRef<str>) -> Result<Self, Error> {
                let text = text.as_ref();
                check_length($what, text)?;
                $($check($what, text)?;)?
                Ok(Self(text.into()))
            }

            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

bounded_text! {
    /// The id of a call, as its caller gave it. Models number their calls alike in every session,
    /// so it is unique within a run at most. It may be any text: whoever repeats it escapes it.
    CallId, "a call id"
}

bounded_text! {
    /// The name that a tool is called by. It may be any text: one that nobody has is not found.
    ToolName, "a tool name"
}

bounded_text! {
    /// Which tool a call is really about, in one spelling: `mcp:github/create_issue`, by whatever
    /// name it was called.
    ToolId, "a tool id", check_characters
}

/// The namespace that the memory of calls lives under, such as `session/abc`: segments of letters,
/// digits and `-_.:@+=~`, with `/` between them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(Arc<str>);

/// One run of an agent, a client's session or a command: the calls that belong together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RunId(Arc<str>);

impl CallId {
    /// An id that nobody else has.
    #[must_use]
    pub fn random() -> Self {
        Self(new_id().into())
    }
}

impl ToolId {
    /// The id of a tool of a provider. What makes it longer than [`ID_BYTES_MAX`] is cut off: names
    /// that long come from no provider that checks what it offers.
    #[must_use]
    pub fn of(provider: &str, tool: &str) -> Self {
        let mut id = format!("{provider}/{tool}");
        id.retain(|c| !c.is_control());
        id.truncate(id.floor_char_boundary(ID_BYTES_MAX));

        Self(id.into())
    }
}

impl SessionId {
    /// Takes a session's id, as a caller names it.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: impl AsRef<str>) -> Result<Self, Error> {
        const WHAT: &str = "a session id";
        let text = text.as_ref();
        check_length(WHAT, text)?;

        let is_allowed = |c: char| c.is_alphanumeric() || "-_.:@+=~".contains(c);
        let is_segment =
            |segment: &str| !matches!(segment, "" | "." | "..") && segment.chars().all(is_allowed);
        if !text.split('/').all(is_segment) {
            return Err(Error::Malformed { what: WHAT, text: text.to_owned() });
        }

        Ok(Self(text.into()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl RunId {
    /// Takes the id of a run, as rows keep it.
    ///
    /// # Errors
    /// When it is longer than [`ID_BYTES_MAX`].
    pub fn parse(text: &str) -> Result<Self, Error> {
        check_length("a run id", text)?;
        Ok(Self(text.into()))
    }

    /// A run of its own.
    #[must_use]
    pub fn random() -> Self {
        Self(new_id().into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn check_length(what: &'static str, text: &str) -> Result<(), Error> {
    match text.len() {
        ..=ID_BYTES_MAX => Ok(()),
        bytes => Err(Error::TooLong { what, bytes }),
    }
}

fn check_characters(what: &'static str, text: &str) -> Result<(), Error> {
    if text.chars().any(char::is_control) { Err(Error::ControlCharacter { what }) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
