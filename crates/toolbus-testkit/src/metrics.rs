//! The metrics of one test, or of its process, as a collector would be sent them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Meter, MeterProvider as _};
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, Metric, MetricData};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, SdkMeterProvider};

/// Keeps what is recorded.
pub struct Metrics {
    provider: SdkMeterProvider,
    exporter: InMemoryMetricExporter,
}

/// One value.
struct Point {
    metric: String,
    /// By their names.
    attributes: BTreeMap<String, String>,
    value: f64,
}

impl Metrics {
    /// Keeps what is recorded with [`Metrics::meter`].
    #[must_use]
    #[expect(clippy::new_without_default, reason = "one that keeps nothing yet is no default")]
    pub fn new() -> Self {
        let exporter = InMemoryMetricExporter::default();
        let provider = SdkMeterProvider::builder().with_periodic_exporter(exporter.clone()).build();
        Self { provider, exporter }
    }

    /// Keeps what is recorded by instruments that are made from now on with the global meter. Other
    /// tests of the process may record with them, too.
    pub fn of_process() -> &'static Self {
        static METRICS: OnceLock<Metrics> = OnceLock::new();
        METRICS.get_or_init(|| {
            let metrics = Self::new();
            opentelemetry::global::set_meter_provider(metrics.provider.clone());
            metrics
        })
    }

    /// A meter whose instruments are kept here.
    #[must_use]
    pub fn meter(&self) -> Meter {
        self.provider.meter("test")
    }

    /// Each value by its metric and the values of its attributes, in the order of their names. A
    /// histogram has the sum of what was recorded.
    ///
    /// # Panics
    /// When it is of a kind that we do not make, or cannot be read.
    #[must_use]
    pub fn values(&self) -> BTreeMap<String, f64> {
        let name = |point: &Point| {
            let values = point.attributes.values().map(|value| format!(" {value}"));
            point.metric.clone() + &values.collect::<String>()
        };
        self.points().into_iter().map(|point| (name(&point), point.value)).collect()
    }

    /// The attributes that each metric has had.
    ///
    /// # Panics
    /// As [`Metrics::values`].
    #[must_use]
    pub fn attributes(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut attributes = BTreeMap::<String, BTreeSet<String>>::new();
        for point in self.points() {
            attributes.entry(point.metric).or_default().extend(point.attributes.into_keys());
        }
        attributes
    }

    fn points(&self) -> Vec<Point> {
        // What is sent is the whole each time, and the last counts.
        self.exporter.reset();
        self.provider.force_flush().expect("an exporter in memory takes everything");
        let finished = self.exporter.get_finished_metrics().expect("nobody panicked meanwhile");
        let last = finished.last().into_iter();
        let scopes = last.flat_map(|resource| resource.scope_metrics());
        scopes.flat_map(|scope| scope.metrics()).flat_map(points_of).collect()
    }
}

fn points_of(metric: &Metric) -> Vec<Point> {
    fn point<'a>(
        metric: &Metric,
        attributes: impl Iterator<Item = &'a KeyValue>,
        value: f64,
    ) -> Point {
        let text = |one: &KeyValue| (one.key.to_string(), one.value.to_string());
        let (metric, attributes) = (metric.name().to_owned(), attributes.map(text).collect());
        Point { metric, attributes, value }
    }

    match metric.data() {
        AggregatedMetrics::U64(MetricData::Sum(sum)) => {
            let points = sum.data_points();
            points.map(|data| point(metric, data.attributes(), data.value() as f64)).collect()
        }
        AggregatedMetrics::I64(MetricData::Sum(sum)) => {
            let points = sum.data_points();
            points.map(|data| point(metric, data.attributes(), data.value() as f64)).collect()
        }
        AggregatedMetrics::U64(MetricData::Gauge(gauge)) => {
            let points = gauge.data_points();
            points.map(|data| point(metric, data.attributes(), data.value() as f64)).collect()
        }
        AggregatedMetrics::F64(MetricData::Histogram(histogram)) => {
            let points = histogram.data_points();
            points.map(|data| point(metric, data.attributes(), data.sum())).collect()
        }
        other => panic!("{}: {other:?}", metric.name()),
    }
}
