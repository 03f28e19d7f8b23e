//! Schedules on SQLite and on PostgreSQL: what one does, the other does as well.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

/// Compares a text with a snapshot, once for each kind of database.
macro_rules! assert_text {
    ($text:expr, $($compared:tt)*) => {{
        let text = $text;
        insta::allow_duplicates! { insta::assert_snapshot!(text, $($compared)*) }
    }};
}

mod preempted;
mod replicas;
mod scheduler;
mod store;
mod support;
mod telemetry;
mod tools;
