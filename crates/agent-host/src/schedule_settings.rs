//! The section `schedules` of the settings.

use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolbus_config::Mistakes;
use toolbus_schedule::{
    CronExpression, DESCRIPTION_BYTES_MAX, MissedRule, NewTask, RUN_ALL_MAX, ScheduleConfig,
};
use toolbus_tools::{Door, Lineage, Principal, Scope};
use toolbus_wire::name::AgentName;

/// The task that an agent has by itself, as RockBot names it.
const HEARTBEAT: &str = "heartbeat-patrol";

/// What the agent is to do later, while it serves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ScheduleSettings {
    /// The time zone of those who have set none, such as `Europe/Berlin`.
    pub zone: String,
    /// What becomes of times at which nobody served, where the task does not say.
    pub missed: Missed,
    /// A cron expression by which the agent looks after things by itself, such as `*/30 * * * *`:
    /// the task `heartbeat-patrol` of whoever runs it. Each time is a turn of the model. None when
    /// not set.
    pub heartbeat: Option<String>,
    /// What it does then.
    pub heartbeat_task: String,
}

/// What becomes of times at which nobody served.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Missed {
    /// They are not made up for.
    #[default]
    Skip,
    /// The task runs once for all of them.
    RunOnce,
    /// It runs once for each, the last hundred at most.
    RunAll,
}

impl Default for ScheduleSettings {
    fn default() -> Self {
        Self {
            zone: "UTC".to_owned(),
            missed: Missed::default(),
            heartbeat: None,
            heartbeat_task: "Look whether anything needs to be done or told: tasks that are due, \
                             results that were waited for, what memory says about today. Do what \
                             you can, and say briefly what matters. Say nothing where nothing does."
                .to_owned(),
        }
    }
}

impl ScheduleSettings {
    /// What schedules may hold.
    pub(crate) fn config(&self) -> ScheduleConfig {
        let missed = match self.missed {
            Missed::Skip => MissedRule::Skip,
            Missed::RunOnce => MissedRule::RunOnce,
            Missed::RunAll => MissedRule::RunAll { max: RUN_ALL_MAX },
        };
        // Checked when the settings were read.
        let zone = TimeZone::get(&self.zone).unwrap_or(TimeZone::UTC);
        ScheduleConfig { zone, missed, ..ScheduleConfig::default() }
    }

    /// The task of the agent's own, where it has one.
    pub(crate) fn heartbeat(&self, agent: &AgentName) -> Option<NewTask> {
        let cron = self.heartbeat.as_deref()?.parse().ok()?;
        Some(NewTask {
            name: HEARTBEAT.to_owned(),
            cron,
            description: self.heartbeat_task.clone(),
            run_once: false,
            missed: Some(MissedRule::Skip),
            lineage: Lineage::of(&Scope::new(Door::Schedule, Principal::local(), agent.clone())),
        })
    }

    /// Adds what is wrong with them, under the key that they have.
    pub(crate) fn check(&self, key: &str, mistakes: &mut Mistakes<'_>) {
        if TimeZone::get(&self.zone).is_err() {
            mistakes.add(&format!("{key}.zone"), format!("there is no zone '{}'", self.zone));
        }
        if let Some(cron) = &self.heartbeat
            && let Err(error) = cron.parse::<CronExpression>()
        {
            mistakes.add(&format!("{key}.heartbeat"), error.to_string());
        }
        if !(1..=DESCRIPTION_BYTES_MAX).contains(&self.heartbeat_task.len()) {
            let what = format!("it has 1 to {DESCRIPTION_BYTES_MAX} bytes");
            mistakes.add(&format!("{key}.heartbeat_task"), what);
        }
    }
}
