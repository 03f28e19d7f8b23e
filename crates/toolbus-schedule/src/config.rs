//! What schedules may hold, and how the scheduler goes about them.

use std::time::Duration;

use jiff::tz::TimeZone;

use crate::MissedRule;

/// What schedules may hold, and how the scheduler goes about them.
#[derive(Debug, Clone)]
pub struct ScheduleConfig {
    /// The zone of those who have set none.
    pub zone: TimeZone,
    /// Most tasks of one principal with an agent.
    pub tasks_max: u64,
    /// Most tasks of an agent.
    pub agent_tasks_max: u64,
    /// Most occurrences that are kept of one principal with an agent after their end.
    pub history_max: u64,
    /// What becomes of missed fires of tasks that come again, where a task does not say.
    pub missed: MissedRule,
    /// The same of tasks that run once.
    pub missed_of_run_once: MissedRule,
    /// Most runs of an agent at a time.
    pub runs_max: usize,
    /// How long a run may take. It is stopped then.
    pub run_timeout: Duration,
    /// How long runs have to end that are stopped: less than the lease is held.
    pub stop_grace: Duration,
    /// Until a task is tried again that found the agent busy or was preempted.
    pub retry_interval: Duration,
    /// How often it is tried again.
    pub retries_max: u32,
    /// How long a process that was killed keeps the schedules to itself. It is renewed in a third
    /// of it.
    pub lease_ttl: Duration,
}

impl Default for ScheduleConfig {
    fn default() -> Self {
        Self {
            zone: TimeZone::UTC,
            tasks_max: 100,
            agent_tasks_max: 1_000,
            history_max: 500,
            missed: MissedRule::Skip,
            missed_of_run_once: MissedRule::RunOnce,
            runs_max: 1,
            run_timeout: Duration::from_secs(60 * 60),
            stop_grace: Duration::from_secs(5),
            retry_interval: Duration::from_secs(2 * 60),
            retries_max: 15,
            lease_ttl: Duration::from_secs(10),
        }
    }
}
