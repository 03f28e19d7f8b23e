//! The definition of a metric, and its instrument.

use opentelemetry::metrics::{
    AsyncInstrument, Counter, Histogram, Meter, ObservableCounter, ObservableGauge, UpDownCounter,
};

/// Bounds of histograms of what a message takes, in seconds: those that OpenTelemetry names for
/// messaging, with two finer ones, since our broker is near.
pub const MESSAGE_SECONDS: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
];
/// Bounds of histograms of what a call takes, in seconds: from a local tool to one that is given
/// minutes. OpenTelemetry names those from 10 ms to 120 s for MCP.
pub const CALL_SECONDS: &[f64] =
    &[0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

/// The definition of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Metric {
    /// Its name, as OpenTelemetry has it.
    pub name: &'static str,
    /// What kind of instrument records it.
    pub kind: Kind,
    /// Its unit in UCUM.
    pub unit: &'static str,
    /// What it counts or measures: a fragment without a full stop.
    pub description: &'static str,
    /// The names of the attributes that a point may have.
    pub attributes: &'static [&'static str],
}

/// A kind of instrument.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Grows and shrinks by what is added.
    UpDownCounter,
    /// A distribution, with the upper bounds of its buckets.
    Histogram(&'static [f64]),
    /// Only grows, and is looked up when metrics are exported.
    ObservedCounter,
    /// A value that is looked up when metrics are exported.
    ObservedGauge,
}

/// Each makes the instrument of a definition, and panics on one of another kind: that is a mistake
/// in the program, which its first start shows.
impl Metric {
    /// The counter.
    #[must_use]
    pub fn counter(&self, meter: &Meter) -> Counter<u64> {
        assert_eq!(self.kind, Kind::Counter, "{}", self.name);
        let builder = meter.u64_counter(self.name);
        builder.with_unit(self.unit).with_description(self.description).build()
    }

    /// The counter that also shrinks.
    #[must_use]
    pub fn up_down_counter(&self, meter: &Meter) -> UpDownCounter<i64> {
        assert_eq!(self.kind, Kind::UpDownCounter, "{}", self.name);
        let builder = meter.i64_up_down_counter(self.name);
        builder.with_unit(self.unit).with_description(self.description).build()
    }

    /// The histogram, with its bounds.
    #[must_use]
    pub fn histogram(&self, meter: &Meter) -> Histogram<f64> {
        let Kind::Histogram(bounds) = self.kind else { panic!("{} is no histogram", self.name) };
        let builder = meter.f64_histogram(self.name).with_boundaries(bounds.to_vec());
        builder.with_unit(self.unit).with_description(self.description).build()
    }

    /// The counter whose value `observe` tells. It is asked for as long as the process lives.
    pub fn observed_counter(
        &self,
        meter: &Meter,
        observe: impl Fn(&dyn AsyncInstrument<u64>) + Send + Sync + 'static,
    ) -> ObservableCounter<u64> {
        assert_eq!(self.kind, Kind::ObservedCounter, "{}", self.name);
        let builder = meter.u64_observable_counter(self.name).with_callback(observe);
        builder.with_unit(self.unit).with_description(self.description).build()
    }

    /// The gauge whose value `observe` tells. It is asked for as long as the process lives.
    pub fn observed_gauge(
        &self,
        meter: &Meter,
        observe: impl Fn(&dyn AsyncInstrument<u64>) + Send + Sync + 'static,
    ) -> ObservableGauge<u64> {
        assert_eq!(self.kind, Kind::ObservedGauge, "{}", self.name);
        let builder = meter.u64_observable_gauge(self.name).with_callback(observe);
        builder.with_unit(self.unit).with_description(self.description).build()
    }
}

#[cfg(test)]
mod tests;
