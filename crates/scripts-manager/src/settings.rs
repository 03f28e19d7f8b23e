//! The settings of `scripts-manager`.

use std::num::NonZeroU16;
use std::ops::RangeInclusive;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolbus_config::shared_settings::{
    BusSettings, HealthSettings, LogSettings, ShutdownSettings, TelemetrySettings,
};
use toolbus_config::{BusUrls, Mistakes};
use toolbus_pods::settings::KubernetesSettings;
use toolbus_runtime::service::{FrameSettings, ServiceSettings};
use toolbus_sandbox::settings::ScriptsSettings;
use toolbus_scripts::fair_runner::Shares;
use toolbus_tools::grant::settings::GrantCheckSettings;

/// Most scripts that wait here beside those that run; the others wait in the broker's queue, where
/// any manager may take them. When this process is killed, those here have an unknown outcome: so
/// not many.
const WAITING_MAX: usize = 8;

/// RabbitMQ closes a connection that it hears nothing on for three heartbeats at the latest, and
/// hands its calls to others. These find pods to adopt for 25 s.
const HEARTBEAT_SECONDS: RangeInclusive<u64> = 1..=8;

/// Settings of `scripts-manager`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// What to call this instance in logs and traces.
    pub name: Option<String>,
    /// Where scripts run.
    pub runner: RunnerKind,
    /// The bus to join.
    pub bus: BusSettings,
    /// How scripts run on this machine; how many at a time, anywhere.
    pub scripts: ScriptsSettings,
    /// What each agent may have of it.
    pub agents: AgentsSettings,
    /// How scripts run in pods.
    pub kubernetes: KubernetesSettings,
    /// Whose requests are taken.
    pub grants: GrantCheckSettings,
    /// The health port.
    pub health: HealthSettings,
    /// Logs.
    pub log: LogSettings,
    /// Traces, metrics and logs for a collector.
    pub telemetry: TelemetrySettings,
    /// How to stop.
    pub shutdown: ShutdownSettings,
}

/// What each of the agents that ask for scripts may have, so that none keeps the others waiting.
/// Agents are told apart by what they call themselves. What is over a bound is refused at once, as
/// busy.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AgentsSettings {
    /// Scripts of one agent that run at a time. Without it: half of `scripts.max_concurrent`.
    #[schemars(range(min = 1, max = 256))]
    pub max_concurrent: Option<NonZeroU16>,
    /// Scripts of one agent that may wait for their turn at a manager, beside those that run.
    /// Without it: as many as wait there, of all agents, which are as many as may run at a time, up
    /// to eight. More wait in the broker's queue, in their order.
    #[schemars(range(max = 1000))]
    pub max_waiting: Option<u16>,
}

impl Settings {
    /// How many requests are taken at a time: as many as may run, and a few that wait.
    #[must_use]
    pub fn concurrency(&self) -> NonZeroU16 {
        let Shares { running, waiting, .. } = self.agents.shares(self.scripts.max_concurrent);
        let concurrency = u16::try_from(running + waiting).unwrap_or(u16::MAX);
        NonZeroU16::new(concurrency).unwrap_or(NonZeroU16::MIN)
    }
}

impl AgentsSettings {
    /// How a runner with this many places is shared.
    pub(crate) fn shares(&self, places: NonZeroU16) -> Shares {
        let running = usize::from(places.get());
        let of_one = self.max_concurrent.map_or(running.div_ceil(2), |max| max.get().into());
        let waiting = running.min(WAITING_MAX);
        Shares {
            running,
            running_of_one: of_one.min(running),
            waiting,
            waiting_of_one: self.max_waiting.map_or(waiting, usize::from),
        }
    }
}

/// Where scripts run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RunnerKind {
    /// In a sandbox on this machine.
    #[default]
    Local,
    /// In pods of a cluster, one for each.
    Kubernetes,
}

impl toolbus_config::Settings for Settings {
    fn check(&self, mistakes: &mut Mistakes<'_>) {
        if self.bus.url.is_none() {
            mistakes.add("bus.url", "a worker needs a broker: --bus or TOOLBUS_BUS names it");
        }
        if self.runner == RunnerKind::Kubernetes && self.bus.url.as_ref().is_some_and(is_slow) {
            mistakes.add(
                "bus.url",
                "with pods, heartbeat is 1 to 8 s: the broker must notice the end of a manager \
                 before other managers delete its pods",
            );
        }
        self.scripts.check(mistakes);
        self.kubernetes.check(mistakes);
        self.grants.check(mistakes);
    }
}

/// Whether the broker may take longer to notice that a manager is gone than other managers do.
fn is_slow(urls: &BusUrls) -> bool {
    let heartbeats = urls.parameters("heartbeat");
    let seconds = heartbeats.iter().filter_map(|value| value.parse::<u64>().ok());
    seconds.into_iter().any(|seconds| !HEARTBEAT_SECONDS.contains(&seconds))
}

impl ServiceSettings for Settings {
    fn frame(&self) -> FrameSettings<'_> {
        FrameSettings {
            name: self.name.as_deref(),
            health: &self.health,
            log: &self.log,
            telemetry: &self.telemetry,
            shutdown: &self.shutdown,
        }
    }
}
