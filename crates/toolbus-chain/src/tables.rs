//! The tables.

use toolbus_store::{Migration, Migrations};

/// What a store needs that keeps the journals of chains.
pub const MIGRATIONS: Migrations = Migrations {
    owner: "chains",
    steps: &[Migration {
        version: 1,
        sql: "CREATE TABLE chains_journals (
                  journal TEXT NOT NULL,
                  digest TEXT NOT NULL,
                  repetition BIGINT NOT NULL,
                  owner TEXT NOT NULL,
                  began_ms BIGINT NOT NULL,
                  result TEXT,
                  PRIMARY KEY (journal, digest, repetition)
              );
              CREATE INDEX chains_journals_began ON chains_journals (began_ms)",
    }],
};
