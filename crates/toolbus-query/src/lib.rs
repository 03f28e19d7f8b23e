//! Questions about the bytes of a large value, answered in a worker process with hard limits.
//!
//! A [`Question`] (`head`, `slice`, `lines`, `grep`, `jq`, `sql`) is asked of a [`Value`] by an
//! [`Engine`], which starts a process for it. The worker limits itself before it looks at a byte:
//! memory, processor time, system calls, files. What a pattern, a filter, a statement or the value
//! itself does to it hurts nobody else; the caller is told by a typed [`Error`]. Many files are a
//! value, too ([`FilesWriter`]).
//!
//! The worker is the caller's own program, started in a hidden mode: `main` calls [`run_worker`]
//! where the first argument is [`WORKER_MODE`], before there are threads, a runtime or settings.
//!
//! ```no_run
//! let mode = std::env::args_os().nth(1);
//! if mode.is_some_and(|mode| mode == toolbus_query::WORKER_MODE) {
//!     toolbus_query::run_worker();
//! }
//! let engine = toolbus_query::Engine::new("/proc/self/exe", [toolbus_query::WORKER_MODE])?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! A program whose `main` cannot do that names `toolbus-query-worker`, which this crate brings.
//!
//! Invariants: every answer is bounded in bytes and in time, and says whether there was more; the
//! worker opens no file, starts no process and knows no environment; it streams the value, which
//! may be a file or a pipe, and holds it as a whole only where the value is one JSON document.
//! This crate knows of no artifacts, stores or tools.

#[cfg(not(target_os = "linux"))]
compile_error!("workers are limited by Linux's resource limits and seccomp filters");

mod answer;
mod engine;
mod error;
mod files;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod protocol;
pub mod question;
mod worker;

pub use answer::{Answer, ByteRange, Encoding, More};
pub use engine::{Engine, Limits, Value};
pub use error::Error;
pub use files::FilesWriter;
pub use question::Question;
pub use worker::run_worker;

/// The first argument of a process that is to be a worker.
pub const WORKER_MODE: &str = "--answer-query";
