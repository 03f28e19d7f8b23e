//! The limits of the face that several of its parts keep.

use toolbus_tools::call::{ARGUMENTS_BYTES_MAX, ARGUMENTS_VALUES_MAX};

/// Most connections at once. A client has one for each call that runs, and one to listen.
pub const CONNECTIONS_MAX: usize = 1_024;
/// Calls that run at the same time, over all clients; more are refused as busy.
pub(crate) const CALLS_MAX: u16 = 256;
/// Calls that wait for a person, over all clients; more of them wait among those that run.
pub(crate) const PARKED_CALLS_MAX: u16 = 256;
/// Sessions of one path, for each client that has a token, which only those of the older era have;
/// no more are begun above it. One that is idle for five minutes ends.
pub(crate) const SESSIONS_MAX: usize = 256;
/// Largest request body, in bytes: the largest arguments, escaped, and what is around them.
pub(crate) const BODY_BYTES_MAX: usize = 2 * ARGUMENTS_BYTES_MAX;
/// Most JSON values in a request body: those of the largest arguments, and what is around them. A
/// value of two bytes takes a hundred bytes of memory.
pub(crate) const BODY_VALUES_MAX: usize = ARGUMENTS_VALUES_MAX + 4_096;
