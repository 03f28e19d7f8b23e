//! The local script runner: bubblewrap, a filter of system calls, and limits. Linux only.
//!
//! [`Sandbox`] is the runner; it exists only when its probe has proved that it holds.
//!
//! How a run goes, file by file: `engine` admits it, `packages` has what it needs installed,
//! `recipe` and `rlimits` say what the script may see and use, `spawn` and `launch`
//! start bubblewrap and in it `init`, the first process, which starts Python with `bootstrap.py`;
//! `supervise` watches time, memory (`memory_limit`, `cgroup`) and output (`capture`), kills, and
//! reports how the run ended; `work_folder` reads what it left.
//!
//! Invariants: no way leads from a broken sandbox to a weaker one; after an outcome is reported
//! no process of its script is left; what is read from a script is bounded.

#[cfg(not(target_os = "linux"))]
compile_error!("the sandbox is made of Linux's namespaces");

mod c_string;
mod capture;
mod cgroup;
mod config;
mod engine;
mod init;
mod interpreter;
mod kernel_objects;
mod launch;
mod memory_limit;
mod nonce;
mod packages;
mod probe;
mod process;
mod recipe;
mod rlimits;
mod sandbox;
mod script;
mod spawn;
mod staging;
mod supervise;
mod work_folder;

pub mod settings;

pub use config::{Config, Limits, MemoryAccounting, PackagesConfig};
pub use probe::Unavailable;
pub use sandbox::Sandbox;
