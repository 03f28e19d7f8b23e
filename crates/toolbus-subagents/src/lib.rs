//! Subagents: an agent splits its work.
//!
//! - [`Subagents`] spawns and cancels them, takes what they report, and has the whiteboard that
//!   they share with whoever has spawned them.
//! - [`Runner`] takes up those whose process was lost, and tells once how each has ended.
//! - [`register`] gives models the tools.
//!
//! A subagent is a row before it runs, and its end is a write on condition that it has none. So
//! what a process that is killed leaves is gone on with by another, an end counts once, and it is
//! told once, also where telling takes minutes, for it is a turn of the agent.
//!
//! # How it is wired
//!
//! The store knows [`MIGRATIONS`]. A host makes [`Subagents`], registers the tools with them, and
//! adds [`guide`] to its guides; then it starts a [`Runner`], and closes it before the bus and the
//! store.
//!
//! The ports: [`RunSubagent`] makes a turn in [`SubagentRun::scope`], or, where there is none, in a
//! scope that it makes as is said there. It says the description and the context under the id of
//! the subagent (`Said { id }` of `toolbus-agent`), so that a turn that was interrupted goes on and
//! one that has ended answers the same again. While `paused` says so it asks the model nothing and
//! begins no call. The session of a process that was killed may be in use until its lease is over:
//! it waits for that. [`OnSubagent`] says [`SubagentEvent::text`] to the session of the owner under
//! an id made of the subagent's, and [`Told::Later`] while another process has the session.
//!
//! A subagent outlives the turn that has spawned it: it ends early where the token of that turn's
//! *scope* is cancelled. A host that cancels it at the end of each turn, or before it has closed
//! the [`Runner`] when it stops, ends its subagents so, and no other process goes on with them. Its
//! door is that of its caller, so a turn of one whose caller is a person counts as a turn of that
//! person: schedules of theirs wait for it (`Agent::is_serving`). What the run of the caller may
//! spend, and until when, holds for it, too.

mod config;
mod error;
mod event;
mod leases;
pub mod metrics;
mod ports;
mod publish;
mod rows;
mod run;
mod runner;
mod scope;
mod slots;
mod subagents;
mod tables;
mod telling;
mod texts;
mod tools;
mod whiteboard;

pub use config::{SubagentsConfig, WhiteboardLimits};
pub use error::Error;
pub use event::{SubagentChange, SubagentEvent};
pub use ports::{OnSubagent, RunSubagent, SubagentEnd, SubagentRun, Told};
pub use rows::ActiveSubagent;
pub use runner::Runner;
pub use subagents::{NewSubagent, Subagents, SubagentsDeps};
pub use tables::MIGRATIONS;
pub use toolbus_policy::spawn::Priority;
pub use tools::{SubagentToolsDeps, guide, register};
pub use whiteboard::WhiteboardEntry;
