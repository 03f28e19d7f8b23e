//! Whether a call that failed had been started.

use serde::{Deserialize, Serialize};

/// Whether the work of a call that has no result was started: what a caller needs to know before
/// it makes the call again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Execution {
    /// It was not: nothing has happened, and the call may be made again.
    NotStarted,
    /// It was: it may have taken effect.
    Started,
    /// Nobody who answers knows. Also any word that this version does not know.
    #[serde(other)]
    Unknown,
}
