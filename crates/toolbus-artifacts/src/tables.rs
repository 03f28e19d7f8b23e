//! The tables.

use toolbus_store::{Migration, Migrations};

/// What a store needs that keeps artifacts.
pub const MIGRATIONS: Migrations = Migrations {
    owner: "artifacts",
    steps: &[Migration {
        version: 1,
        sql: "CREATE TABLE artifacts (
                  id TEXT PRIMARY KEY,
                  owner TEXT NOT NULL,
                  digest TEXT NOT NULL,
                  media_type TEXT NOT NULL,
                  bytes BIGINT NOT NULL,
                  tool TEXT NOT NULL,
                  call_id TEXT NOT NULL,
                  stored_ms BIGINT NOT NULL,
                  expires_ms BIGINT NOT NULL
              );
              CREATE INDEX artifacts_owned ON artifacts (owner, stored_ms);
              CREATE INDEX artifacts_expired ON artifacts (expires_ms);
              CREATE INDEX artifacts_same ON artifacts (digest);
              CREATE TABLE artifacts_objects (
                  digest TEXT PRIMARY KEY,
                  object TEXT NOT NULL,
                  bytes BIGINT NOT NULL
              );
              CREATE TABLE artifacts_pins (
                  artifact TEXT NOT NULL,
                  holder TEXT NOT NULL,
                  until_ms BIGINT NOT NULL,
                  PRIMARY KEY (artifact, holder)
              );
              CREATE TABLE artifacts_used (
                  owner TEXT PRIMARY KEY,
                  artifacts BIGINT NOT NULL,
                  bytes BIGINT NOT NULL
              )",
    }],
    additions: &[],
};
