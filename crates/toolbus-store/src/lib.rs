//! State that survives a restart: SQLite in one file by default, PostgreSQL where several hosts
//! share it.
//!
//! A [`Store`] knows no tables but its own. Each crate that keeps something brings its
//! [`Migrations`] and writes its own SQL, one text for both databases: `$1` for arguments, `TEXT`,
//! `BIGINT` and `BLOB` for columns, `ON CONFLICT` and `RETURNING` where they are needed.
//!
//! - **Writes** go through one connection, each in a transaction of its own as far as anybody can
//!   tell; those that come at once are committed together. What [`Store::write`] has returned is on
//!   the disk.
//! - **Reads** have connections beside it, which cannot write.
//! - **Changes** that a write tells of reach whoever waits for them, in this process and others.
//! - **Leases** say which of several processes does what only one may do.

mod changes;
mod columns;
mod connection;
mod doctor;
mod error;
mod lazy;
mod lease;
mod location;
mod migrations;
mod store;
mod writer;

pub use changes::until_changed;
pub use columns::{JSON_COLUMN_BYTES_MAX, JsonColumn, OwnerId};
pub use error::Error;
pub use lazy::LazyStore;
pub use lease::Lease;
pub use location::{Location, LocationError, state_folder};
pub use migrations::{Migration, Migrations};
/// What reads and writes are made of.
pub use sqlx;
pub use store::Store;
pub use writer::Transaction;
