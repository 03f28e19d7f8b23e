//! Approvals on SQLite and on PostgreSQL: what one does, the other does as well. Names that begin
//! with `rv_` are lines of the list that the gates follow.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod answers;
mod asked;
mod bus;
mod chains;
mod gate;
mod kill;
mod remembered;
mod scale;
mod stores;
mod support;
