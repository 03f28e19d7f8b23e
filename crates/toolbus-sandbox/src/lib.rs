//! The local script runner: bubblewrap, a filter of system calls, and limits. Linux only.
//!
//! [`Sandbox`] is the runner; it exists only when its probe has proved that it holds.
//!
//! How a run goes, file by file: `engine` admits it, `packages` has what it needs installed,
//! `recipe` says what the script may see, `bubblewrap` starts it with the supervisor of
//! `toolbus_scripts` as its first process, by the thread of `spawn` and in a group of `cgroup`, and
//! `run` hands the script over and waits for its end.
//!
//! Invariants: no way leads from a broken sandbox to a weaker one; after an outcome is reported
//! no process of its script is left; what is read from a script is bounded.

#[cfg(not(target_os = "linux"))]
compile_error!("the sandbox is made of Linux's namespaces");

mod bubblewrap;
mod cgroup;
mod config;
pub mod doctor;
mod engine;
mod interpreter;
mod nonce;
mod packages;
mod probe;
mod recipe;
mod run;
mod sandbox;
mod spawn;
mod staging;
mod workspace;

pub mod settings;

pub use config::{Config, Limits, MemoryAccounting, PackagesConfig, Workspace};
pub use probe::Unavailable;
pub use sandbox::Sandbox;
pub use toolbus_scripts::supervisor::seccomp::Network;
