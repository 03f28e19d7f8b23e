//! The tables.

use toolbus_store::{Migration, Migrations};

/// The part of the state that tells of tasks that are put, cancelled, or to run at once.
pub(crate) const CHANGES: &str = "schedule";

/// What a store needs that keeps schedules.
///
/// `next_ms` of a task is its first time that has no row among the occurrences yet, and
/// `accounted_ms` the last that has one. Each time that a task is put, it has another `generation`.
pub const MIGRATIONS: Migrations = Migrations {
    owner: "schedule",
    steps: &[
        Migration { version: 1, sql: TABLES },
        // The scheduler looks for what is due, however many tasks there are.
        Migration {
            version: 2,
            sql: "CREATE INDEX schedule_tasks_next ON schedule_tasks (agent, next_ms)",
        },
    ],
    additions: &[
        // The lineage that runs inherit, a `Lineage` in JSON. Runs of existing tasks inherit
        // nothing, as before. The owner identifies the principal; `principal` is written for
        // programs from before this migration.
        Migration { version: 3, sql: LINEAGE },
    ],
};

const LINEAGE: &str = r#"
    ALTER TABLE schedule_tasks ADD COLUMN lineage TEXT NOT NULL
        DEFAULT '{"run":"","door":"schedule","doors":["schedule"],"depth":0}';
    ALTER TABLE schedule_occurrences ADD COLUMN lineage TEXT NOT NULL
        DEFAULT '{"run":"","door":"schedule","doors":["schedule"],"depth":0}'"#;

const TABLES: &str = "CREATE TABLE schedule_tasks (
                  agent TEXT NOT NULL,
                  owner TEXT NOT NULL,
                  id TEXT NOT NULL,
                  generation TEXT NOT NULL,
                  name TEXT NOT NULL,
                  principal TEXT NOT NULL,
                  cron TEXT NOT NULL,
                  zone TEXT NOT NULL,
                  run_once BIGINT NOT NULL,
                  missed TEXT NOT NULL,
                  missed_max BIGINT NOT NULL,
                  created_ms BIGINT NOT NULL,
                  last_fired_ms BIGINT,
                  next_ms BIGINT,
                  accounted_ms BIGINT,
                  description TEXT NOT NULL,
                  PRIMARY KEY (agent, owner, id)
              );
              CREATE UNIQUE INDEX schedule_tasks_generation ON schedule_tasks (generation);
              CREATE TABLE schedule_occurrences (
                  id TEXT PRIMARY KEY,
                  agent TEXT NOT NULL,
                  owner TEXT NOT NULL,
                  task TEXT NOT NULL,
                  generation TEXT NOT NULL,
                  name TEXT NOT NULL,
                  principal TEXT NOT NULL,
                  cause TEXT NOT NULL,
                  state TEXT NOT NULL,
                  reason TEXT NOT NULL,
                  due_ms BIGINT NOT NULL,
                  until_ms BIGINT NOT NULL,
                  fires BIGINT NOT NULL,
                  missed_before BIGINT NOT NULL,
                  attempts BIGINT NOT NULL,
                  retry_ms BIGINT NOT NULL,
                  fired_ms BIGINT NOT NULL,
                  started_ms BIGINT,
                  ended_ms BIGINT,
                  description TEXT NOT NULL
              );
              CREATE UNIQUE INDEX schedule_occurrences_once
                  ON schedule_occurrences (generation, due_ms, cause);
              CREATE INDEX schedule_occurrences_open ON schedule_occurrences (agent)
                  WHERE ended_ms IS NULL;
              CREATE INDEX schedule_occurrences_listed
                  ON schedule_occurrences (agent, owner, due_ms)";
