//! Chains: programs over tools that a model wrote.
//!
//! The tool `tool_chain` runs Python in a sandbox, local or a pod, in which `tools.NAME(…)` calls a
//! tool of the agent. A call travels over the script's own channel, so the sandbox needs no network
//! and holds no token; here it becomes an inner call of the chain's call, in a scope of its own:
//! it passes every gate, with its own span, within the budget of the chain, and is approved where a
//! rule wants that. The chain sees only artifacts that it was given or has made.
//!
//! - [`ChainPolicy`] bounds a chain. The deadline is kept by the host, whatever the script does.
//! - [`ChainRunResult`] tells what became of it, always with the trace of its calls.
//! - A chain that is run again with its journal repeats no write, and a dry run makes none.

mod config;
mod dry_run;
mod journal;
mod report;
mod request;
mod session;
mod tables;
mod tool;
mod uploads;

pub use config::ChainPolicy;
pub use report::{ChainCallRecord, ChainRunResult, ChainStatus};
pub use tables::MIGRATIONS;
pub use tool::{ChainDeps, NAME, guide, register};
