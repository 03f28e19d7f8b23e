//! The table.

use toolbus_store::{Migration, Migrations};

/// What a store needs that keeps the audit log.
pub const MIGRATIONS: Migrations = Migrations {
    owner: "audit",
    steps: &[Migration {
        version: 1,
        sql: "CREATE TABLE audit_calls (
                  began_ms BIGINT NOT NULL,
                  took_us BIGINT NOT NULL,
                  call_id TEXT NOT NULL,
                  parent TEXT,
                  run TEXT NOT NULL,
                  session TEXT,
                  agent TEXT NOT NULL,
                  door TEXT NOT NULL,
                  principal TEXT NOT NULL,
                  tool TEXT NOT NULL,
                  subject TEXT,
                  arguments TEXT,
                  status TEXT NOT NULL,
                  error TEXT,
                  refused_by TEXT,
                  execution TEXT NOT NULL
              );
              CREATE INDEX audit_calls_began ON audit_calls (began_ms)",
    }],
    additions: &[LINEAGE],
};

/// Column with the doors and the owner of a call, as JSON. Rows of older programs have none.
const LINEAGE: Migration =
    Migration { version: 2, sql: "ALTER TABLE audit_calls ADD COLUMN lineage TEXT" };
