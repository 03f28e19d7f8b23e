//! The tables.

use toolbus_store::{Migration, Migrations};

/// What a store needs that keeps approvals.
pub const MIGRATIONS: Migrations = Migrations {
    owner: "approvals",
    steps: &[
        Migration {
            version: 1,
            sql: "CREATE TABLE approvals (
                  id TEXT PRIMARY KEY,
                  state TEXT NOT NULL,
                  call_key TEXT NOT NULL,
                  asked_digest TEXT NOT NULL,
                  digest TEXT NOT NULL,
                  binding TEXT NOT NULL,
                  asked_binding TEXT,
                  call_id TEXT NOT NULL,
                  tool TEXT NOT NULL,
                  subject TEXT NOT NULL,
                  risk TEXT NOT NULL,
                  door TEXT NOT NULL,
                  agent TEXT NOT NULL,
                  reason TEXT NOT NULL,
                  asked_ms BIGINT NOT NULL,
                  expires_ms BIGINT NOT NULL,
                  answered_ms BIGINT,
                  answered_by TEXT,
                  note TEXT,
                  ended_ms BIGINT,
                  held_by TEXT,
                  request TEXT
              );
              CREATE UNIQUE INDEX approvals_call ON approvals (call_key, asked_digest);
              CREATE INDEX approvals_overdue ON approvals (state, expires_ms)
                  WHERE ended_ms IS NULL;
              CREATE INDEX approvals_listed ON approvals (state, asked_ms);
              CREATE INDEX approvals_asked ON approvals (asked_ms);
              CREATE INDEX approvals_held ON approvals (held_by, state)
                  WHERE held_by IS NOT NULL;
              CREATE INDEX approvals_kept ON approvals (agent, state) WHERE request IS NOT NULL;
              CREATE INDEX approvals_not_kept ON approvals (state)
                  WHERE request IS NULL AND ended_ms IS NULL;
              CREATE INDEX approvals_ended ON approvals (ended_ms) WHERE ended_ms IS NOT NULL;
              CREATE TABLE approvals_remembered (
                  id TEXT PRIMARY KEY,
                  digest TEXT NOT NULL UNIQUE,
                  remember TEXT NOT NULL,
                  approval TEXT NOT NULL,
                  subject TEXT NOT NULL,
                  binding TEXT NOT NULL,
                  made_by TEXT NOT NULL,
                  made_ms BIGINT NOT NULL,
                  expires_ms BIGINT NOT NULL
              );
              CREATE TABLE approvals_hosts (
                  id TEXT PRIMARY KEY,
                  until_ms BIGINT NOT NULL
              )",
        },
        Migration {
            version: 2,
            sql: "CREATE TABLE approvals_chains (
                  id TEXT PRIMARY KEY,
                  digest TEXT NOT NULL,
                  arguments TEXT NOT NULL,
                  calls_left BIGINT NOT NULL,
                  approval TEXT NOT NULL,
                  made_by TEXT NOT NULL,
                  made_ms BIGINT NOT NULL,
                  expires_ms BIGINT NOT NULL
              );
              CREATE INDEX approvals_chains_for ON approvals_chains (digest, made_ms);
              CREATE INDEX approvals_chains_over ON approvals_chains (expires_ms)",
        },
    ],
    additions: &[],
};

/// The part of the state that is waited for.
pub(crate) const CHANGES: &str = "approvals";
