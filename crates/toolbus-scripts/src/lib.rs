//! Running scripts: the runner port, the tool that models call, and both ends of the bus hop.
//!
//! A [`Runner`] runs one script in isolation and reports how it ended. Runners live elsewhere (the
//! local sandbox, Kubernetes pods); what they have in common is here: [`serve`] answers
//! `script.invoke` with a runner, and [`tool::register`] gives agents the tool that asks for it.

pub mod allowance;
mod client;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod fair_runner;
pub mod files;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod metrics;
pub mod packages;
mod response;
pub mod runner;
mod service;
#[cfg(feature = "supervisor")]
pub mod supervisor;
pub mod tool;

pub use allowance::ScriptAllowance;
pub use client::{CHANNEL_TOOL, ChannelScript, ScriptClient};
pub use fair_runner::FairRunner;
pub use runner::{Outcome, Run, Runner, Script};
pub use service::{LARGE_REQUESTS_BYTES, Unavailable, WorkerOptions, serve};
