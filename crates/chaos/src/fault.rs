//! The faults by name, how often and how long each strikes, and the schedule that is drawn for one.

use std::ops::Range;
use std::time::Duration;

use anyhow::Context as _;

use crate::broker::NodeCount;
use crate::random::Random;

#[cfg(test)]
mod tests;

/// Resets of callers in each part of the long run, and the mean time between two.
const LONG_RUN_RESETS: usize = 50;
const LONG_RUN_INTERVAL: Duration = Duration::from_millis(250);

/// Something that goes wrong around a fleet that works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing goes wrong, to compare with.
    None,
    /// A caller's connections to the broker are reset.
    CallerReset,
    /// A worker's connections to the broker are reset.
    WorkerReset,
    /// A caller's connections stay and carry nothing, one way or both.
    CallerBlackHole,
    /// A worker's connections stay and carry nothing, one way or both.
    WorkerBlackHole,
    /// Everything on every link is late.
    Latency,
    /// Every link is narrow.
    Bandwidth,
    /// A worker is killed and started again.
    WorkerKill,
    /// A worker is stopped in its tracks and goes on later.
    WorkerStop,
    /// A worker is asked to stop under load and started again.
    WorkerTerm,
    /// A manager's connections to the broker are reset.
    ManagerReset,
    /// A manager is killed and started again.
    ManagerKill,
    /// A manager is asked to stop under load and started again.
    ManagerTerm,
    /// A caller is killed and started again for the calls that it has left.
    CallerKill,
    /// A caller is stopped in its tracks and goes on later.
    CallerStop,
    /// The broker is killed and started again.
    BrokerKill,
    /// The broker is stopped in order and started again.
    BrokerRestart,
    /// The broker blocks publishers for want of memory, for 5 s.
    MemoryAlarm5s,
    /// The same for 35 s, which is longer than a publish waits for its confirm.
    MemoryAlarm35s,
    /// The broker blocks publishers for want of disk, for 5 s.
    DiskAlarm5s,
    /// The same for 35 s.
    DiskAlarm35s,
    /// The broker closes a channel.
    ChannelKill,
    /// The workers' queue is at its limit and refuses.
    QueueFull,
    /// Another queue that is bound to the same topic is at its limit and refuses.
    SecondQueueFull,
    /// Bridges go from one to all and back to one, or the other way round.
    Scale,
    /// Wall clocks are wrong by 5 s: a third of the processes is ahead, a third behind.
    Clock5s,
    /// The same by 120 s.
    Clock120s,
    /// One of three broker nodes is killed.
    NodeKill,
    /// One of three broker nodes is cut off from the others.
    NodeCut,
}

/// How a fault strikes when it is alone.
#[derive(Debug, Clone)]
pub struct FaultPlan {
    /// Mean time from the end of one strike to the next.
    pub interval: Duration,
    /// How long a strike lasts, in milliseconds.
    pub hold_ms: Range<u64>,
    /// Most strikes of a run.
    pub strikes_max: usize,
}

/// One strike.
#[derive(Debug, Clone, Copy)]
pub struct Strike {
    /// What strikes.
    pub fault: Fault,
    /// How long after the end of the one before.
    pub after: Duration,
    /// What the victim is drawn by.
    pub victim: u64,
    /// How long it lasts.
    pub hold: Duration,
}

impl Fault {
    /// All of them, with the names by which `--fault` knows them.
    pub const ALL: [(Self, &'static str); 29] = [
        (Self::None, "none"),
        (Self::CallerReset, "caller-reset"),
        (Self::WorkerReset, "worker-reset"),
        (Self::CallerBlackHole, "caller-black-hole"),
        (Self::WorkerBlackHole, "worker-black-hole"),
        (Self::Latency, "latency"),
        (Self::Bandwidth, "bandwidth"),
        (Self::WorkerKill, "worker-kill"),
        (Self::WorkerStop, "worker-stop"),
        (Self::WorkerTerm, "worker-term"),
        (Self::ManagerReset, "manager-reset"),
        (Self::ManagerKill, "manager-kill"),
        (Self::ManagerTerm, "manager-term"),
        (Self::CallerKill, "caller-kill"),
        (Self::CallerStop, "caller-stop"),
        (Self::BrokerKill, "broker-kill"),
        (Self::BrokerRestart, "broker-restart"),
        (Self::MemoryAlarm5s, "memory-alarm-5s"),
        (Self::MemoryAlarm35s, "memory-alarm-35s"),
        (Self::DiskAlarm5s, "disk-alarm-5s"),
        (Self::DiskAlarm35s, "disk-alarm-35s"),
        (Self::ChannelKill, "channel-kill"),
        (Self::QueueFull, "queue-full"),
        (Self::SecondQueueFull, "second-queue-full"),
        (Self::Scale, "scale"),
        (Self::Clock5s, "clock-5s"),
        (Self::Clock120s, "clock-120s"),
        (Self::NodeKill, "node-kill"),
        (Self::NodeCut, "node-cut"),
    ];

    /// The fault of this name.
    ///
    /// # Errors
    /// When there is none; the error names all.
    pub fn parse(name: &str) -> anyhow::Result<Self> {
        let found = Self::ALL.into_iter().find(|(_, known)| *known == name);
        let (fault, _) = found.with_context(|| {
            let names: Vec<_> = Self::ALL.into_iter().map(|(_, name)| name).collect();
            format!("no fault is called {name}; there are {}", names.join(", "))
        })?;
        Ok(fault)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        let found = Self::ALL.into_iter().find(|(fault, _)| *fault == self);
        found.map_or("?", |(_, name)| name)
    }

    /// Whether it strikes managers of scripts.
    #[must_use]
    pub fn needs_managers(self) -> bool {
        matches!(self, Self::ManagerReset | Self::ManagerKill | Self::ManagerTerm)
    }

    /// How many nodes a broker needs for it.
    #[must_use]
    pub fn node_count(self) -> NodeCount {
        match self {
            Self::NodeKill | Self::NodeCut => NodeCount::Three,
            _ => NodeCount::One,
        }
    }

    /// How it strikes when it is alone.
    #[must_use]
    pub fn plan(self) -> FaultPlan {
        let plan = |interval_ms, hold_ms, strikes_max| FaultPlan {
            interval: Duration::from_millis(interval_ms),
            hold_ms,
            strikes_max,
        };

        match self {
            Self::CallerReset => plan(400, 0..1, 60),
            Self::WorkerReset | Self::ManagerReset => plan(800, 0..1, 30),
            Self::CallerBlackHole | Self::WorkerBlackHole => plan(3_000, 2_000..25_000, 5),
            Self::Latency => plan(500, 2_000..5_000, 20),
            Self::Bandwidth => plan(1_000, 2_000..6_000, 20),
            Self::WorkerKill | Self::ManagerKill | Self::CallerKill => plan(2_000, 300..1_000, 12),
            Self::WorkerStop | Self::CallerStop => plan(2_000, 1_000..30_000, 5),
            Self::WorkerTerm | Self::ManagerTerm => plan(2_000, 100..1_000, 20),
            Self::BrokerKill | Self::BrokerRestart => plan(6_000, 100..3_000, 3),
            Self::MemoryAlarm5s | Self::DiskAlarm5s => plan(5_000, 5_000..5_001, 4),
            Self::MemoryAlarm35s | Self::DiskAlarm35s => plan(3_000, 35_000..35_001, 2),
            Self::ChannelKill => plan(500, 0..1, 20),
            Self::QueueFull | Self::SecondQueueFull => plan(2_000, 2_000..6_000, 5),
            Self::Scale => plan(2_000, 3_000..6_000, 3),
            // Alone, clocks are wrong from the start, and nothing strikes.
            Self::Clock5s | Self::Clock120s => plan(2_000, 4_000..8_000, 0),
            Self::NodeKill | Self::NodeCut => plan(4_000, 1_000..12_000, 4),
            Self::None => plan(1_000, 0..1, 0),
        }
    }

    /// By how much it puts the clocks of processes wrong.
    #[must_use]
    pub fn clock_error(self) -> Option<Duration> {
        match self {
            Self::Clock5s => Some(Duration::from_secs(5)),
            Self::Clock120s => Some(Duration::from_secs(120)),
            _ => None,
        }
    }

    /// Draws the strikes of a run in which it is alone.
    #[must_use]
    pub fn draw_strikes(self, random: &mut Random) -> Vec<Strike> {
        (0..self.plan().strikes_max).map(|_| self.draw_strike(random)).collect()
    }

    /// Draws the strikes of the long run: 50 resets of callers, one strike of another fault, and an
    /// alarm of 35 s; and so on until each fault that one broker node can have has struck once, and
    /// nothing has once.
    #[must_use]
    pub fn draw_long_run(random: &mut Random) -> Vec<Strike> {
        let others = Self::ALL.into_iter().map(|(fault, _)| fault).filter(|fault| {
            let is_from_start = fault.clock_error().is_some();
            let is_counted = *fault == Self::CallerReset || fault.name().contains("-alarm-");
            !is_from_start && !is_counted && fault.node_count() == NodeCount::One
        });
        let alarms = [Self::MemoryAlarm35s, Self::DiskAlarm35s].into_iter().cycle();

        let mut strikes = Vec::new();
        for (other, alarm) in others.zip(alarms) {
            for _ in 0..LONG_RUN_RESETS {
                let after = random.draw_around(LONG_RUN_INTERVAL);
                strikes.push(Strike { after, ..Self::CallerReset.draw_strike(random) });
            }
            strikes.push(other.draw_strike(random));
            strikes.push(alarm.draw_strike(random));
        }
        strikes
    }

    /// Draws one strike.
    pub fn draw_strike(self, random: &mut Random) -> Strike {
        let plan = self.plan();
        Strike {
            fault: self,
            after: random.draw_around(plan.interval),
            victim: random.draw(),
            hold: Duration::from_millis(random.draw_from(plan.hold_ms)),
        }
    }
}
