//! What the scheduler needs of others: who runs a task, and which zone a person lives in.

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use toolbus_tools::Lineage;

use crate::{Cause, ScheduleOwner};

/// An occurrence that is to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fire {
    /// The id of the occurrence: the same in each attempt.
    pub id: String,
    /// Whose task it is. It is run as that principal.
    pub owner: ScheduleOwner,
    /// The name of the task.
    pub name: String,
    /// What is to be done.
    pub description: String,
    /// Why it runs.
    pub cause: Cause,
    /// When it was due, in milliseconds of Unix time.
    pub due_ms: i64,
    /// How many times of this task did not run before this one, since nobody was there.
    pub missed: u64,
    /// How often it was put off.
    pub attempts: u32,
    /// The lineage of the run: doors, view and artifacts of the scope that has scheduled the task.
    /// `None`: it cannot be read, and nothing may be run.
    pub lineage: Option<Lineage>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunEnd {
    /// It is done.
    Done,
    /// It failed, and is not tried again.
    Failed(String),
    /// It made way for a person's work, and is to be run again later: whoever says so answers for
    /// that being right.
    Preempted,
}

/// Runs tasks: an agent.
pub trait RunTask: Send + Sync {
    /// Whether a person's work is under way, which comes first. It answers at once.
    fn is_busy<'a>(&'a self, fire: &'a Fire) -> BoxFuture<'a, bool>;

    /// Runs it. When `stop` fires, it ends soon, as far as it has come; one that does not is
    /// dropped.
    fn run(&self, fire: Fire, stop: CancellationToken) -> BoxFuture<'_, RunEnd>;
}

/// Knows in which time zone somebody lives.
pub trait Zones: Send + Sync {
    /// The IANA name of the zone that was set. `None` where none was.
    fn zone<'a>(
        &'a self,
        owner: &'a ScheduleOwner,
    ) -> BoxFuture<'a, Result<Option<String>, ZoneUnreadable>>;
}

/// Nobody knows which zone was set. Nothing is fired by the clocks of another instead.
#[derive(Debug, thiserror::Error)]
#[error("the time zone cannot be read: {0}")]
pub struct ZoneUnreadable(pub String);
