//! The tables.

use toolbus_store::{Migration, Migrations};

/// What a store needs that keeps what discovery has learned.
pub const MIGRATIONS: Migrations = Migrations {
    owner: "discovery",
    steps: &[Migration {
        version: 1,
        sql: "CREATE TABLE discovery_tools (
                      tool TEXT NOT NULL,
                      period BIGINT NOT NULL,
                      successes BIGINT NOT NULL,
                      failures BIGINT NOT NULL,
                      timeouts BIGINT NOT NULL,
                      unavailable BIGINT NOT NULL,
                      weight BIGINT NOT NULL,
                      b00 BIGINT NOT NULL,
                      b01 BIGINT NOT NULL,
                      b02 BIGINT NOT NULL,
                      b03 BIGINT NOT NULL,
                      b04 BIGINT NOT NULL,
                      b05 BIGINT NOT NULL,
                      b06 BIGINT NOT NULL,
                      b07 BIGINT NOT NULL,
                      b08 BIGINT NOT NULL,
                      b09 BIGINT NOT NULL,
                      b10 BIGINT NOT NULL,
                      b11 BIGINT NOT NULL,
                      b12 BIGINT NOT NULL,
                      b13 BIGINT NOT NULL,
                      b14 BIGINT NOT NULL,
                      b15 BIGINT NOT NULL,
                      b16 BIGINT NOT NULL,
                      b17 BIGINT NOT NULL,
                      b18 BIGINT NOT NULL,
                      b19 BIGINT NOT NULL,
                      b20 BIGINT NOT NULL,
                      b21 BIGINT NOT NULL,
                      b22 BIGINT NOT NULL,
                      b23 BIGINT NOT NULL,
                      last_used_ms BIGINT NOT NULL,
                      updated_ms BIGINT NOT NULL,
                      PRIMARY KEY (tool, period)
              );
              CREATE INDEX discovery_tools_updated ON discovery_tools (updated_ms);
              CREATE TABLE discovery_uses (
                      principal TEXT NOT NULL,
                      tool TEXT NOT NULL,
                      period BIGINT NOT NULL,
                      successes BIGINT NOT NULL,
                      failures BIGINT NOT NULL,
                      last_used_ms BIGINT NOT NULL,
                      updated_ms BIGINT NOT NULL,
                      PRIMARY KEY (principal, tool, period)
              );
              CREATE INDEX discovery_uses_updated ON discovery_uses (updated_ms);
              CREATE TABLE discovery_pairs (
                      tool_before TEXT NOT NULL,
                      tool_after TEXT NOT NULL,
                      period BIGINT NOT NULL,
                      successes BIGINT NOT NULL,
                      failures BIGINT NOT NULL,
                      last_used_ms BIGINT NOT NULL,
                      updated_ms BIGINT NOT NULL,
                      PRIMARY KEY (tool_before, tool_after, period)
              );
              CREATE INDEX discovery_pairs_updated ON discovery_pairs (updated_ms);
              CREATE TABLE discovery_executions (
                      at_ms BIGINT NOT NULL,
                      event TEXT NOT NULL
              );
              CREATE INDEX discovery_executions_at ON discovery_executions (at_ms);
              CREATE TABLE discovery_queries (
                      at_ms BIGINT NOT NULL,
                      event TEXT NOT NULL
              );
              CREATE INDEX discovery_queries_at ON discovery_queries (at_ms)",
    }],
    additions: &[],
};
