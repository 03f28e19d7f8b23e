//! The ways to a server, all behind rmcp's transport port: a child process, HTTP, and older HTTP.
//!
//! A transport carries messages and nothing else: it neither retries nor knows what a tool is.
//! Everything that a server can do to it is bounded here: lines, waits for a write, its stderr, its
//! processes.

pub(crate) mod environment;
mod event;
pub(crate) mod http;
mod line;
pub(crate) mod process;
pub(crate) mod sse;
pub(crate) mod stdio;
pub(crate) mod tap;

/// Longest message of a server, in bytes: a line on stdout, a JSON body, an event of a stream.
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;
