//! Tasks: what is to be done, and when.

use serde::Serialize;
use toolbus_store::sqlx::any::AnyRow;
use toolbus_store::sqlx::{self, Row as _};
use toolbus_tools::Lineage;
use toolbus_wire::name::AgentName;

use crate::{CronExpression, Error, MissedRule, ScheduleOwner};

/// Longest name of a task, in characters.
pub const NAME_CHARS_MAX: usize = 100;
/// Longest description, in bytes.
pub const DESCRIPTION_BYTES_MAX: usize = 4_096;
/// Most missed fires that are run after the fact.
pub const RUN_ALL_MAX: u32 = 100;

/// A task that is to be scheduled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTask {
    /// What it is called, without regard to case: one of the same name is replaced.
    pub name: String,
    /// When it fires.
    pub cron: CronExpression,
    /// What is to be done.
    pub description: String,
    /// Whether it is removed once it has fired.
    pub run_once: bool,
    /// What becomes of fires that are missed. `None`: as it is configured.
    pub missed: Option<MissedRule>,
    /// The lineage of each run.
    pub lineage: Lineage,
}

/// A task that is scheduled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// Whose it is.
    #[serde(skip)]
    pub owner: ScheduleOwner,
    /// What it is called.
    pub name: String,
    /// When it fires.
    #[serde(rename = "cronExpression")]
    pub cron: String,
    /// What is to be done.
    pub description: String,
    /// Whether it is removed once it has fired.
    pub run_once: bool,
    /// What becomes of fires that are missed.
    pub missed: MissedRule,
    /// The zone by whose clocks it fires next.
    pub zone: String,
    /// When it was scheduled, in milliseconds of Unix time.
    pub created_ms: i64,
    /// When it was begun last that came to an end.
    pub last_fired_ms: Option<i64>,
    /// When it fires next. `None`: it never does, or does so now for the last time.
    pub next_ms: Option<i64>,
}

/// The columns of a task.
pub(crate) const TASK_COLUMNS: &str = "name, owner, cron, zone, run_once, missed, missed_max, \
     created_ms, last_fired_ms, next_ms, description";

/// What a task is found by: its name in lower case.
pub(crate) fn id_of(name: &str) -> String {
    name.chars().flat_map(char::to_lowercase).collect()
}

/// A name as it is kept: one line, with something in it.
pub(crate) fn parse_name(name: &str) -> Result<String, Error> {
    let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
    match name.chars().count() {
        0 => Err(Error::Name("it is empty")),
        chars if chars > NAME_CHARS_MAX => Err(Error::Name("it is too long")),
        _ if name.chars().any(char::is_control) => Err(Error::Name("it has control characters")),
        _ => Ok(name),
    }
}

/// A description as it is kept. A text of PostgreSQL has no zero in it.
pub(crate) fn parse_description(description: &str) -> Result<String, Error> {
    let (bytes, max) = (description.len(), DESCRIPTION_BYTES_MAX);
    if description.trim().is_empty() || bytes > max {
        return Err(Error::Description { bytes, max });
    }
    Ok(description.replace('\0', "\u{fffd}"))
}

impl Task {
    pub(crate) fn read(agent: &AgentName, row: &AnyRow) -> Result<Self, Error> {
        let name: String = row.try_get("name")?;
        let Some(owner) = ScheduleOwner::read(agent, &row.try_get("owner")?) else {
            return Err(Error::Damaged(name));
        };
        Ok(Self {
            owner,
            cron: row.try_get("cron")?,
            description: row.try_get("description")?,
            run_once: row.try_get::<i64, _>("run_once")? != 0,
            missed: read_missed(row)?,
            zone: row.try_get("zone")?,
            created_ms: row.try_get("created_ms")?,
            last_fired_ms: row.try_get("last_fired_ms")?,
            next_ms: row.try_get("next_ms")?,
            name,
        })
    }
}

pub(crate) fn read_missed(row: &AnyRow) -> Result<MissedRule, sqlx::Error> {
    let max: i64 = row.try_get("missed_max")?;
    Ok(MissedRule::of(row.try_get("missed")?, u32::try_from(max).unwrap_or_default()))
}
