//! Subagents, on SQLite and on PostgreSQL.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

/// Compares a text with a snapshot, once for each kind of database.
macro_rules! assert_text {
    ($text:expr, $($compared:tt)*) => {{
        let text = $text;
        insta::allow_duplicates! { insta::assert_snapshot!(text, $($compared)*) }
    }};
}

mod interrupted;
mod slots;
mod spawning;
mod support;
mod telemetry;
mod telling;
mod tools;
mod whiteboard;
