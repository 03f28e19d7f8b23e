//! Observers: who hears of each call, from its beginning to its end.

use std::fmt;
use std::time::Duration;

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use toolbus_wire::message::toolbus::ToolProgress;
use toolbus_wire::{ErrorCode, Execution};

use crate::call::Call;
use crate::canonical::canonical_text;
use crate::id::{CallId, ToolId, ToolName};
use crate::scope::Scope;

/// Something that happened to a call. The events of one call are numbered without a gap, from 0.
#[derive(Debug, Clone)]
pub struct CallEvent<'a> {
    /// The call.
    pub call: &'a CallId,
    /// The tool, as it was called.
    pub tool: &'a ToolName,
    /// Who calls, in which run, and which call made it.
    pub scope: &'a Scope,
    /// Its number among the events of the call.
    pub sequence: u64,
    /// What happened.
    pub kind: CallEventKind<'a>,
}

/// What happened to a call.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum CallEventKind<'a> {
    /// It came in.
    Began(&'a Call),
    /// A gate keeps it waiting.
    Waiting {
        /// The gate's name.
        gate: &'static str,
    },
    /// It has passed every gate, and its tool is started.
    Started,
    /// Its tool reports progress.
    Progress(&'a ToolProgress),
    /// It has ended.
    Ended(&'a CallRecord),
}

/// How a call ended.
#[derive(Debug, Clone)]
pub struct CallRecord {
    /// The tool that it was about, where that was found out.
    pub subject: Option<ToolId>,
    /// Its arguments: those that its tool was run with, else those that it came with. `None` where
    /// those are no JSON object, and for a read.
    pub arguments: Option<ArgumentsDigest>,
    /// How long those arguments are as JSON text, in bytes.
    pub input_bytes: Option<usize>,
    /// How long the text is that a model is given of the output, in bytes; of an error, none.
    pub output_bytes: Option<usize>,
    /// How it ended, in one word.
    pub status: CallStatus,
    /// Why it failed. `None`: it has an output.
    pub error: Option<ErrorCode>,
    /// The gate that refused it, where one did.
    pub refused_by: Option<&'static str>,
    /// Whether its tool was started.
    pub execution: Execution,
    /// How long it took, gates and tool together.
    pub took: Duration,
}

/// How a call ended, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallStatus {
    /// It has an output.
    Ok,
    /// It failed, or its tool says so itself.
    Error,
    /// It was refused.
    Denied,
    /// Its time was over.
    Timeout,
}

/// The digest of a call's arguments: the first 64 bits of the SHA-256 of their canonical text. It
/// tells whether two calls had the same arguments, and not what they were.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ArgumentsDigest([u8; 8]);

/// Hears of every call. It is called on the task of the call, so it must never wait; what it cannot
/// take at once it drops and counts. One that panics is not heard to the end, and harms nobody.
pub trait Observe: Send + Sync + 'static {
    /// Takes an event.
    fn on_event(&self, event: &CallEvent<'_>);
}

impl CallStatus {
    /// Every status.
    pub const ALL: [Self; 4] = [Self::Ok, Self::Error, Self::Denied, Self::Timeout];

    /// The status of a call that failed with this.
    #[must_use]
    pub fn of_error(code: &ErrorCode) -> Self {
        match code {
            ErrorCode::Denied | ErrorCode::RateLimited => Self::Denied,
            ErrorCode::Timeout => Self::Timeout,
            _ => Self::Error,
        }
    }

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Denied => "denied",
            Self::Timeout => "timeout",
        }
    }
}

impl ArgumentsDigest {
    /// The digest of these arguments.
    #[must_use]
    pub fn of(arguments: &Value) -> Self {
        Self::measure(arguments).0
    }

    /// The same, and how long the text is that it is made of, in bytes.
    pub(crate) fn measure(arguments: &Value) -> (Self, usize) {
        let text = canonical_text(arguments);
        let digest = Sha256::digest(&text);
        let mut first = [0; 8];
        first.copy_from_slice(&digest[..8]);
        (Self(first), text.len())
    }
}

impl fmt::Display for ArgumentsDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
