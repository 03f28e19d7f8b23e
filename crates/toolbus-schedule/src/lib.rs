//! Schedules of an agent: tasks that fire at the times of a cron expression, by the clocks of a
//! person's time zone.
//!
//! - [`CronExpression`] reads what Cronos reads, and finds the next time that it matches.
//! - [`Schedules`] keeps tasks, and what became of each of their occurrences.
//! - [`Scheduler`] fires them. Of several processes at one store, one at a time does, by a lease.
//! - [`register`] gives models the three tools.
//!
//! An occurrence is a row before anything of it runs, and a task's next time is moved on in the
//! same write. So each runs at most once, whichever process is killed at which moment, and each
//! that did not run has a row that says why: missed, skipped, lost or cancelled.
//!
//! # How it is wired
//!
//! The store knows [`MIGRATIONS`]. A host makes one [`Schedules`] of it with a [`Zones`], which
//! reads the zone that a person has set (of `toolbus-memory`, `Preferences::timezone` for the
//! `MemoryOwner::of` a scope with the principal and agent of the [`ScheduleOwner`]), registers the
//! tools with it, and adds [`guide`] to its guides. After `set_timezone` it may
//! [`wake`](Schedules::wake) the scheduler, which looks twice a minute anyway.
//!
//! It starts a [`Scheduler`] with a [`RunTask`]: one that makes a turn in a scope of
//! `Door::Schedule` with the principal of the [`Fire`], says busy while a person's turn is under
//! way, and ends with [`RunEnd::Preempted`] where it made way for one. The scheduler is closed
//! before the store. `schedules list|show|cancel|run` are [`Schedules::list_all`],
//! [`Schedules::history`], [`Schedules::cancel`] and [`Schedules::run_now`].

mod config;
mod cron;
mod error;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod ledger;
pub mod metrics;
mod occurrence;
mod owner;
mod plan;
mod ports;
mod rows;
mod running;
mod scheduler;
mod schedules;
mod tables;
mod task;
mod texts;
mod tools;

pub use config::ScheduleConfig;
pub use cron::{CRON_BYTES_MAX, CronError, CronExpression};
pub use error::Error;
pub use occurrence::{Cause, Occurrence, OccurrenceState};
pub use owner::ScheduleOwner;
pub use plan::MissedRule;
pub use ports::{Fire, RunEnd, RunTask, ZoneUnreadable, Zones};
pub use scheduler::{Scheduler, SchedulerDeps};
pub use schedules::{Scheduled, Schedules};
pub use tables::MIGRATIONS;
pub use task::{DESCRIPTION_BYTES_MAX, NAME_CHARS_MAX, NewTask, RUN_ALL_MAX, Task};
pub use tools::{ScheduleDeps, guide, register};
