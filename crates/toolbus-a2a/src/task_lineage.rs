//! What a task tells the agent that does it of where it came from.

use toolbus_store::JsonColumn;
use toolbus_store::sqlx::any::AnyRow;
use toolbus_store::sqlx::{self, Row as _};
use toolbus_tools::Scope;
use toolbus_tools::scope::{DEPTH_MAX, DoorSet};

/// The depth and the doors of a task. The word of another agent for them is not proven, and need
/// not be: it only narrows what the work may do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TaskLineage {
    /// Number of agents and scopes that it has come through. The scope of the work has a depth of
    /// at least one more.
    pub depth: u8,
    /// The doors that it came through at the agents before. Rules for any of them hold for the
    /// work.
    pub doors: DoorSet,
}

/// The reason that the lineage of a task is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error("tasks are nested too deep")]
    TooDeep,
    #[error("the doors of the task are not known here")]
    Doors,
}

impl TaskLineage {
    /// That of a task that a call in this scope asks for. `None`: nested too deep.
    pub(crate) fn of(scope: &Scope) -> Option<Self> {
        let depth = scope.depth.checked_add(1).filter(|depth| *depth <= DEPTH_MAX)?;
        Some(Self { depth, doors: scope.doors })
    }

    /// Reads it from the headers of a task. A task without them came from nowhere else.
    pub(crate) fn read(depth: Option<&str>, doors: Option<&str>) -> Result<Self, Unreadable> {
        let number = |text: &str| text.trim().parse::<u64>().ok();
        let depth = depth.map_or(Some(0), number);
        let depth = depth.and_then(|depth| u8::try_from(depth).ok());
        let depth = depth.filter(|depth| *depth <= DEPTH_MAX).ok_or(Unreadable::TooDeep)?;
        let doors = doors.map_or(Some(DoorSet::default()), |text| text.parse().ok());
        Ok(Self { depth, doors: doors.ok_or(Unreadable::Doors)? })
    }

    /// Reads it from the columns `depth` and `doors`.
    pub(crate) fn read_row(row: &AnyRow) -> Result<Self, sqlx::Error> {
        let depth: i64 = row.try_get("depth")?;
        let JsonColumn(doors) = row.try_get("doors")?;
        Ok(Self { depth: u8::try_from(depth).unwrap_or(u8::MAX), doors })
    }
}
