//! The tables.

use toolbus_store::{Migration, Migrations};

/// What a store needs that keeps memory. Values are bytes: a text of PostgreSQL has no zero in it.
/// They are the last columns, so that SQLite reads the others without them.
pub const MIGRATIONS: Migrations = Migrations {
    owner: "memory",
    steps: &[Migration {
        version: 1,
        sql: "CREATE TABLE memory_entries (
                  owner TEXT NOT NULL,
                  path TEXT NOT NULL,
                  namespace TEXT NOT NULL,
                  written_path TEXT NOT NULL,
                  bytes BIGINT NOT NULL,
                  category TEXT NOT NULL,
                  tags TEXT NOT NULL,
                  is_result BIGINT NOT NULL,
                  stored_ms BIGINT NOT NULL,
                  expires_ms BIGINT NOT NULL,
                  value BLOB NOT NULL,
                  PRIMARY KEY (owner, path)
              );
              CREATE INDEX memory_entries_listed ON memory_entries (owner, namespace);
              CREATE INDEX memory_entries_counted ON memory_entries (owner, expires_ms, bytes);
              CREATE INDEX memory_entries_expired ON memory_entries (expires_ms);
              CREATE TABLE memory_namespaces (
                  owner TEXT NOT NULL,
                  namespace TEXT NOT NULL,
                  written_ms BIGINT NOT NULL,
                  PRIMARY KEY (owner, namespace)
              );
              CREATE TABLE memory_items (
                  owner TEXT NOT NULL,
                  kind TEXT NOT NULL,
                  id TEXT NOT NULL,
                  name TEXT NOT NULL,
                  category TEXT NOT NULL,
                  tags TEXT NOT NULL,
                  summary TEXT NOT NULL,
                  stored_ms BIGINT NOT NULL,
                  content BLOB NOT NULL,
                  PRIMARY KEY (owner, kind, id)
              )",
    }],
    additions: &[],
};
