//! The tables.

use toolbus_store::{Migration, Migrations};

/// The part of the state that tells of tasks: their ends, and that they are to be cancelled.
pub(crate) const CHANGES: &str = "a2a";
/// The part that tells of tasks of clients over HTTP: that they began, go on, or ended.
pub(crate) const HTTP_CHANGES: &str = "a2a_http";

/// What a store needs that keeps agents and their tasks.
///
/// `a2a_asked` are tasks for other agents. One is `open` until its end is written, once; what is
/// to be told of it is its `event`, and once the end was told, the row is gone. `a2a_tasks` are
/// the tasks of others. One is `running` until its answer is written, once, and `answered_ms` is
/// there once that was published. Those of clients over HTTP are not published: their rows are
/// what clients read. `a2a_sent` has, beside the row in `a2a_asked`, what is sent over HTTP: it is
/// `new` until it is `sending`, and `sent` once the agent has said its id of the task.
pub const MIGRATIONS: Migrations = Migrations {
    owner: "a2a",
    steps: &[
        Migration { version: 1, sql: BUS_TABLES },
        Migration {
            version: 2,
            sql: "ALTER TABLE a2a_tasks ADD COLUMN message_id TEXT;
                  ALTER TABLE a2a_tasks ADD COLUMN end_state BIGINT;
                  CREATE TABLE a2a_sent (
                      id TEXT PRIMARY KEY,
                      agent TEXT NOT NULL,
                      state TEXT NOT NULL,
                      message TEXT NOT NULL,
                      depth BIGINT NOT NULL,
                      url TEXT NOT NULL,
                      version TEXT NOT NULL,
                      remote_id TEXT NOT NULL,
                      holder TEXT NOT NULL,
                      lease_until_ms BIGINT NOT NULL
                  );
                  CREATE INDEX a2a_sent_agent ON a2a_sent (agent)",
        },
    ],
    additions: &[
        // What turns inherit that are begun to tell of a task, a `Lineage` in JSON; and the doors
        // that tasks came through.
        Migration {
            version: 3,
            sql: "ALTER TABLE a2a_asked ADD COLUMN lineage TEXT NOT NULL DEFAULT '';
                  ALTER TABLE a2a_sent ADD COLUMN doors TEXT NOT NULL DEFAULT '[]';
                  ALTER TABLE a2a_tasks ADD COLUMN doors TEXT NOT NULL DEFAULT '[]'",
        },
    ],
};

const BUS_TABLES: &str = "CREATE TABLE a2a_agents (
                  agent TEXT NOT NULL,
                  id TEXT NOT NULL,
                  seen_ms BIGINT NOT NULL,
                  card TEXT NOT NULL,
                  PRIMARY KEY (agent, id)
              );
              CREATE TABLE a2a_asked (
                  id TEXT PRIMARY KEY,
                  agent TEXT NOT NULL,
                  owner TEXT NOT NULL,
                  session TEXT NOT NULL,
                  target TEXT NOT NULL,
                  skill TEXT NOT NULL,
                  holder TEXT NOT NULL,
                  state TEXT NOT NULL,
                  created_ms BIGINT NOT NULL,
                  deadline_ms BIGINT NOT NULL,
                  cancel_ms BIGINT,
                  ended_ms BIGINT,
                  event TEXT NOT NULL,
                  teller TEXT NOT NULL,
                  telling_until_ms BIGINT NOT NULL
              );
              CREATE INDEX a2a_asked_agent ON a2a_asked (agent);
              CREATE TABLE a2a_tasks (
                  agent TEXT NOT NULL,
                  caller TEXT NOT NULL,
                  id TEXT NOT NULL,
                  state TEXT NOT NULL,
                  holder TEXT NOT NULL,
                  lease_until_ms BIGINT NOT NULL,
                  begun BIGINT NOT NULL,
                  received_ms BIGINT NOT NULL,
                  deadline_ms BIGINT NOT NULL,
                  cancel_ms BIGINT,
                  ended_ms BIGINT,
                  answered_ms BIGINT,
                  reply_to TEXT NOT NULL,
                  depth BIGINT NOT NULL,
                  context TEXT,
                  request TEXT NOT NULL,
                  answer_type TEXT NOT NULL,
                  answer TEXT NOT NULL,
                  PRIMARY KEY (agent, caller, id)
              );
              CREATE INDEX a2a_tasks_open ON a2a_tasks (agent) WHERE answered_ms IS NULL;
              CREATE INDEX a2a_tasks_answered ON a2a_tasks (agent, answered_ms)";
