//! The vault on SQLite and on PostgreSQL, and behind the gates of an invoker.

mod calls;
mod kept;
mod support;
