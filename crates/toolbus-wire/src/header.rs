//! Headers by their logical names, and what AMQP calls them.
//!
//! The C# code's keys begin with `rb-` already, and its publisher puts `rb-` before every key; so
//! the wire carries `rb-rb-timeout-ms`. We write that doubled form and read either; where both are
//! there the doubled one wins. A header is always an AMQP long string: C# drops any other type.
//!
//! Only the names listed here are read in the single form too. Any other key loses one `rb-` when
//! it is read and gets it back when it is written, as in the C# code.

use std::borrow::Cow;
use std::fmt;

/// Put before every logical name on the wire.
const PREFIX: &str = "rb-";

macro_rules! well_known {
    ($($(#[$doc:meta])* $name:ident = $logical:literal, on the wire $wire:literal;)+) => {
        $($(#[$doc])* pub const $name: &str = $logical;)+

        /// Logical and wire name of every header that we know.
        const WELL_KNOWN: &[(&str, &str)] = &[$(($logical, $wire)),+];
    };
}

// One that a worker acts on belongs into `SEALED_HEADERS` of `toolbus_tools::grant`, too: what is
// not there, whoever is on the bus can change.
well_known! {
    /// How far a receiver may trust the content: `system`, `user-input`, `tool-request`,
    /// `tool-output` or `agent-message`.
    CONTENT_TRUST = "rb-content-trust", on the wire "rb-rb-content-trust";
    /// What kind of backend serves the tool: `mcp` or `rest`.
    TOOL_PROVIDER = "rb-tool-provider", on the wire "rb-rb-tool-provider";
    /// How long the caller waits, in milliseconds, counted from when the message is received.
    TIMEOUT_MS = "rb-timeout-ms", on the wire "rb-rb-timeout-ms";
    /// Name of the MCP server that the call is for.
    MCP_SERVER = "rb-mcp-server", on the wire "rb-rb-mcp-server";
    /// Toolbus extension: there (with any value) when server and tool are named exactly, so that a
    /// bridge takes them to the letter instead of guessing what was meant.
    EXACT = "rb-exact", on the wire "rb-rb-exact";
    /// Toolbus extension: the session of the caller, for servers that keep something for it. What
    /// it means is its caller's own: the same text of another caller is another session.
    SESSION = "rb-session", on the wire "rb-rb-session";
    /// Toolbus extension: the grant that proves to a worker that the request has passed the gates,
    /// made with the key that agents and workers share. It is a credential, so it is never logged.
    GRANT = "rb-grant", on the wire "rb-rb-grant";
    /// Toolbus extension: the same grant, signed with a key that only agents have. It has its own
    /// header because older workers reject a [`GRANT`] with anything added. It is never logged.
    SIGNED_GRANT = "rb-signed-grant", on the wire "rb-rb-signed-grant";
    /// Ours: when the caller stops waiting, in Unix milliseconds by its own clock. How much time
    /// that was when the request was sent is the message's expiry.
    DEADLINE_MS = "rb-deadline-ms", on the wire "rb-rb-deadline-ms";
    /// Ours: how much later than the deadline, in milliseconds, the call may end while its worker
    /// reports progress; each report gives it [`TIMEOUT_MS`] once more. Absent: not at all.
    EXTENSION_MS = "rb-extension-ms", on the wire "rb-rb-extension-ms";
    /// Ours: the topic that takes progress and heartbeats.
    PROGRESS_TO = "rb-progress-to", on the wire "rb-rb-progress-to";
    /// Ours, beside the one before: there (with any value) when nobody reads progress, so that the
    /// topic is for heartbeats alone.
    QUIET = "rb-quiet", on the wire "rb-rb-quiet";
    /// Toolbus extension: the topic at which the caller says whether it still waits for the call.
    STATUS_TO = "rb-status-to", on the wire "rb-rb-status-to";
    /// Toolbus extension, not sealed: the topic that the caller sent the request to, which a worker
    /// has passed on to the one that it is for.
    FORWARDED_FROM = "rb-forwarded-from", on the wire "rb-rb-forwarded-from";
    /// Toolbus extension, on a reply: there (with any value) when the worker that answers did not
    /// run the call and another may be running it. Whoever waits ends on it only when no other
    /// worker speaks of the call.
    TENTATIVE = "rb-tentative", on the wire "rb-rb-tentative";
    /// Ours: the topic that answers questions of the tool.
    ASK_TO = "rb-ask-to", on the wire "rb-rb-ask-to";
    /// Ours, beside the one before: which kinds of questions are answered there, with commas
    /// between them. Without it, `elicitation` and `sampling`.
    ASK_KINDS = "rb-ask-kinds", on the wire "rb-rb-ask-kinds";
    /// Ours, on a dead letter: why it is one. Written once, not doubled: it is for people.
    DEAD_LETTER_REASON = "rb-dead-letter-reason", on the wire "rb-dead-letter-reason";
}

/// Logical headers of a message, few enough that a list is the fastest map.
///
/// `Debug` omits the values of grants.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers(Vec<(Cow<'static, str>, String)>);

impl Headers {
    /// No headers.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// The value under a logical name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// Sets a value, in place of the one that is there.
    pub fn set(&mut self, name: impl Into<Cow<'static, str>>, value: impl Into<String>) {
        let (name, value) = (name.into(), value.into());
        match self.0.iter_mut().find(|(n, _)| *n == name) {
            Some(entry) => entry.1 = value,
            None => self.0.push((name, value)),
        }
    }

    /// The same headers with one more.
    #[must_use]
    pub fn with(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<String>) -> Self {
        self.set(name, value);
        self
    }

    /// Every name with its value, in the order in which they were set.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), value.as_str()))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_grant = |name: &str| name == GRANT || name == SIGNED_GRANT;
        let shown =
            self.iter().map(|(name, value)| (name, if is_grant(name) { "***" } else { value }));
        f.debug_map().entries(shown).finish()
    }
}

/// How a header was spelled on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spelling {
    /// A well-known name in the form that C# reads.
    Doubled,
    /// A well-known name without the publisher's prefix.
    Single,
    /// A name that we do not know.
    Foreign,
}

/// The logical name of a header on the wire; `None` when it is none of the envelope's.
pub(crate) fn logical_name(wire: &str) -> Option<(Cow<'static, str>, Spelling)> {
    let stripped = wire.strip_prefix(PREFIX).filter(|name| !name.is_empty())?;
    let known = |name| WELL_KNOWN.iter().find(|(logical, _)| *logical == name);
    Some(match (known(stripped), known(wire)) {
        (Some((logical, _)), _) => (Cow::Borrowed(logical), Spelling::Doubled),
        (None, Some((logical, _))) => (Cow::Borrowed(logical), Spelling::Single),
        (None, None) => (Cow::Owned(stripped.to_owned()), Spelling::Foreign),
    })
}

/// What the wire calls a logical name.
pub(crate) fn wire_name(logical: &str) -> Cow<'static, str> {
    match WELL_KNOWN.iter().find(|(known, _)| *known == logical) {
        Some((_, wire)) => Cow::Borrowed(wire),
        None => Cow::Owned([PREFIX, logical].concat()),
    }
}
