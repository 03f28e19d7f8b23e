//! What happens to a subagent, and how a model reads it.

use serde::{Deserialize, Serialize};
use toolbus_policy::SessionOwner;
use toolbus_tools::Lineage;

use crate::SubagentEnd;
use crate::texts::make_preview;

/// The error of one that was cancelled.
pub(crate) const CANCELLED: &str = "it was cancelled";
/// Longest error, in bytes.
const ERROR_BYTES_MAX: usize = 16 << 10;

/// Something that happened to a subagent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubagentEvent {
    /// Its id. Its end is told once, or again under the same id after a process was killed while it
    /// told it.
    pub id: String,
    /// Who has spawned it.
    pub owner: SessionOwner,
    /// What it is to do.
    pub description: String,
    /// What happened.
    pub what: SubagentChange,
    /// The lineage of a turn that is begun to tell it. `None`: no turn may be begun.
    pub lineage: Option<Lineage>,
}

/// What happened to a subagent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubagentChange {
    /// It goes on, and says how. Not told again after a kill.
    Progress {
        /// What it says.
        message: String,
    },
    /// It has ended.
    Ended {
        /// Its answer, as far as it came.
        text: String,
        /// Whether it has done its work.
        is_success: bool,
        /// Why not.
        error: Option<String>,
    },
}

impl SubagentChange {
    /// Whether it is over.
    #[must_use]
    pub fn is_end(&self) -> bool {
        matches!(self, Self::Ended { .. })
    }

    /// The end as it is kept.
    pub(crate) fn of_end(end: SubagentEnd, result_bytes_max: usize) -> Self {
        let (text, error) = match end {
            SubagentEnd::Completed { text } => (text, None),
            SubagentEnd::Cancelled { text } => (text, Some(CANCELLED.to_owned())),
            SubagentEnd::Failed { text, error } => (text, Some(cut(error, ERROR_BYTES_MAX))),
        };
        let text = cut(text, result_bytes_max);
        Self::Ended { text, is_success: error.is_none(), error }
    }
}

impl SubagentEvent {
    /// The event as a model reads it in its conversation.
    #[must_use]
    pub fn text(&self) -> String {
        let about = format!("subagent {} ('{}')", self.id, make_preview(&self.description));
        match &self.what {
            SubagentChange::Progress { message } => format!("[The {about} reports: {message}]"),
            SubagentChange::Ended { text, is_success: true, .. } => {
                let text = if text.is_empty() { "(no text)" } else { text };
                format!("[The {about} has completed its task:]\n\n{text}")
            }
            SubagentChange::Ended { text, error, .. } => {
                let error = error.as_deref().unwrap_or("it does not say why");
                match text.is_empty() {
                    true => format!("[The {about} has not completed its task: {error}]"),
                    false => format!(
                        "[The {about} has not completed its task: {error}. As far as it came:]\n\n\
                         {text}"
                    ),
                }
            }
        }
    }
}

/// A text that is no longer than that, and says so. Databases do not keep the character zero.
pub(crate) fn cut(mut text: String, bytes_max: usize) -> String {
    const CUT: &str = "\n[cut off: it is longer]";
    if text.len() > bytes_max {
        text.truncate(text.floor_char_boundary(bytes_max.saturating_sub(CUT.len())));
        text.push_str(CUT);
    }
    without_zeros(text)
}

/// A text without the character zero, which databases do not keep.
pub(crate) fn without_zeros(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }
}

#[cfg(test)]
mod tests;
