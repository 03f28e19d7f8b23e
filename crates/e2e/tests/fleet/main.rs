//! Whole fleets: our programs as processes, on a real broker or without one, with real MCP servers
//! and real sandboxes. Each test has a virtual host of its own.
//!
//! The programs must have been built: `cargo xtask test` does it, `cargo build --workspace --bins`
//! does it by hand, and a test that finds one missing or older than its sources says so.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod agent;
mod agent_session;
mod agents_together;
mod approvals;
mod artifacts;
mod asks;
mod bad_input;
mod bridges;
mod broker;
mod calls;
mod canaries;
mod children;
mod command_line;
mod crash;
mod credentials;
mod discovery;
mod doctor;
mod earlier;
mod embedded;
mod face;
mod google;
mod grants;
mod guides;
mod other_agents;
mod others;
mod policy;
mod presets;
mod prying;
mod reference;
mod registered;
mod schedules;
mod server_list;
mod stop;
mod subagents;
mod support;
mod telemetry;
mod toolkits;
mod trust;
mod vault;
