//! The tables.

use toolbus_store::{Migration, Migrations};

/// What a store needs that keeps the keys, counts and jobs of clients.
pub const MIGRATIONS: Migrations = Migrations {
    owner: "http",
    steps: &[Migration {
        version: 1,
        sql: "CREATE TABLE http_keys (
                  id TEXT PRIMARY KEY,
                  name TEXT NOT NULL,
                  kind TEXT NOT NULL,
                  shown TEXT NOT NULL,
                  role TEXT NOT NULL,
                  plan TEXT NOT NULL,
                  lookup TEXT NOT NULL,
                  digest TEXT NOT NULL,
                  webhook_secret TEXT NOT NULL,
                  created_ms BIGINT NOT NULL,
                  expires_ms BIGINT,
                  revoked_ms BIGINT
              );
              CREATE INDEX http_keys_lookup ON http_keys (lookup);
              CREATE UNIQUE INDEX http_keys_name ON http_keys (name) WHERE revoked_ms IS NULL;
              CREATE TABLE http_counts (
                  counted TEXT NOT NULL,
                  span TEXT NOT NULL,
                  number BIGINT NOT NULL,
                  calls BIGINT NOT NULL,
                  PRIMARY KEY (counted, span, number)
              );
              CREATE TABLE http_jobs (
                  id TEXT PRIMARY KEY,
                  agent TEXT NOT NULL,
                  owner TEXT NOT NULL,
                  tool TEXT NOT NULL,
                  arguments TEXT NOT NULL,
                  timeout_ms BIGINT NOT NULL,
                  state TEXT NOT NULL,
                  created_ms BIGINT NOT NULL,
                  started_ms BIGINT,
                  ended_ms BIGINT,
                  holder TEXT,
                  lease_ms BIGINT,
                  outcome TEXT,
                  webhook_url TEXT,
                  webhook_state TEXT
              );
              CREATE INDEX http_jobs_open ON http_jobs (agent, state, created_ms)
                  WHERE ended_ms IS NULL;
              CREATE INDEX http_jobs_owner ON http_jobs (agent, owner);
              CREATE INDEX http_jobs_ended ON http_jobs (agent, ended_ms)",
    }],
};
