//! Groups of tools that agents have from the start, a module for each.
//!
//! - [`files`]: `read_file`, `write_file`, `append_file`, `edit_file`, `glob` and `grep`, contained
//!   in a working directory.
//! - [`shell`]: `bash`, in a sandbox that shares that directory.
//!
//! Each module has its settings, its guide, and a function that registers its tools. Models reach
//! them through the registry alone. Invariants: no tool touches a file outside of the folders that
//! its settings name, by whatever links they are reached; what is read, searched or printed is
//! bounded; no process of a command outlives it.

#[cfg(not(target_os = "linux"))]
compile_error!("commands are contained by Linux's namespaces");

mod arguments;
pub mod files;
pub mod shell;
