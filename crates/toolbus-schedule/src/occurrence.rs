//! Occurrences: what became of each time that a task was due.

use serde::Serialize;
use toolbus_store::sqlx::any::AnyRow;
use toolbus_store::sqlx::{self, Row as _};

/// What became of one time that a task was due, or of several that did not run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Occurrence {
    /// Its id.
    pub id: String,
    /// The name of its task.
    pub name: String,
    /// Why it is there.
    pub cause: Cause,
    /// How far it is.
    pub state: OccurrenceState,
    /// What there is to say of it: an error, or why it did not run. Empty where there is nothing.
    pub reason: String,
    /// When it was due, in milliseconds of Unix time; of several, the first.
    pub due_ms: i64,
    /// When the last of them was due.
    pub until_ms: i64,
    /// How many there are; of a great many, at least.
    pub fires: u64,
    /// How often its run was put off.
    pub attempts: u32,
    /// When its run began.
    pub started_ms: Option<i64>,
    /// When nothing could come of it any more.
    pub ended_ms: Option<i64>,
}

/// Why there is an occurrence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Cause {
    /// Its time has come.
    Schedule,
    /// Somebody wanted it at once.
    Asked,
}

/// How far an occurrence is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OccurrenceState {
    /// It is due, and nothing of it was run.
    Fired,
    /// It runs.
    Running,
    /// It ran.
    Done,
    /// It ran, and failed.
    Failed,
    /// It was running when its process ended: nobody knows how far it came. It is not run again.
    Lost,
    /// Nobody was there to run it.
    Missed,
    /// It was due while the one before it ran, or the agent was busy for too long.
    Skipped,
    /// Its task was cancelled or replaced before it ran.
    Cancelled,
}

/// The columns of an occurrence.
pub(crate) const OCCURRENCE_COLUMNS: &str = "id, owner, task, generation, name, cause, \
     state, reason, due_ms, until_ms, fires, missed_before, attempts, retry_ms, fired_ms, \
     started_ms, ended_ms, description, lineage";

impl Cause {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Schedule => "schedule",
            Self::Asked => "asked",
        }
    }

    pub(crate) fn of(name: &str) -> Self {
        if name == Self::Asked.as_str() { Self::Asked } else { Self::Schedule }
    }
}

impl OccurrenceState {
    /// Every state, in the order in which they may follow each other.
    pub const ALL: [Self; 8] = [
        Self::Fired,
        Self::Running,
        Self::Done,
        Self::Failed,
        Self::Lost,
        Self::Missed,
        Self::Skipped,
        Self::Cancelled,
    ];

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fired => "fired",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Lost => "lost",
            Self::Missed => "missed",
            Self::Skipped => "skipped",
            Self::Cancelled => "cancelled",
        }
    }

    /// The one of this name. What a later version has written counts as lost.
    pub(crate) fn of(name: &str) -> Self {
        Self::ALL.into_iter().find(|state| state.as_str() == name).unwrap_or(Self::Lost)
    }
}

impl Occurrence {
    pub(crate) fn read(row: &AnyRow) -> Result<Self, sqlx::Error> {
        let (fires, attempts): (i64, i64) = (row.try_get("fires")?, row.try_get("attempts")?);
        Ok(Self {
            id: row.try_get("id")?,
            name: row.try_get("name")?,
            cause: Cause::of(row.try_get("cause")?),
            state: OccurrenceState::of(row.try_get("state")?),
            reason: row.try_get("reason")?,
            due_ms: row.try_get("due_ms")?,
            until_ms: row.try_get("until_ms")?,
            fires: fires.unsigned_abs(),
            attempts: u32::try_from(attempts).unwrap_or(u32::MAX),
            started_ms: row.try_get("started_ms")?,
            ended_ms: row.try_get("ended_ms")?,
        })
    }
}
