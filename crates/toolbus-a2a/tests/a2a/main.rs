//! Agents that ask each other, on SQLite and on PostgreSQL, over the bus in memory and over
//! RabbitMQ.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

/// Compares a text with a snapshot, once for each kind of database.
macro_rules! assert_text {
    ($text:expr, $($compared:tt)*) => {{
        let text = $text;
        insta::allow_duplicates! { insta::assert_snapshot!(text, $($compared)*) }
    }};
}

mod asking;
mod directory;
mod hostile;
mod http_caller;
mod http_server;
mod interrupted;
mod peers;
mod support;
mod telemetry;
mod tools;
mod working;
