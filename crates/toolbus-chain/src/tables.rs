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
    additions: &[
        // A digest of the doors and the view that a write was made with. Writes that are there
        // already are their owner's, as before, for the week that they are kept: a chain that did
        // not have them would make them again.
        Migration {
            version: 2,
            sql: "ALTER TABLE chains_journals ADD COLUMN lineage TEXT NOT NULL DEFAULT ''",
        },
    ],
};
