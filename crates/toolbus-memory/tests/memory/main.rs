//! Memory on SQLite and on PostgreSQL: what one does, the other does as well.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
