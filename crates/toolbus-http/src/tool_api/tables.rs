//! The tables.

use toolbus_store::{Migration, Migrations};

/// What a store needs that keeps the keys, counts and jobs of clients.
pub const MIGRATIONS: Migrations = Migrations {
    owner: "http",
    steps: &[KEYS_COUNTS_AND_JOBS, DURABLE_WEBHOOKS],
    additions: &[OWNERS],
};

const KEYS_COUNTS_AND_JOBS: Migration = Migration {
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
};

/// Clients in the settings, and the tables whose rows keys and clients own by name or by id. At
/// most one client has a name at a time. A key that was issued before this step owns by name, and
/// so do the clients of the first start after it, because owners had no ids before.
const OWNERS: Migration = Migration {
    version: 3,
    sql: "CREATE TABLE http_clients (
                  id TEXT PRIMARY KEY,
                  agent TEXT NOT NULL,
                  name TEXT NOT NULL,
                  owns_by_name BIGINT NOT NULL,
                  created_ms BIGINT NOT NULL,
                  removed_ms BIGINT
              );
              CREATE UNIQUE INDEX http_clients_name ON http_clients (agent, name)
                  WHERE removed_ms IS NULL;
              ALTER TABLE http_keys ADD COLUMN owns_by_name BIGINT NOT NULL DEFAULT 1",
};

/// A webhook is due from the end of its job on; whoever takes it makes it due later. Secrets that
/// it is signed with are in the vault and not here.
const DURABLE_WEBHOOKS: Migration = Migration {
    version: 2,
    sql: "ALTER TABLE http_keys DROP COLUMN webhook_secret;
          ALTER TABLE http_keys ADD COLUMN has_secret BIGINT NOT NULL DEFAULT 0;
          CREATE INDEX http_keys_secret ON http_keys (has_secret) WHERE has_secret = 1;
          ALTER TABLE http_jobs ADD COLUMN webhook_due_ms BIGINT;
          ALTER TABLE http_jobs ADD COLUMN webhook_attempts BIGINT NOT NULL DEFAULT 0;
          CREATE INDEX http_jobs_webhook ON http_jobs (agent, webhook_due_ms)
              WHERE webhook_due_ms IS NOT NULL",
};
