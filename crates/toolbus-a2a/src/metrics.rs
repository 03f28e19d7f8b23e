//! The metrics of tasks between agents: the one place where they are defined. Their names begin as
//! `RockBot`'s do.
//!
//! No attribute is a name: agents name themselves, and their skills, as they like.

use opentelemetry::metrics::{Counter, Histogram, Meter};
use opentelemetry::{KeyValue, global};
use toolbus_telemetry::{Kind, Metric};
use toolbus_wire::message::a2a::AgentTaskState;

use crate::{TaskChange, TaskEnd};

/// The name of the meter, which is the scope of these metrics.
const METER: &str = "toolbus.a2a";

const DIRECTION: &str = "rockbot.a2a.direction";
const TRANSPORT: &str = "rockbot.a2a.transport";
const OUTCOME: &str = "rockbot.a2a.outcome";

/// Bounds in milliseconds: from an answer that was there to a task that is given hours.
const MILLISECONDS: &[f64] = &[
    100.0,
    250.0,
    500.0,
    1_000.0,
    2_500.0,
    5_000.0,
    10_000.0,
    30_000.0,
    60_000.0,
    120_000.0,
    300_000.0,
    600_000.0,
    1_800_000.0,
    3_600_000.0,
    14_400_000.0,
];

const TASKS: Metric = Metric {
    name: "rockbot.a2a.tasks",
    kind: Kind::Counter,
    unit: "{task}",
    description: "Tasks between agents that have ended, `asked` of others or `received` from them, \
                  over the `bus` or `http`, by outcome: `completed`, `input_required`, `failed`, \
                  `canceled` or `timed_out`; each once, however often its answer comes",
    attributes: &[DIRECTION, TRANSPORT, OUTCOME],
};
const DURATION: Metric = Metric {
    name: "rockbot.a2a.task.duration",
    kind: Kind::Histogram(MILLISECONDS),
    unit: "ms",
    description: "How long tasks between agents took, from when they were written down to their \
                  end, also where another process has ended them",
    attributes: &[DIRECTION, TRANSPORT, OUTCOME],
};
const AGENTS: Metric = Metric {
    name: "rockbot.a2a.agents",
    kind: Kind::ObservedGauge,
    unit: "{agent}",
    description: "Other agents that this one knows, by their announcements, their cards or the \
                  settings",
    attributes: &[],
};

/// Every metric of this crate.
pub const METRICS: &[Metric] = &[TASKS, DURATION, AGENTS];

/// Who has asked for a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// This agent.
    Asked,
    /// Another one.
    Received,
}

/// How tasks and their answers travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Bus,
    Http,
}

/// How a task ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Completed,
    InputRequired,
    Failed,
    Canceled,
    TimedOut,
}

/// A task that has ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndedTask {
    pub(crate) direction: Direction,
    pub(crate) transport: Transport,
    pub(crate) outcome: Outcome,
    pub(crate) took_ms: i64,
}

/// The instruments for tasks. Create it after telemetry has started. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct TaskMetrics {
    tasks: Counter<u64>,
    duration: Histogram<f64>,
}

pub(crate) fn meter() -> Meter {
    global::meter(METER)
}

/// Reports how many agents are known, for as long as `count` knows.
pub(crate) fn observe_agents(
    count: impl Fn() -> Option<usize> + Send + Sync + 'static,
    meter: &Meter,
) {
    AGENTS.observed_gauge(meter, move |observer| {
        if let Some(count) = count() {
            observer.observe(count as u64, &[]);
        }
    });
}

impl TaskMetrics {
    pub(crate) fn new() -> Self {
        Self::of_meter(&meter())
    }

    fn of_meter(meter: &Meter) -> Self {
        Self { tasks: TASKS.counter(meter), duration: DURATION.histogram(meter) }
    }

    /// Records the end of a task.
    pub(crate) fn record(&self, task: EndedTask) {
        let EndedTask { direction, transport, outcome, took_ms } = task;
        let tags = [
            KeyValue::new(DIRECTION, direction.as_str()),
            KeyValue::new(TRANSPORT, transport.as_str()),
            KeyValue::new(OUTCOME, outcome.as_str()),
        ];

        self.tasks.add(1, &tags);
        // A clock that was set back may make it negative.
        self.duration.record(took_ms.max(0) as f64, &tags);
    }
}

impl Direction {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Received => "received",
        }
    }
}

impl Transport {
    pub(crate) const fn of(is_http: bool) -> Self {
        if is_http { Self::Http } else { Self::Bus }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Bus => "bus",
            Self::Http => "http",
        }
    }
}

impl Outcome {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::InputRequired => "input_required",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
            Self::TimedOut => "timed_out",
        }
    }

    /// That of a task of this agent's, by what the other one says.
    pub(crate) fn of_change(change: &TaskChange) -> Self {
        match change {
            TaskChange::Answered { state, .. } => match AgentTaskState::from(*state) {
                AgentTaskState::Completed => Self::Completed,
                AgentTaskState::InputRequired => Self::InputRequired,
                AgentTaskState::Canceled => Self::Canceled,
                _ => Self::Failed,
            },
            TaskChange::TimedOut { .. } => Self::TimedOut,
            TaskChange::Failed { .. }
            | TaskChange::Progress { .. }
            | TaskChange::NotCancelled { .. } => Self::Failed,
        }
    }

    /// That of a task of another agent's.
    pub(crate) const fn of_end(end: &TaskEnd) -> Self {
        match end {
            TaskEnd::Completed { .. } => Self::Completed,
            TaskEnd::InputRequired { .. } => Self::InputRequired,
            TaskEnd::Canceled => Self::Canceled,
            TaskEnd::Failed { .. } => Self::Failed,
        }
    }
}

#[cfg(test)]
mod tests;
