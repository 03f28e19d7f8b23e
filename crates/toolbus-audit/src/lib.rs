//! The audit log: who called what, when, and how it ended.
//!
//! Every call and every read leaves one row, whatever became of it: also one that was refused or
//! crashed. A row has the digest of the arguments, and neither them nor the result, so nothing
//! secret is in it. [`Audit`] writes the rows beside the calls, many at a time; [`AuditLog`] reads
//! them, in any process at the same store.
//!
//! No call waits for the log. So the rows of the last moments are lost with a process that is
//! killed, and what a store does not take for long is dropped, counted and told.

mod audit;
mod log;
mod row;
mod tables;
mod writer;

pub use audit::{Audit, AuditConfig};
pub use log::{AuditLog, LIST_MAX, Query};
pub use row::{AuditRow, CallLineage};
pub use tables::MIGRATIONS;
