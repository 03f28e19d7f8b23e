//! What ran is what was judged, and what the audit log names: for generated calls of every tool
//! that stands for others or manages servers, by every door, and in programs, wisps, subagents and
//! turns that notices and schedules begin.
//!
//! The agent, its gates, rules, artifacts and audit log are the real ones. The bridge is a stub
//! that notes what each request asks for, and the model is a script that makes the generated calls.
//! `PROPTEST_RNG_SEED` makes the calls of a run again; a test that fails tells its seed.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod begin;
mod bridge;
mod calls;
mod chains;
mod draws;
mod entries;
mod ledger;
mod rows;
mod rules;
mod schedules;
mod subagents;
mod turns;
mod wisps;
mod world;
