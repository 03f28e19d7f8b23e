//! What ran is what was judged, and what the audit log names: for generated calls of every tool
//! that stands for others or manages servers, by every door, by direct names, and in programs,
//! wisps, subagents, tasks of other agents, and turns that notices and schedules begin. Work that
//! one host started is judged by its lineage when another host continues it: turns, subagents and
//! jobs of the HTTP API.
//!
//! The agent, its gates, rules, artifacts and audit log are the real ones. The bridge is a stub
//! that notes what each request asks for, and the model is a script that makes the generated calls.
//! `PROPTEST_RNG_SEED` makes the calls of a run again; a test that fails tells its seed.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod agents;
mod begin;
mod bridge;
mod calls;
mod chains;
mod direct;
mod draws;
mod entries;
mod interrupted;
mod jobs;
mod ledger;
mod rows;
mod rules;
mod schedules;
mod subagents;
mod turns;
mod wisps;
mod world;
