//! The lines of the ledgers: what a caller intends and is told, and what an effect does.
//!
//! Moments are Unix milliseconds. All processes of a run are on one machine, so they compare.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::random::hash;

/// The tools of the effects server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    /// May not be repeated.
    Act,
    /// Only reads.
    Look,
    /// Is idempotent.
    Put,
}

/// One line of the effects server's ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectRecord {
    /// The id that the caller gave in the arguments.
    pub id: String,
    /// The tool.
    pub tool: ToolKind,
    /// What happened.
    pub event: EffectEvent,
    /// When.
    pub at_ms: u64,
    /// The process that had it done, as that process names itself; empty where it does not.
    pub worker: String,
}

/// What happened to an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectEvent {
    /// It starts; from this line on it counts.
    Start,
    /// It has ended by itself; its answer goes out after this line.
    End,
    /// It was cancelled, or its client is gone.
    Aborted,
}

/// One line of a caller's ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum CallRecord {
    /// The call is about to be made.
    Intent(Intent),
    /// The caller does not want the outcome any more.
    CancelRequest {
        /// The call.
        id: String,
        /// When.
        at_ms: u64,
    },
    /// The caller was told what became of the call.
    Outcome(OutcomeRecord),
}

/// A call that is about to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// The call, and its one effect.
    pub id: String,
    /// The tool.
    pub tool: ToolKind,
    /// When it is made.
    pub at_ms: u64,
    /// When the caller stops waiting.
    pub deadline_ms: u64,
    /// How long the effect takes.
    pub sleep_ms: u64,
    /// How long the answer is to be.
    pub reply_bytes: usize,
}

/// What a caller was told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutcomeRecord {
    /// The call.
    pub id: String,
    /// When.
    pub at_ms: u64,
    /// The result.
    pub result: CallResult,
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallResult {
    /// An answer with a text of this digest.
    Ok {
        /// [`digest`] of the text.
        digest: String,
    },
    /// None, for this reason.
    Failed {
        /// The error's code.
        code: String,
        /// `not_started`, `started` or `unknown`.
        execution: String,
        /// Whether the caller is told that it may call again.
        is_retryable: bool,
        /// The error's text.
        message: String,
    },
}

/// The answer to the call of this id: the id, and letters up to this length.
#[must_use]
pub fn reply_text(id: &str, bytes: usize) -> String {
    let mut text = format!("{id}:");
    let seed = hash(id.as_bytes());
    let letters = (0_u64..).map(|at| {
        let letter = (seed.wrapping_add(at * 7) % 26) as u8;
        char::from(b'a' + letter)
    });
    text.extend(letters.take(bytes.saturating_sub(text.len())));
    text
}

/// What tells one text from another.
#[must_use]
pub fn digest(text: &str) -> String {
    format!("{:016x}-{}", hash(text.as_bytes()), text.len())
}

/// Now, in Unix milliseconds, by the machine's own clock: the ledgers stay true where the clock of
/// a process under test is put wrong.
#[must_use]
pub fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
