//! Clocks that differ, as a metric.

use std::time::Duration;

use opentelemetry::metrics::{Histogram, Meter};
use opentelemetry::{KeyValue, global};
use toolbus_telemetry::Bounded;

use super::calls::CALLERS_MAX;
use super::{CALLER, CLOCK_SKEW, METER};

/// Metric of one end of calls: how far the clocks of the other ends are ahead.
#[derive(Debug)]
pub(crate) struct ClockSkew {
    callers: Bounded,
    skew: Histogram<f64>,
}

impl ClockSkew {
    pub(crate) fn new() -> Self {
        Self::of_meter(&global::meter(METER))
    }

    pub(super) fn of_meter(meter: &Meter) -> Self {
        Self { callers: Bounded::new(CALLERS_MAX), skew: CLOCK_SKEW.histogram(meter) }
    }

    /// Records by how much the peer's clock is ahead, of a call of this agent.
    pub(crate) fn record(&self, caller: &str, ahead: Duration) {
        let tags = [KeyValue::new(CALLER, self.callers.value(caller))];
        self.skew.record(ahead.as_secs_f64(), &tags);
    }
}
