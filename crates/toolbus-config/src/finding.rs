//! What a look at the surroundings of a program has found, for `doctor`.
//!
//! Each crate that knows a part of them (the broker, the sandbox, the store) says what is the
//! matter there and what mends it. No secret is in a finding: passwords, keys and tokens stay out
//! of the texts that it is made of.

use std::borrow::Cow;

use serde::Serialize;

/// What was found of one thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at, such as `broker` or `mcp time`.
    pub name: Cow<'static, str>,
    /// How it is.
    pub state: FindingState,
    /// What was found, as a fragment of a sentence.
    pub detail: String,
    /// The command or setting that mends it.
    pub mend: Option<String>,
}

/// How something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingState {
    /// As it should be.
    Ok,
    /// Worth knowing, and no fault.
    Note,
    /// It does not work.
    Wrong,
}

/// By how much the clock of another machine is ahead of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClockReading {
    /// Whose clock it is, for people.
    pub source: String,
    /// In milliseconds; below zero where it is behind.
    pub ahead_ms: i64,
    /// By how much that may be wrong, in milliseconds.
    pub error_ms: i64,
}

impl Finding {
    /// It is as it should be.
    pub fn ok(name: impl Into<Cow<'static, str>>, detail: impl Into<String>) -> Self {
        Self { name: name.into(), state: FindingState::Ok, detail: detail.into(), mend: None }
    }

    /// It is worth knowing.
    pub fn note(name: impl Into<Cow<'static, str>>, detail: impl Into<String>) -> Self {
        Self { state: FindingState::Note, ..Self::ok(name, detail) }
    }

    /// It does not work.
    pub fn wrong(name: impl Into<Cow<'static, str>>, detail: impl Into<String>) -> Self {
        Self { state: FindingState::Wrong, ..Self::ok(name, detail) }
    }

    /// The same, with the command or setting that mends it.
    #[must_use]
    pub fn mended_by(mut self, mend: impl Into<String>) -> Self {
        self.mend = Some(mend.into());
        self
    }
}

impl FindingState {
    /// As it is printed.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Wrong => "wrong",
        }
    }
}
