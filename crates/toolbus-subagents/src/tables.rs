//! The tables.

use toolbus_store::{Migration, Migrations};

/// The part of the state that tells of subagents: their ends, and that they are to be cancelled,
/// paused, or to go on.
pub(crate) const CHANGES: &str = "subagents";

/// What a store needs that keeps subagents and whiteboards.
///
/// A row of `subagents` is `running` until its end is written, once, and `told_ms` is there once
/// that was told. A row of `subagent_sessions` is written by whoever counts in a session, so that
/// of two processes of PostgreSQL one waits for the other.
pub const MIGRATIONS: Migrations = Migrations {
    owner: "subagents",
    steps: &[Migration { version: 1, sql: TABLES }],
    additions: &[
        // The lineage that a subagent inherits beside its owner, a `Lineage` in JSON. `depth`,
        // which the lineage contains, is written for programs from before this migration.
        Migration {
            version: 2,
            sql: "ALTER TABLE subagents ADD COLUMN lineage TEXT NOT NULL DEFAULT ''",
        },
    ],
};

const TABLES: &str = "CREATE TABLE subagents (
                  id TEXT PRIMARY KEY,
                  agent TEXT NOT NULL,
                  owner TEXT NOT NULL,
                  session TEXT NOT NULL,
                  call TEXT NOT NULL,
                  description TEXT NOT NULL,
                  context TEXT NOT NULL,
                  priority BIGINT NOT NULL,
                  depth BIGINT NOT NULL,
                  state TEXT NOT NULL,
                  is_paused BIGINT NOT NULL,
                  holder TEXT NOT NULL,
                  lease_until_ms BIGINT NOT NULL,
                  begun BIGINT NOT NULL,
                  created_ms BIGINT NOT NULL,
                  deadline_ms BIGINT NOT NULL,
                  spent_calls BIGINT NOT NULL,
                  spent_turns BIGINT NOT NULL,
                  spent_tokens BIGINT NOT NULL,
                  spent_micro_usd BIGINT NOT NULL,
                  cancel_ms BIGINT,
                  ended_ms BIGINT,
                  told_ms BIGINT,
                  outcome TEXT NOT NULL,
                  teller TEXT NOT NULL,
                  telling_until_ms BIGINT NOT NULL
              );
              CREATE UNIQUE INDEX subagents_call ON subagents (agent, call);
              CREATE INDEX subagents_open ON subagents (agent) WHERE told_ms IS NULL;
              CREATE INDEX subagents_session ON subagents (agent, owner, session, state);
              CREATE INDEX subagents_told ON subagents (agent, told_ms);
              CREATE TABLE subagent_sessions (
                  agent TEXT NOT NULL,
                  owner TEXT NOT NULL,
                  session TEXT NOT NULL,
                  used_ms BIGINT NOT NULL,
                  PRIMARY KEY (agent, owner, session)
              );
              CREATE TABLE subagent_whiteboard (
                  agent TEXT NOT NULL,
                  owner TEXT NOT NULL,
                  session TEXT NOT NULL,
                  name TEXT NOT NULL,
                  value TEXT NOT NULL,
                  bytes BIGINT NOT NULL,
                  writer TEXT NOT NULL,
                  written_ms BIGINT NOT NULL,
                  PRIMARY KEY (agent, owner, session, name)
              );
              CREATE INDEX subagent_whiteboard_age ON subagent_whiteboard (agent, written_ms)";
