//! The numbers under which descriptors are handed to a sandbox.

/// The socket over which requests go in and reports come out.
pub(crate) const CONTROL: i32 = 3;
/// What becomes the script's standard output.
pub(crate) const STDOUT: i32 = 4;
/// What becomes the script's standard error.
pub(crate) const STDERR: i32 = 5;
